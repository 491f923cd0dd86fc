"""What no one should do to a session, an event or a query, and what it must not cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.errors import InputError


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Open a new lake in a folder."""
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def sessions(lake: Lake) -> SyncSessionService:
    """Return the blocking service."""
    return LakeSessionService(lake).sync


def begin(sessions: SyncSessionService, session_id: str = "s", events: int = 2) -> Session:
    """Return a session with some events."""
    session = sessions.create_session(app_name="a", user_id="u", session_id=session_id)
    for _ in range(events):
        sessions.append_event(session, Event(author="user"))
    return session


def reread(sessions: SyncSessionService, session_id: str = "s") -> Session:
    """Return a session as it is stored."""
    found = sessions.get_session(app_name="a", user_id="u", session_id=session_id)
    assert found is not None
    return found


def test_a_session_copied_under_another_id_is_another_session(
    sessions: SyncSessionService,
) -> None:
    """A handle whose ids were changed appends to no log: neither to a new one nor to another's."""
    session = begin(sessions)
    other = begin(sessions, "other", events=0)
    with pytest.raises(SessionNotFoundError):
        sessions.append_event(session.model_copy(update={"id": "new"}), Event(author="user"))
    with pytest.raises(StaleSessionError):
        sessions.append_event(session.model_copy(update={"id": "other"}), Event(author="user"))

    sessions.append_event(other, Event(author="user"))
    assert len(reread(sessions, "other").events) == 1


@pytest.mark.parametrize("depth", [150, 240])
def test_deep_events_come_back(sessions: SyncSessionService, depth: int) -> None:
    """An event may be nested as deep as Python's own JSON goes."""
    nested: dict[str, Any] = {"leaf": 1}
    for _ in range(depth):
        nested = {"n": nested}
    answer = types.FunctionResponse(name="f", response=nested)
    content = types.Content(parts=[types.Part(function_response=answer)])
    session = begin(sessions)
    event = sessions.append_event(session, Event(author="agent", content=content))

    assert reread(sessions).events[-1] == event


def test_values_that_do_not_compare_can_be_stored(sessions: SyncSessionService) -> None:
    """Nothing that is stored depends on how a caller's objects compare."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment] # as numpy's arrays

    delta = {"frame": pd.DataFrame({"a": [1]}), "odd": Odd(), "plain": 1}
    session = begin(sessions)
    event = Event(author="agent", actions=EventActions(state_delta=delta))
    sessions.append_event(session, event)
    sessions.append_event(session, event)

    found = reread(sessions)
    assert len(found.events) == 3
    assert found.state["plain"] == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", 5), ("id", None), ("timestamp", None), ("timestamp", "now"), ("timestamp", 10**400)],
)
def test_fields_of_a_wrong_type_are_refused(
    sessions: SyncSessionService, field: str, value: object
) -> None:
    """What could not be read back as it was is not acknowledged."""
    session = begin(sessions)
    event = Event(author="user")
    setattr(event, field, value)
    with pytest.raises(InputError):
        sessions.append_event(session, event)
    assert reread(sessions) == session


def test_content_of_a_wrong_type_is_not_quoted(sessions: SyncSessionService) -> None:
    """Neither the refusal nor a warning says what the event held."""
    session = begin(sessions)
    event = Event(author="user")
    event.content = "TOP SECRET"  # type: ignore[assignment] # the mistake
    with pytest.raises(InputError) as caught:
        sessions.append_event(session, event)
    assert "SECRET" not in str(caught.value)


def test_events_may_be_redacted_in_the_handle(sessions: SyncSessionService) -> None:
    """A handle whose events were replaced goes on; an id that is gone from it is new."""
    session = begin(sessions)
    first = session.events[0].id
    session.events[0] = Event(author="user", timestamp=1.0)
    sessions.append_event(session, Event(author="user", id=first))

    assert len(reread(sessions).events) == 3


@pytest.mark.parametrize(
    "query",
    [
        "with gone as (delete from internal.rows returning 1) select count(*) from gone",
        "explain analyze delete from internal.rows",
        "explain analyze drop view events",
        "explain analyze create table t (a int)",
        "explain analyze copy events to '{there}'",
        "explain analyze set threads = 1",
        "select * from read_text('{there}')",
        "select * from enable_logging('QueryLog', storage = 'file', storage_path = '{there}')",
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_no_query_changes_or_reaches_anything(
    lake: Lake, sessions: SyncSessionService, tmp_path: Path, query: str, read_only: bool
) -> None:
    """`lake.sql` only reads, and only the lake, whatever a statement looks like."""
    begin(sessions)
    there = tmp_path / "there"
    with Lake.open(lake.url, read_only=read_only) as asked:
        with pytest.raises((duckdb.Error, InputError)):
            asked.sql(query.format(there=there)).fetchall()
        assert asked.sql("select count(*) from events").fetchall() == [(2,)]
    assert not there.exists()


def test_a_large_state_costs_what_it_is_large(lake: Lake, sessions: SyncSessionService) -> None:
    """A session with tens of thousands of keys can be asked for in SQL, and harms no other."""
    sessions.create_session(
        app_name="a", user_id="u", session_id="s", state={f"key{n}": n for n in range(30_000)}
    )
    assert lake.sql("select count(*), max(length(state)) > 300000 from sessions").fetchall() == [
        (1, True)
    ]


def test_a_stray_folder_in_a_log_hides_nothing(lake: Lake, sessions: SyncSessionService) -> None:
    """A folder that someone made within a session's folder is passed over."""
    begin(sessions, events=4)
    log = Path(lake.url) / "events/log/app=a/user=u/session=s"
    stray = log / "00000000000000000003x"
    stray.mkdir()
    (stray / "00000000000000000009.parquet").write_text("notes")

    with Lake.open(lake.url, read_only=True) as cold:
        assert len(reread(LakeSessionService(cold).sync).events) == 4
        listed = LakeSessionService(cold).sync.list_sessions(app_name="a").sessions
        assert [session.id for session in listed] == ["s"]
        assert cold.sql("select count(*) from events").fetchall() == [(4,)]
