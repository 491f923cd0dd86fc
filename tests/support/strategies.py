"""Hypothesis strategies for what goes into a session: JSON, state, ids, events.

Owns what can be generated and nothing about how it is stored; rules are in the contracts.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.adk.events import Event, EventActions
from google.adk.events.event import NodeInfo
from google.adk.events.event_actions import EventCompaction
from google.genai import types
from hypothesis import strategies as st

Made = TypeVar("Made")

# Unicode without halves of characters; NUL and controls included.
TEXTS = st.text(max_size=40)
NAMES = st.text(min_size=1, max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# Times that a calendar can show: the years 1653 to 5138.
TIMES = st.floats(min_value=-1e10, max_value=1e11)


def _made(model: type[Made], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Made]:
    """Generate the model from these fields alone; `st.builds` would look for others too."""
    return st.fixed_dictionaries(fields).map(lambda values: model(**values))


def json_values() -> st.SearchStrategy[Any]:
    """Generate any JSON value, with integers of any size."""
    scalars = st.none() | st.booleans() | st.integers() | FLOATS | TEXTS
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Generate a JSON object."""
    return st.dictionaries(TEXTS, json_values(), max_size=4)


def state_dicts() -> st.SearchStrategy[dict[str, Any]]:
    """Generate a state or a delta whose keys are of all three stored scopes."""
    plain = TEXTS.filter(lambda key: not key.startswith("temp:"))
    keys = st.builds(str.__add__, st.sampled_from(["", "user:", "app:"]), plain)
    return st.dictionaries(keys, json_values(), max_size=6)


def ids() -> st.SearchStrategy[str]:
    """Generate an id: text without NUL that is more than blanks, as it is kept."""
    letters = st.characters(codec="utf-8", exclude_characters="\x00")
    return st.text(letters, min_size=1, max_size=80).map(str.strip).filter(bool)


def parts() -> st.SearchStrategy[types.Part]:
    """Generate one part of a content."""
    blobs = _made(types.Blob, data=st.binary(max_size=40), mime_type=NAMES)
    calls = _made(types.FunctionCall, id=NAMES, name=NAMES, args=json_objects())
    answers = _made(types.FunctionResponse, id=NAMES, name=NAMES, response=json_objects())
    files = _made(types.FileData, file_uri=NAMES, mime_type=NAMES)
    return st.one_of(
        _made(types.Part, text=TEXTS),
        _made(types.Part, text=TEXTS, thought=st.booleans(), thought_signature=st.binary()),
        _made(types.Part, inline_data=blobs),
        _made(types.Part, function_call=calls),
        _made(types.Part, function_response=answers),
        _made(types.Part, file_data=files),
    )


def contents() -> st.SearchStrategy[types.Content]:
    """Generate a content, with and without role and parts."""
    return _made(
        types.Content,
        role=st.sampled_from(["user", "model", None]),
        parts=st.none() | st.lists(parts(), max_size=3),
    )


def actions() -> st.SearchStrategy[EventActions]:
    """Generate the actions of an event."""
    compactions = _made(
        EventCompaction, start_timestamp=TIMES, end_timestamp=TIMES, compacted_content=contents()
    )
    return _made(
        EventActions,
        state_delta=state_dicts(),
        artifact_delta=st.dictionaries(NAMES, st.integers(0, 99), max_size=2),
        transfer_to_agent=st.none() | NAMES,
        escalate=st.none() | st.booleans(),
        skip_summarization=st.none() | st.booleans(),
        end_of_agent=st.none() | st.booleans(),
        agent_state=st.none() | json_objects(),
        rewind_before_invocation_id=st.none() | NAMES,
        route=st.none() | st.booleans() | st.integers() | NAMES | st.lists(NAMES, max_size=2),
        compaction=st.none() | compactions,
    )


def usages() -> st.SearchStrategy[types.GenerateContentResponseUsageMetadata]:
    """Generate token counts."""
    counts = st.none() | st.integers(0, 2**31 - 1)
    return _made(
        types.GenerateContentResponseUsageMetadata,
        prompt_token_count=counts,
        candidates_token_count=counts,
        thoughts_token_count=counts,
        cached_content_token_count=counts,
        total_token_count=counts,
    )


def events() -> st.SearchStrategy[Event]:
    """Generate an event that is stored: any, but no fragment of a stream."""
    return _made(
        Event,
        author=st.sampled_from(["user", "agent"]) | TEXTS,
        invocation_id=TEXTS,
        timestamp=TIMES,
        content=st.none() | contents(),
        actions=actions(),
        output=json_values(),
        node_info=_made(NodeInfo, path=TEXTS, output_for=st.none() | st.lists(NAMES)),
        long_running_tool_ids=st.none() | st.sets(NAMES, max_size=3),
        branch=st.none() | TEXTS,
        partial=st.none() | st.just(False),
        turn_complete=st.none() | st.booleans(),
        error_code=st.none() | TEXTS,
        error_message=st.none() | TEXTS,
        finish_reason=st.none() | st.sampled_from(types.FinishReason),
        custom_metadata=st.none() | json_objects(),
        usage_metadata=st.none() | usages(),
        avg_logprobs=st.none() | FLOATS,
    )
