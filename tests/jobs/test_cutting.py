"""Random histories: whatever is cut, ADK's own replay of what stays gives what it gave before."""

from __future__ import annotations

import json
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.sessions import Session
from google.adk.sessions._rewind_utils import compute_state_delta_for_rewind
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from lakestore.jobs.cutting import AUTHOR, cut
from lakestore.tables.events import EventRow
from tests.support.aging import answer, call

INVOCATIONS = ["t0", "t1", "t2", "t3", "t4"]

_events: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    turn=st.sampled_from(INVOCATIONS),
    age=st.integers(0, 9),
    delta=st.dictionaries(
        st.sampled_from(["a", "b", "user:a", "app:b"]), st.none() | st.integers(0, 3), max_size=2
    ),
    artifacts=st.dictionaries(st.sampled_from(["f", "g", "user:h"]), st.integers(0, 3), max_size=1),
    rewind=st.none() | st.none() | st.sampled_from(INVOCATIONS),
    calls=st.sets(st.sampled_from(["c1", "c2"]), max_size=1),
    answers=st.sets(st.sampled_from(["c1", "c2"]), max_size=1),
    slow=st.booleans(),
    author=st.sampled_from(["user", "agent"]),
)


def _row(number: int, made: dict[str, Any]) -> EventRow:
    parts = [types.Part(text=f"said {number}")]
    parts += [call("f", each) for each in made["calls"]]
    parts += [answer("f", each) for each in made["answers"]]
    event = Event(
        id=f"e{number}",
        author=made["author"],
        invocation_id=made["turn"],
        timestamp=float(number),
        long_running_tool_ids=made["calls"] if made["slow"] and made["calls"] else None,
        content=types.Content(role="user", parts=parts),
        actions=EventActions(
            state_delta=made["delta"],
            artifact_delta=made["artifacts"],
            rewind_before_invocation_id=made["rewind"],
        ),
    )
    return EventRow(
        version=number + 2,
        ordinal=0,
        kind="event",
        app_name="a",
        user_id="u",
        session_id="s",
        committed_at=made["age"],
        token="",
        previous="",
        state_delta=json.dumps(made["delta"]) if made["delta"] else None,
        event_json=event.model_dump_json(exclude_none=True, by_alias=True),
    )


def _parsed(rows: list[EventRow]) -> list[Event]:
    return [Event.model_validate_json(row.event_json or "") for row in rows]


def _said(events: list[Event]) -> list[str]:
    return [event.id for event in events if event.author != AUTHOR]


def _state(events: list[Event]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for event in events:
        state.update(event.actions.state_delta)
    return {key: value for key, value in state.items() if ":" not in key}


def _artifacts(events: list[Event], count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events[:count]:
        found.update(event.actions.artifact_delta)
    return {name: version for name, version in found.items() if not name.startswith("user:")}


@given(st.lists(_events, max_size=12), st.integers(-1, 9))
async def test_replay_is_the_same(made: list[dict[str, Any]], before: int) -> None:
    """State, artifacts, rewinds to what stays, and what is alive are as they were."""
    rows = [_row(number, each) for number, each in enumerate(made)]
    found = cut(rows, before, version=len(rows) + 2)
    if found is None:
        return
    old, new = _parsed(rows), _parsed(found.rows)
    assert len(old) - found.events == len(_said(new))
    assert {e.id for e in old} - {e.id for e in new} <= {
        e.id for e, row in zip(old, rows, strict=True) if row.committed_at <= before
    }
    assert _state(new) == _state(old)
    assert _artifacts(new, len(new)) == _artifacts(old, len(old))
    kept = {event.id for event in new}
    assert _said(_apply_rewinds(new)) == [e.id for e in _apply_rewinds(old) if e.id in kept]
    _paired(_apply_rewinds(old), kept)
    for turn in {event.invocation_id for event in new if event.author != AUTHOR}:
        at = [next(i for i, e in enumerate(each) if e.invocation_id == turn) for each in (old, new)]
        assert _artifacts(new, at[1]) == _artifacts(old, at[0])
        deltas = [
            await compute_state_delta_for_rewind(
                Session(id="s", app_name="a", user_id="u", events=each, state=_state(each)), place
            )
            for each, place in zip((old, new), at, strict=True)
        ]
        assert deltas[0] == deltas[1]


def _paired(live: list[Event], kept: set[str]) -> None:
    """A living answer that stays keeps its call, and a call that waits stays."""
    answers = [(e, r.id) for e in live for r in e.get_function_responses()]
    calls = [(e, c.id) for e in live for c in e.get_function_calls()]
    answered = {call_id for _, call_id in answers}
    for event, call_id in calls:
        assert event.id in kept or call_id in answered
    for event, call_id in answers:
        if event.id in kept:
            assert all(e.id in kept for e, each in calls if each == call_id)


@given(st.lists(_events, max_size=10), st.integers(0, 9), st.integers(0, 9))
def test_cutting_twice_is_cutting_once(made: list[dict[str, Any]], first: int, second: int) -> None:
    """What is cut in two steps sets the same and leaves the same events."""
    rows = [_row(number, each) for number, each in enumerate(made)]
    once = cut(rows, max(first, second), version=99)
    step = cut(rows, min(first, second), version=99)
    between = step.rows if step else rows
    twice = cut(between, max(first, second), version=99)
    after = twice.rows if twice else between
    expected = once.rows if once else rows
    assert _said(_parsed(after)) == _said(_parsed(expected))
    assert _state(_parsed(after)) == _state(_parsed(expected))
    assert cut(after, max(first, second), version=99) is None
