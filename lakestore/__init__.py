"""An object-storage-native lakehouse backend for Google ADK agents."""

from typing import TYPE_CHECKING, Any

from lakestore import errors
from lakestore.lake import Lake
from lakestore.log.marker import Limits

if TYPE_CHECKING:
    from lakestore.adk.sessions import LakeSessionService

__all__ = ["Lake", "LakeSessionService", "Limits", "errors"]


def __getattr__(name: str) -> Any:
    """Import what needs google.adk only when it is asked for: ADK takes seconds to import."""
    if name == "LakeSessionService":
        from lakestore.adk.sessions import LakeSessionService

        return LakeSessionService
    raise AttributeError(f"module 'lakestore' has no attribute {name!r}")
