"""An object-storage-native lakehouse backend for Google ADK agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakestore import errors

if TYPE_CHECKING:
    from lakestore.adk.artifacts import LakeArtifactService
    from lakestore.adk.memories import LakeMemoryService
    from lakestore.adk.sessions import LakeSessionService
    from lakestore.adk.telemetry import LakeTelemetryPlugin
    from lakestore.lake import Lake
    from lakestore.log.marker import Limits

__all__ = [
    "Lake",
    "LakeArtifactService",
    "LakeMemoryService",
    "LakeSessionService",
    "LakeTelemetryPlugin",
    "Limits",
    "errors",
]

# Imported when they are asked for: pyarrow takes a fifth of a second, and ADK several.
_HOMES = {
    "Lake": "lakestore.lake",
    "LakeArtifactService": "lakestore.adk.artifacts",
    "LakeMemoryService": "lakestore.adk.memories",
    "LakeSessionService": "lakestore.adk.sessions",
    "LakeTelemetryPlugin": "lakestore.adk.telemetry",
    "Limits": "lakestore.log.marker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakestore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
