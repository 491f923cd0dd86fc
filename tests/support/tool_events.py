"""Hypothesis strategies for conversations in which what matters to the views often meets.

Few ids, names, times and turns, so that calls are answered twice, late, never, or under an id that
came before; so that rewinds hide rewinds and summaries cover some of it.
"""

from __future__ import annotations

from typing import Any

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from hypothesis import strategies as st

_IDS = st.sampled_from(["c1", "c2", "", None])
_NAMES = st.sampled_from(["search", "pay", "adk_request_input", "transfer_to_agent"])
_TURNS = st.sampled_from(["t1", "t2", "t3", "t4", ""])
_TIMES = st.sampled_from([1000.0, 1000.0000005, 1001.25, 1700000000.0000014, 1700000001.5, -5.0])
_AUTHORS = st.sampled_from(["user", "agent", "helper"])
_ANSWERS: list[dict[str, Any] | None] = [
    None,
    {},
    {"result": "fine"},
    {"error": "broken"},
    {"error": None, "result": 1},
    {"error": 0},
    {"error": {"code": 5}},
    {"isError": True, "content": [{"text": "no"}]},
    {"isError": False},
    {"status": "ERROR", "error_message": "worse"},
    {"status": "pending"},
    {"result": "Error: nothing found"},
    {"result": ["Error: no text"]},
]


@st.composite
def _parts(draw: st.DrawFn) -> types.Part:
    kind = draw(st.sampled_from(["text", "call", "answer"]))
    if kind == "text":
        return types.Part(text=draw(st.sampled_from(["", "hello", "why?"])))
    if kind == "call":
        call = types.FunctionCall(id=draw(_IDS), name=draw(_NAMES), args={"n": 1})
        return types.Part(function_call=call)
    answer = draw(st.sampled_from(_ANSWERS))
    response = types.FunctionResponse(id=draw(_IDS), name=draw(_NAMES), response=answer)
    return types.Part(function_response=response)


@st.composite
def _actions(draw: st.DrawFn) -> EventActions:
    kind = draw(st.sampled_from(["none", "none", "state", "rewind", "compaction", "asks"]))
    if kind == "state":
        keys = st.sampled_from(["k", "user:k", "app:k", "temp:k", "", "user:"])
        return EventActions(state_delta=draw(st.dictionaries(keys, st.none() | st.integers(0, 3))))
    if kind == "rewind":
        return EventActions(rewind_before_invocation_id=draw(_TURNS))
    if kind == "compaction":
        return EventActions(
            compaction=EventCompaction(
                start_timestamp=draw(_TIMES),
                end_timestamp=draw(_TIMES),
                compacted_content=types.Content(role="model", parts=[types.Part(text="sum")]),
            )
        )
    if kind == "asks":
        return EventActions(requested_tool_confirmations={"c1": ToolConfirmation(hint="sure?")})
    return EventActions()


@st.composite
def _events(draw: st.DrawFn) -> Event:
    usage = None
    if draw(st.booleans()):
        count = st.none() | st.integers(0, 2**31 - 1)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=draw(count),
            candidates_token_count=draw(count),
            tool_use_prompt_token_count=draw(count),
        )
    return Event(
        author=draw(_AUTHORS),
        invocation_id=draw(_TURNS),
        timestamp=draw(_TIMES),
        content=types.Content(role="model", parts=draw(st.lists(_parts(), max_size=3))),
        actions=draw(_actions()),
        long_running_tool_ids=draw(st.none() | st.sets(st.sampled_from(["c1", "c2"]))),
        usage_metadata=usage,
        model_version=draw(st.sampled_from([None, "m1", ""])),
        error_code=draw(st.sampled_from([None, None, "429", ""])),
        error_message=draw(st.sampled_from([None, None, "slow down"])),
    )


def conversations() -> st.SearchStrategy[list[Event]]:
    """Generate the events of one session."""
    return st.lists(_events(), max_size=9)
