"""Mistakes that people make with the service get one clear error, and lose nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event as Flag
from threading import Timer

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
from typing_extensions import override

from lakestore import Lake, LakeSessionService
from lakestore.errors import InputError
from lakestore.storage import MemoryStore


def said(text: str, author: str = "user") -> Event:
    """Return an event with words."""
    words = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, invocation_id="i", content=words)


def stored(url: str) -> list[str | None]:
    """Return what the lake's only session holds."""
    with Lake.open(url, read_only=True) as lake:
        return [text for (text,) in lake.sql("select text from events").fetchall()]


class HeldUp(MemoryStore):
    """Keeps a commit waiting until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.go_on = Flag(), Flag()

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        if key.endswith("02.parquet"):
            self.began.set()
            assert self.go_on.wait(20)
        super().put_if_absent(key, body)


def test_closing_the_lake_writes_held_turns(tmp_path: Path) -> None:
    """What a service holds of a turn is written when its lake is closed."""
    with Lake.open(tmp_path / "lake") as lake:
        sessions = LakeSessionService(lake, durability="turn").sync
        session = sessions.create_session(app_name="a", user_id="u")
        sessions.append_event(session, said("a question"))
        assert stored(lake.url) == []

    assert stored(lake.url) == ["a question"]


def test_a_turn_that_cannot_be_written_does_not_keep_the_lake_open(tmp_path: Path) -> None:
    """Closing says which turn was overtaken, and closes all the same."""
    lake = Lake.open(tmp_path / "lake")
    turns = LakeSessionService(lake, durability="turn").sync
    session = turns.create_session(app_name="a", user_id="u", session_id="s")
    turns.append_event(session, said("held"))
    other = LakeSessionService(lake).sync
    found = other.get_session(app_name="a", user_id="u", session_id="s")
    assert found is not None
    other.append_event(found, said("first"))

    with pytest.raises(StaleSessionError, match="1 events that were held"):
        lake.close()
    assert lake.closed
    assert stored(lake.url) == ["first"]


def test_every_service_writes_what_it_holds_when_the_lake_is_closed(tmp_path: Path) -> None:
    """Of two that cannot one is raised and notes the other; what the third holds is stored."""
    lake = Lake.open(tmp_path / "lake")
    services = [LakeSessionService(lake, durability="turn").sync for _ in range(3)]
    sessions = [
        service.create_session(app_name="a", user_id="u", session_id=f"s{number}")
        for number, service in enumerate(services)
    ]
    for service, session in zip(services, sessions, strict=True):
        service.append_event(session, said("held"))
    other = LakeSessionService(lake).sync
    for overtaken in sessions[:2]:
        found = other.get_session(app_name="a", user_id="u", session_id=overtaken.id)
        assert found is not None
        other.append_event(found, said("first"))

    with pytest.raises(StaleSessionError) as raised:
        lake.close()
    (note,) = raised.value.__notes__
    assert note.startswith("and StaleSessionError: ")
    assert lake.closed
    assert sorted(map(str, stored(lake.url))) == ["first", "first", "held"]


async def test_nothing_works_on_a_closed_lake(tmp_path: Path) -> None:
    """Blocking or not, every operation says that the lake is closed."""
    lake = Lake.open(tmp_path / "lake")
    service = LakeSessionService(lake)
    session = service.sync.create_session(app_name="a", user_id="u", session_id="s")
    lake.close()
    sync = service.sync
    for call in (
        lambda: service.sync.append_event(session, said("late")),
        lambda: sync.create_session(app_name="a", user_id="u"),
        lambda: sync.get_session(app_name="a", user_id="u", session_id="s"),
        lambda: sync.list_sessions(app_name="a"),
        lambda: sync.get_user_events(app_name="a", user_id="u"),
        lambda: sync.delete_session(app_name="a", user_id="u", session_id="s"),
        lambda: sync.get_user_state(app_name="a", user_id="u"),
        lambda: lake.sql("select 1"),
    ):
        with pytest.raises(InputError, match="the lake is closed"):
            call()
    with pytest.raises(InputError, match="the lake is closed"):
        await service.append_event(session, said("late"))
    assert session.events == []


async def test_a_blocking_call_never_waits_for_its_own_loop() -> None:
    """`.sync` in a running loop waits for that loop's append, which needs no loop to end."""
    store = HeldUp()
    with Lake(store) as lake:
        service = LakeSessionService(lake)
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        under_way = asyncio.create_task(service.append_event(session, said("slow")))
        await asyncio.to_thread(store.began.wait)
        Timer(0.2, store.go_on.set).start()
        found = service.sync.get_session(app_name="a", user_id="u", session_id="s")
        assert found == session
        assert len(session.events) == 1
        service.sync.append_event(session, said("other"))
        await under_way

        assert len(session.events) == 2


@pytest.mark.parametrize("lake", ["./lake", None, Path("lake"), 3])
def test_a_service_needs_an_open_lake(lake: object) -> None:
    """A path in place of a lake is refused where it is given, not at the first use."""
    with pytest.raises(InputError, match="lake"):
        LakeSessionService(lake)  # type: ignore[arg-type] # the mistake


@pytest.mark.parametrize("events", [said("alone"), [{"author": "user"}], "text", [None]])
def test_only_lists_of_events_are_appended(tmp_path: Path, events: object) -> None:
    """What is no list of events is refused, and so is what is no session."""
    with Lake.open(tmp_path / "lake") as lake:
        sessions = LakeSessionService(lake).sync
        session = sessions.create_session(app_name="a", user_id="u")
        with pytest.raises(InputError):
            sessions.append_events(session, events)  # type: ignore[arg-type] # the mistake
        with pytest.raises(InputError):
            sessions.append_event("s", said("x"))  # type: ignore[arg-type] # the mistake
        assert isinstance(session, Session)
        assert session.events == []


@pytest.mark.parametrize("url", ["s3:/bucket/lake", Path("s3://bucket/lake"), "file:/tmp/x", b"x"])
def test_a_url_that_lost_a_slash_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: object
) -> None:
    """A URL with one slash, as a `Path` leaves it, is refused instead of becoming a folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        Lake.open(url)  # type: ignore[arg-type] # the mistake
    assert [*tmp_path.iterdir()] == []
