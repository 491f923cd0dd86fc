"""The thin columns, against values computed by hand and against ADK's own rule."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from google.adk.events import Event
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from lakestore.adk.convert import to_draft
from lakestore.tables.events import SCHEMA, EventRow, encode_rollup, to_table
from lakestore.tables.thin import THIN_FIELDS, thin
from tests.contracts.event_samples import PARTS
from tests.support import strategies

UTC = dt.UTC

# Every field that a thin column is lifted from, and some noise.
FULL: dict[str, Any] = {
    "id": "e1",
    "invocation_id": "i1",
    "author": "agent",
    "branch": "root.agent",
    "timestamp": 1_700_000_000.1234567,
    "content": {
        "role": "model",
        "parts": [
            {"text": "first"},
            {"text": "a thought", "thought": True},
            {"function_call": {"id": "c1", "name": "search", "args": {"name": "no"}}},
            {"text": ""},
            {"function_call": {"name": "book"}},
            {"function_response": {"name": "search", "response": {"text": "no"}}},
            {"inline_data": {"data": "AAAA", "mime_type": "image/png"}},
            {"text": "last\u00e9\x00"},
        ],
    },
    "model_version": "some-model-1",
    "finish_reason": "STOP",
    "error_code": "E7",
    "error_message": "it failed",
    "usage_metadata": {
        "prompt_token_count": 11,
        "candidates_token_count": 12,
        "thoughts_token_count": 13,
        "cached_content_token_count": 14,
        "total_token_count": 50,
        "traffic_type": "ON_DEMAND",
    },
    "actions": {"state_delta": {"text": "no"}},
}
BY_HAND = {
    "event_id": "e1",
    "invocation_id": "i1",
    "author": "agent",
    "branch": "root.agent",
    "event_time": 1_700_000_000_123_457,
    "text": "first\n\nlast\u00e9\x00",
    "model_version": "some-model-1",
    "finish_reason": "STOP",
    "error_code": "E7",
    "error_message": "it failed",
    "prompt_tokens": 11,
    "output_tokens": 12,
    "thought_tokens": 13,
    "cached_tokens": 14,
    "total_tokens": 50,
    "tool_names": ["search", "book"],
    "is_final_response": False,
    "is_compaction": False,
    "is_rewind": False,
}
NOTHING: dict[str, Any] = dict.fromkeys(BY_HAND) | {
    "tool_names": [],
    "is_final_response": True,
    "is_compaction": False,
    "is_rewind": False,
}


def lifted(event: object) -> dict[str, Any]:
    """Return the thin values of an event by their names."""
    names = [field.name for field in THIN_FIELDS]
    return dict(zip(names, thin(json.dumps(event)), strict=True))


def row(event_json: str | None) -> EventRow:
    """Return a row with that event."""
    kind: Any = "create" if event_json is None else "event"
    return EventRow(1, 0, kind, "a", "u", "s", 0, "ff", "", event_json=event_json)


def test_every_column_is_lifted() -> None:
    """An event that has everything gives each column its value, and nothing else."""
    assert lifted(FULL) == BY_HAND


def test_an_event_with_nothing_has_nothing() -> None:
    """What is absent is null, and an event without calls ends a turn."""
    assert lifted({}) == NOTHING


def test_columns_stand_in_the_schema_at_its_end() -> None:
    """The schema has the stored columns first, then these, in this order."""
    assert SCHEMA.names[-len(THIN_FIELDS) :] == [*BY_HAND]
    table = to_table([row(json.dumps(FULL)), row(None), row("{}")])

    first, second, third = ({name: found[name] for name in BY_HAND} for found in table.to_pylist())
    assert first.pop("event_time") == dt.datetime(2023, 11, 14, 22, 13, 20, 123457, UTC)
    assert first == {name: value for name, value in BY_HAND.items() if name != "event_time"}
    assert second == dict.fromkeys(BY_HAND), "a row without an event has no thin value at all"
    assert third == NOTHING


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], None),
        (None, None),
        ([{"text": ""}], ""),
        ([{"text": "a"}, {"text": "b"}], "a\nb"),
        ([{"text": "a", "thought": True}], None),
        ([{"text": "a", "thought": False}], "a"),
        ([{"text": "a", "thought": None}], "a"),
        ([{"function_call": {"name": "f"}}], None),
        ([{"text": None}], None),
        ([{"text": 7}], None),
        ([None, "x", 7, {"text": "a"}], "a"),
    ],
)
def test_text_is_what_was_said(parts: object, text: str | None) -> None:
    """Texts that are no thoughts, joined by line ends; an empty text is not none (R053)."""
    assert lifted({"content": {"parts": parts}})["text"] == text


@pytest.mark.parametrize(
    ("timestamp", "micros"),
    [
        (0.0, 0),
        (0, 0),
        (-1.0, -1_000_000),
        (1e9 + 1e-7, 1_000_000_000_000_000),
        (1_700_000_000.1234567, 1_700_000_000_123_457),
        (32_503_680_000.0, 32_503_680_000_000_000),
        (253_402_300_799.0, 253_402_300_799_000_000),
        (253_402_300_800.0, None),
        (-62_135_596_800.0, -62_135_596_800_000_000),
        (-62_135_596_801.0, None),
        (1e300, None),
        (1e308, None),
        (-1e308, None),
        (10**400, None),
        (float("nan"), None),
        (float("inf"), None),
        (float("-inf"), None),
        ("2024-01-05", None),
        (None, None),
        ([1], None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_times_that_a_calendar_has(timestamp: object, micros: int | None) -> None:
    """A time is rounded to microseconds, and null where no calendar of four digits shows it."""
    assert lifted({"timestamp": timestamp})["event_time"] == micros


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        *[(0, 0), (7, 7), (2**62, 2**62), (2**63, None), (10**30, None), (-(2**64), None)],
        *[(1.5, None), ("7", None), (True, None), (None, None)],
    ],
)
def test_counts_that_a_column_holds(count: object, expected: int | None) -> None:
    """A count is a whole number of 64 bits; anything else counts as missing."""
    assert lifted({"usage_metadata": {"total_token_count": count}})["total_tokens"] == expected
    table = to_table([row(json.dumps({"usage_metadata": {"prompt_token_count": count}}))])
    assert table["prompt_tokens"].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("actions", "column"),
    [
        ({"compaction": {"start_timestamp": 0.0}}, "is_compaction"),
        ({"compaction": {}}, "is_compaction"),
        ({"rewind_before_invocation_id": "i1"}, "is_rewind"),
        ({"rewind_before_invocation_id": ""}, "is_rewind"),
    ],
)
def test_compactions_and_rewinds_are_told_apart(actions: object, column: str) -> None:
    """ADK's own compaction and rewind events are marked, by presence (R092)."""
    found = lifted({"actions": actions})

    assert [name for name in ("is_compaction", "is_rewind") if found[name]] == [column]


JSON = strategies.json_values()
FIELDS = st.sampled_from(
    [
        *["id", "content", "actions", "usage_metadata", "timestamp", "partial", "error_code"],
        *["long_running_tool_ids", "branch", "author", "finish_reason", "model_version"],
    ]
)


@given(
    st.dictionaries(FIELDS, JSON | st.dictionaries(st.just("parts"), st.lists(JSON)), max_size=6)
)
def test_unexpected_types_count_as_missing(event: dict[str, Any]) -> None:
    """Whatever a newer ADK puts into a field, the columns hold what they are declared to hold."""
    text = json.dumps(event)
    table = to_table([row(text)])

    table.validate(full=True)
    assert table.schema == SCHEMA
    assert encode_rollup([row(text)])


@given(st.sampled_from([1e308, -1e308, 1e305, 5e-324, 2**70]) | st.floats() | st.integers())
def test_any_number_as_time_can_be_rolled_up(timestamp: float) -> None:
    """No time that ADK lets an event have keeps its session from being rolled up or queried."""
    assert encode_rollup([row(json.dumps({"id": "e", "timestamp": timestamp}))])


@st.composite
def finals(draw: st.DrawFn) -> Event:
    """Generate an event from all that decides whether a turn ends with it."""
    some = st.sampled_from
    part = some(
        [
            types.Part(text="x"),
            types.Part(function_call=types.FunctionCall(name="f", args={})),
            types.Part(function_response=types.FunctionResponse(name="f", response={})),
            types.Part(
                code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK)
            ),
            types.Part(
                executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)
            ),
            types.Part(),
        ]
    )
    parts = draw(st.none() | st.lists(part, max_size=3))
    event = Event(
        author=draw(some(["user", "agent"])),
        content=draw(some([None, types.Content(role="model", parts=parts)])),
        partial=draw(some([None, False, True])),
        error_code=draw(some([None, "", "E1"])),
        long_running_tool_ids=draw(some([None, set(), {"c1"}])),
        turn_complete=draw(some([None, False, True])),
    )
    event.actions.skip_summarization = draw(some([None, False, True]))
    return event


def lifted_from(event: Event) -> dict[str, Any]:
    """Return the thin values of an event as it is stored."""
    stored: dict[str, Any] = json.loads(to_draft(event).event_json)
    return lifted(stored)


@given(finals() | strategies.events())
def test_the_end_of_a_turn_is_adks(event: Event) -> None:
    """`is_final_response` is what ADK's method of that name says of the event."""
    assert lifted_from(event)["is_final_response"] == event.is_final_response()


@pytest.mark.parametrize("event", PARTS.values(), ids=PARTS.keys())
def test_the_end_of_a_turn_is_adks_for_every_part(event: Event) -> None:
    """So it is for each kind of part that a content can have."""
    assert lifted_from(event)["is_final_response"] == event.is_final_response()


@given(strategies.events())
def test_columns_are_adks_fields(event: Event) -> None:
    """Lifted values are those of the event's own fields, and the tools those it calls."""
    found = lifted_from(event)

    assert found["event_id"] == event.id
    assert found["author"] == event.author
    assert found["invocation_id"] == event.invocation_id
    assert found["branch"] == event.branch
    assert found["error_code"] == event.error_code
    assert found["finish_reason"] == (event.finish_reason and event.finish_reason.value)
    assert found["tool_names"] == [call.name for call in event.get_function_calls()]
    assert found["is_compaction"] == (event.actions.compaction is not None)
    assert found["is_rewind"] == (event.actions.rewind_before_invocation_id is not None)
    usage = event.usage_metadata or types.GenerateContentResponseUsageMetadata()
    assert found["prompt_tokens"] == usage.prompt_token_count
    assert found["output_tokens"] == usage.candidates_token_count
    assert found["thought_tokens"] == usage.thoughts_token_count
    assert found["cached_tokens"] == usage.cached_content_token_count
    assert found["total_tokens"] == usage.total_token_count


def test_types_are_plain() -> None:
    """Thin columns have types that every engine reads."""
    plain = {
        pa.string(),
        pa.int64(),
        pa.bool_(),
        pa.timestamp("us", tz="UTC"),
        pa.list_(pa.string()),
    }
    assert {field.type for field in THIN_FIELDS} == plain
