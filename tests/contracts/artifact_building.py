"""The words the artifact contract is written in: parts, whose they are, saving and loading.

It knows no service and no rule.
"""

from __future__ import annotations

from typing import Any

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.genai import types

from tests.contracts.building import ANA, ANA_AT_BANK, BEN

S1: dict[str, Any] = {**ANA, "session_id": "s1"}
S2: dict[str, Any] = {**ANA, "session_id": "s2"}
BEN_S1: dict[str, Any] = {**BEN, "session_id": "s1"}
BANK_S1: dict[str, Any] = {**ANA_AT_BANK, "session_id": "s1"}
SHARED: dict[str, Any] = {**ANA, "session_id": None}

TOMBSTONE = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""What ADK's rewind saves where there was no artifact."""


def text(said: str) -> types.Part:
    """Return a part with text."""
    return types.Part(text=said)


def image(data: bytes = b"\x89PNG", mime_type: str | None = "image/png", **more: Any) -> types.Part:
    """Return a part with bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, **more))


def pointer(uri: str | None, mime_type: str | None = None, **more: Any) -> types.Part:
    """Return a part that points at something."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type, **more))


def reference(name: str, version: int = 0, session: str | None = "s1", user: str = "ana") -> Any:
    """Return a part that refers to an artifact of the app."""
    scope = f"sessions/{session}/" if session else ""
    base = f"artifact://apps/travel/users/{user}"
    return pointer(f"{base}/{scope}artifacts/{name}/versions/{version}")


async def save(
    service: BaseArtifactService,
    name: str,
    artifact: Any = "one",
    whose: dict[str, Any] = S1,
    **more: Any,
) -> int:
    """Save a version, of a text where no part is given; return its number."""
    part = text(artifact) if isinstance(artifact, str) else artifact
    return await service.save_artifact(**whose, filename=name, artifact=part, **more)


async def load(
    service: BaseArtifactService,
    name: str,
    version: int | None = None,
    whose: dict[str, Any] = S1,
) -> types.Part | None:
    """Load a version, the latest for None."""
    return await service.load_artifact(**whose, filename=name, version=version)


async def said(
    service: BaseArtifactService,
    name: str,
    version: int | None = None,
    whose: dict[str, Any] = S1,
) -> str | None:
    """Load a version's text."""
    part = await load(service, name, version, whose)
    return None if part is None else part.text


async def keys(service: BaseArtifactService, whose: dict[str, Any] = S1) -> list[str]:
    """Return the names that are listed."""
    return await service.list_artifact_keys(**whose)


async def versions(
    service: BaseArtifactService, name: str, whose: dict[str, Any] = S1
) -> list[int]:
    """Return the numbers of the versions that are listed."""
    return await service.list_versions(**whose, filename=name)
