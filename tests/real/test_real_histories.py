"""Real agent histories go in through the service and come back equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from lakestore import Lake, LakeSessionService
from lakestore.log.keys import SessionKey
from tests.support.real_histories import airline_histories, data_folder, exported_sessions

_DATA = data_folder()

pytestmark = pytest.mark.skipif(_DATA is None, reason="no folder with real histories is at hand")


@pytest.fixture
def data() -> Path:
    """Return the folder with the histories."""
    assert _DATA is not None
    return _DATA


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Open a new lake in a folder."""
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


def fields(events: list[Event]) -> list[dict[str, Any]]:
    """Return every field of every event."""
    return [event.model_dump() for event in events]


def reread(lake: Lake, session: Session) -> Session:
    """Return the session as a process that knows nothing of it reads it."""
    with Lake.open(lake.url, read_only=True) as elsewhere:
        found = LakeSessionService(elsewhere).sync.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
    assert found is not None
    return found


def test_exported_sessions_come_back_equal(lake: Lake, data: Path) -> None:
    """A session that ADK's web UI exported is restored event by event, state and all."""
    sessions = LakeSessionService(lake).sync
    exported = [*exported_sessions(data)]
    assert len(exported) == 2
    for session in exported:
        stored = sessions.create_session(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            state=session.state,
        )
        for event in session.events:
            sessions.append_event(stored, event.model_copy(deep=True))

        found = reread(lake, stored)
        assert fields(found.events) == fields(session.events)
        assert found.events == session.events
        assert found.state == session.state == stored.state
        assert found.last_update_time == session.events[-1].timestamp


@pytest.mark.parametrize("rolled", [False, True], ids=["as-committed", "rolled-up"])
def test_airline_runs_come_back_equal(lake: Lake, data: Path, rolled: bool) -> None:
    """Sixty runs of a tool-calling agent are the same afterwards, field for field, and in SQL."""
    sessions = LakeSessionService(lake).sync
    histories = [*airline_histories(data)]
    assert len(histories) == 60
    for run, history in enumerate(histories):
        stored = sessions.create_session(
            app_name="airline",
            user_id=f"user {run % 7}",
            session_id=history.name,
            state=dict(history.state),
        )
        half = len(history.events) // 2
        sessions.append_events(stored, history.events[:half])
        for event in history.events[half:]:
            sessions.append_event(stored, event)
        if rolled:
            lake.sessions.roll_up(
                SessionKey(stored.app_name, stored.user_id, stored.id), force=True
            )

        found = reread(lake, stored)
        assert fields(found.events) == fields(history.events)
        assert found.state["messages"] == len(history.events) - 1
        assert found.state["policy"] == history.state["policy"]
        assert found.state["app:last_run"] == run
        assert found.state == {**stored.state, "user:last_role": found.state["user:last_role"]}

    every = [event for history in histories for event in history.events]
    calls = [call.name for event in every for call in event.get_function_calls()]
    answer = lake.sql("select count(*), sum(len(tool_names)) from events").fetchall()
    assert answer == [(len(every), len(calls))]
    by_user = [
        event
        for user in range(7)
        for event in sessions.get_user_events(app_name="airline", user_id=f"user {user}")
    ]
    assert sorted(event.id for event in by_user) == sorted(event.id for event in every)
