"""A disk that cannot say whether a name will survive: nothing under it is acknowledged."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from lakestore import Lake, LakeArtifactService, LakeSessionService
from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.storage import local

APP, USER, SESSION = "a", "u", "s"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake in a folder."""
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no folder that has files be made durable from now on."""
    works = local._fsync_folder

    def failing(folder: str) -> None:
        if any(entry.is_file() for entry in Path(folder).iterdir()):
            raise OSError(errno.EIO, "the disk does not answer", folder)
        works(folder)

    monkeypatch.setattr(local, "_fsync_folder", failing)


def test_an_event(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be read, and may be gone after a crash: its outcome is unknown."""
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
    service.append_event(session, Event(author="user"))
    fail(monkeypatch)
    with pytest.raises(UnknownOutcomeError, match="durable"):
        service.append_event(session, Event(author="user"))


def test_an_artifact(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that may be gone gets no version."""
    service = LakeArtifactService(lake).sync
    scope = {"app_name": APP, "user_id": USER, "session_id": SESSION}
    where: dict[str, Any] = {**scope, "filename": "f.txt"}
    service.save_artifact(**where, artifact=types.Part(text="first"))
    fail(monkeypatch)
    with pytest.raises(StorageError, match="durable"):
        service.save_artifact(**where, artifact=types.Part(text="second"))
    monkeypatch.undo()
    assert service.list_versions(**where) == [0]
