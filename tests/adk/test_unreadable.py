"""What cannot be read costs what it holds, and is told; all else is read as ever."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.adk.events.event import Event
from google.genai import types

import lakestore.catalog  # noqa: F401 - now: who is unprivileged may not read Python's files
from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.errors import StorageError
from tests.support.unprivileged import public_folder, unprivileged

pytestmark = pytest.mark.skipif(
    not hasattr(os, "seteuid"), reason="permissions are another matter here"
)

SESSIONS = "events/log/app=a/user=ana"
SECOND = f"{SESSIONS}/session=s1/00000000000000000002.parquet"

Close = Callable[[Path], None]


def said(text: str) -> Event:
    """Return an event that sets shared state too."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    event = Event(author="user", content=content)
    event.actions.state_delta = {"k": text, "user:k": text, "app:k": text}
    return event


@pytest.fixture
def lake_folder() -> Iterator[Path]:
    """A lake with three sessions of two users of one app, and one of another app."""
    with public_folder() as folder:
        with Lake.open(folder) as lake:
            sessions = LakeSessionService(lake).sync
            for app, user, session_id in (
                ("a", "ana", "s1"),
                ("a", "ana", "s2"),
                ("a", "ben", "s3"),
                ("b", "ana", "s4"),
            ):
                session = sessions.create_session(app_name=app, user_id=user, session_id=session_id)
                sessions.append_event(session, said(f"{session_id} one"))
                sessions.append_event(session, said(f"{session_id} two"))
        yield folder


@pytest.fixture
def service(lake_folder: Path) -> Iterator[SyncSessionService]:
    """What another process sees, whom permissions bind."""
    with unprivileged(), Lake.open(lake_folder, read_only=True) as lake:
        yield LakeSessionService(lake).sync


def locked(key: str) -> Close:
    """Return what takes the permission to read what is at `key`."""

    def close(folder: Path) -> None:
        _as_root(lambda: (folder / key).chmod(0))

    return close


def looped(key: str) -> Close:
    """Return what puts a link that leads to itself in the place of `key`."""

    def close(folder: Path) -> None:
        def replace() -> None:
            path = folder / key
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(path)

        _as_root(replace)

    return close


def _as_root(act: Callable[[], None]) -> None:
    mine = os.geteuid()
    os.seteuid(os.getuid())
    try:
        act()
    finally:
        os.seteuid(mine)


def listed(service: SyncSessionService, user: str | None = None) -> list[str]:
    """Return the ids of an app's sessions."""
    found = service.list_sessions(app_name="a", user_id=user, order_by="session_id")
    return [session.id for session in found.sessions]


def in_sql(service: SyncSessionService) -> set[str]:
    """Return the ids of all sessions that SQL sees events of."""
    rows = service.lake.sql("select distinct session_id from events").fetchall()
    return {session_id for (session_id,) in rows}


ONE_SESSION = {
    "a file": locked(SECOND),
    "a folder": locked(f"{SESSIONS}/session=s1"),
    "a file that loops": looped(SECOND),
    "a folder that loops": looped(f"{SESSIONS}/session=s1"),
}


@pytest.mark.parametrize("close", ONE_SESSION.values(), ids=ONE_SESSION)
class TestOneSession:
    """What is unreadable of one session costs that session."""

    def test_others_are_read_and_it_says_so(
        self,
        lake_folder: Path,
        service: SyncSessionService,
        close: Close,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Lists pass it over, with an error that names it once; to get it is an error."""
        close(lake_folder)
        for _ in range(2):
            assert listed(service) == ["s2", "s3"]
            assert listed(service, "ana") == ["s2"]
            events = service.get_user_events(app_name="a", user_id="ana")
            assert len(events) == 2
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert "session=s1" in record.getMessage()

        with pytest.raises(StorageError, match="session=s1"):
            service.get_session(app_name="a", user_id="ana", session_id="s1")
        with pytest.raises(StorageError, match="session=s1"):
            service.lake.user_events("a", "ana", session_ids=["s1", "s2"])
        with pytest.raises(StorageError, match="session=s1"):
            service.lake.sessions.find("s1")
        found = service.get_session(app_name="a", user_id="ana", session_id="s2")
        assert found is not None
        assert len(found.events) == 2

    def test_sql_has_all_others(
        self,
        lake_folder: Path,
        service: SyncSessionService,
        close: Close,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Each query answers for the others, and one error names the session."""
        close(lake_folder)
        for _ in range(2):
            assert in_sql(service) == {"s2", "s3", "s4"}
        (record,) = [one for one in caplog.records if one.levelno >= logging.INFO]
        assert record.levelno == logging.ERROR
        assert "session=s1" in record.getMessage()


def test_what_can_be_read_again_is_back(lake_folder: Path, service: SyncSessionService) -> None:
    """Nothing remembers that something was unreadable once it no longer is."""
    path = lake_folder / SESSIONS / "session=s1"
    locked(f"{SESSIONS}/session=s1")(lake_folder)
    assert listed(service) == ["s2", "s3"]
    assert in_sql(service) == {"s2", "s3", "s4"}
    _as_root(lambda: path.chmod(0o755))
    assert listed(service) == ["s1", "s2", "s3"]
    rows = service.lake.sql("select text from events where session_id = 's1' order by version")
    assert rows.fetchall() == [("s1 one",), ("s1 two",)]


def test_a_rollup_that_cannot_be_read_is_passed_over(
    lake_folder: Path, service: SyncSessionService
) -> None:
    """What it was made of answers in its place, as when it is damaged."""

    def roll_up() -> None:
        with Lake.open(lake_folder) as lake:
            lake.sessions.roll_up(lake.sessions.find("s1")[0], force=True)

    _as_root(roll_up)
    (rollup,) = (lake_folder / SESSIONS / "session=s1").glob("*r.parquet")
    locked(str(rollup.relative_to(lake_folder)))(lake_folder)
    found = service.get_session(app_name="a", user_id="ana", session_id="s1")
    assert found is not None
    assert len(found.events) == 2


def test_a_closed_user_is_an_error_of_what_needs_it(
    lake_folder: Path, service: SyncSessionService
) -> None:
    """Nobody can tell which sessions are in it: what asks for all of them fails, no other."""
    locked(SESSIONS)(lake_folder)
    for ask in (
        lambda: listed(service),
        lambda: listed(service, "ana"),
        lambda: in_sql(service),
    ):
        with pytest.raises(StorageError, match="user=ana"):
            ask()
    assert listed(service, "ben") == ["s3"]
    found = service.list_sessions(app_name="b")
    assert [session.id for session in found.sessions] == ["s4"]


def test_folders_of_others_may_be_closed(lake_folder: Path, service: SyncSessionService) -> None:
    """A folder that can hold no session, such as a snapshot's, is nobody's concern."""
    for key in ("events/log/.snapshots", f"{SESSIONS}/lost+found", f"{SESSIONS}/session=s1/old"):
        _as_root((lake_folder / key).mkdir)
        locked(key)(lake_folder)
    assert listed(service) == ["s1", "s2", "s3"]
    assert in_sql(service) == {"s1", "s2", "s3", "s4"}


def test_a_state_entry_that_cannot_be_read(
    lake_folder: Path, service: SyncSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    """It is passed over, as a damaged one is, told once, and back as soon as it can be read."""
    entries = lake_folder / "state/entries/app=a/user=-"
    newest = max(entries.iterdir())
    locked(str(newest.relative_to(lake_folder)))(lake_folder)
    for _ in range(2):
        found = service.get_session(app_name="a", user_id="ana", session_id="s1")
        assert found is not None
        assert found.state["app:k"] == "s3 one"
    (record,) = caplog.records
    assert newest.name in record.getMessage()
    _as_root(lambda: newest.chmod(0o644))
    found = service.get_session(app_name="a", user_id="ana", session_id="s1")
    assert found is not None
    assert found.state["app:k"] == "s3 two"
