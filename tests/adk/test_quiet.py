"""Log lines, reprs and errors name what they mean by its key: no id, no content, no raw escape."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.errors import LakeError
from lakestore.log.keys import Scope, SessionKey, commit_key
from lakestore.storage import MemoryStore
from lakestore.tables import events
from lakestore.tables.events import EventRow, encode_commit
from lakestore.tables.state import StateRow

ESCAPE = "\x1b[31m"
# In capitals, which a key never has as they are.
APP, USER, ID = f"APP{ESCAPE}", f"USER{ESCAPE}", f"ID{ESCAPE}"
KEY = SessionKey(APP, USER, ID)
IDS: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": ID}
SECRET = f"SECRET{ESCAPE}"


class Odd:
    """A value without a JSON form."""

    def __repr__(self) -> str:
        return SECRET


def said(**fields: Any) -> Event:
    """Return an event whose every text is odd."""
    content = types.Content(role="user", parts=[types.Part(text=SECRET)])
    return Event(author=SECRET, content=content, id=SECRET, **fields)


@pytest.fixture
def store() -> MemoryStore:
    """A store in memory."""
    return MemoryStore("quiet")


@pytest.fixture
def service(store: MemoryStore) -> Iterator[SyncSessionService]:
    """A service on that store."""
    with Lake(store) as lake:
        yield LakeSessionService(lake).sync


@pytest.fixture
def session(service: SyncSessionService) -> Session:
    """A session with one event."""
    session = service.create_session(**IDS)
    service.append_event(session, said())
    return session


def assert_quiet(text: str) -> None:
    """Make sure that nothing of people, and nothing that a terminal obeys, is in `text`."""
    for odd in ("APP", "USER", "ID", "SECRET", "\x1b"):
        assert odd not in text


def stale(service: SyncSessionService, session: Session) -> None:
    """Append after someone else."""
    other = service.get_session(**IDS)
    assert other is not None
    service.append_event(other, Event(author="a"))
    service.append_event(session, Event(author="a"))


def deleted(service: SyncSessionService, session: Session) -> None:
    """Append to what is gone."""
    service.delete_session(**IDS)
    service.append_event(session, Event(author="a"))


def created(service: SyncSessionService, _: Session) -> None:
    """Create what is there."""
    service.create_session(**IDS)


REFUSED: dict[type[Exception], Callable[[SyncSessionService, Session], None]] = {
    StaleSessionError: stale,
    SessionNotFoundError: deleted,
    AlreadyExistsError: created,
}


@pytest.mark.parametrize("error", REFUSED)
def test_errors_name_the_log(
    service: SyncSessionService, session: Session, error: type[Exception]
) -> None:
    """Who is stale, gone or there already is said by the prefix of its log."""
    with pytest.raises(error) as refusal:
        REFUSED[error](service, session)
    assert_quiet(str(refusal.value))
    assert KEY.log in str(refusal.value)


def test_damage_names_the_key(
    store: MemoryStore,
    service: SyncSessionService,
    session: Session,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So does what is read of a damaged session, in errors and in the log."""
    (row,) = events.decode(store.get(commit_key(KEY.log, 2)))
    store.put_if_absent(commit_key(KEY.log, 3), encode_commit([row]))
    with Lake(store, read_only=True) as lake:
        assert LakeSessionService(lake).sync.list_sessions(app_name=APP).sessions == []
        assert len(lake.sql("from events").fetchall()) == 1
        with pytest.raises(LakeError) as refusal:
            LakeSessionService(lake).sync.get_session(**IDS)
    for text in (str(refusal.value), caplog.text):
        assert_quiet(text)
        assert commit_key(KEY.log, 3) in text


def test_what_adk_cannot_read_is_named_by_its_commit(
    store: MemoryStore,
    service: SyncSessionService,
    session: Session,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An event with unknown fields, or unreadable, is logged with its key and the fields' names."""
    (row,) = events.decode(store.get(commit_key(KEY.log, 2)))
    texts = (
        '{"id":"SECRET","author":"SECRET","actions":{"newer":"SECRET"}}',
        '{"id":"SECRET","content":7}',
    )
    for version, text in enumerate(texts, start=3):
        odd = EventRow(
            version, 0, "event", APP, USER, ID, row.committed_at, f"{version:016}", "", None, None,
            text,
        )  # fmt: skip
        store.put_if_absent(commit_key(KEY.log, version), encode_commit([odd]))
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = service.get_session(**IDS)
    assert found is not None
    assert len(found.events) == 3
    assert_quiet(caplog.text)
    assert "newer" in caplog.text
    assert commit_key(KEY.log, 3) in caplog.text
    assert commit_key(KEY.log, 4) in caplog.text


def test_a_value_without_json_is_logged_by_its_type(
    service: SyncSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the value nor its key, which may hold an id, is in the log."""
    service.create_session(**IDS, state={SECRET: Odd()})
    assert "Odd" in caplog.text
    assert_quiet(caplog.text)


def test_reprs_show_nothing_of_people(
    store: MemoryStore, service: SyncSessionService, session: Session
) -> None:
    """A row, a draft, a key or a scope in a traceback's frames tells no more than its place."""
    (row,) = events.decode(store.get(commit_key(KEY.log, 2)))
    state_row = StateRow(APP, USER, SECRET, SECRET, "s", ID, USER, 1)
    view = service.lake.sessions.load(KEY)
    for each in (row, state_row, KEY, Scope(APP, USER), view, service, service.lake):
        assert_quiet(repr(each))
