"""Hypothesis strategies for rows of tables. Owns what a row can hold, not what it means."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from lakestore.tables import memory
from lakestore.tables.events import EventRow, Kind
from lakestore.tables.memory import MemoryRow, place_of
from lakestore.tables.payloads import Encoding, Payload
from lakestore.tables.state import StateRow
from lakestore.tables.telemetry import RowKind, TelemetryRow

_TEXTS = st.text(max_size=12)
_FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=3)
_IDS = st.text(min_size=1, max_size=12)
TOKENS = st.integers(0, 2**64 - 1).map("{:016x}".format)
# All that a calendar of the years 1 to 9999 can show.
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
STAMPS = st.builds(
    "{:016}-{:06}-{}".format, st.integers(0, 10**16 - 1), st.integers(0, 999_999), TOKENS
)


def _json(values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return values.map(lambda value: json.dumps(value, ensure_ascii=False))


# To these tables JSON is text, so a little of it will do.
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS
_OBJECTS = st.dictionaries(_TEXTS, _SCALARS, max_size=3)


def _event_json() -> st.SearchStrategy[str]:
    """Generate an event as JSON, with fields of types that nobody expects."""
    known = {"id": _TEXTS, "author": _SCALARS, "timestamp": st.floats(-1e10, 1e11)}
    return _json(st.fixed_dictionaries(known) | _OBJECTS)


def _payloads() -> st.SearchStrategy[tuple[Payload, ...]]:
    encodings: list[Encoding] = ["base64", "base64url"]
    one = st.builds(
        Payload,
        path=_TEXTS,
        key=_IDS,
        sha256=TOKENS,
        size=st.integers(1, 2**63 - 1),
        mime_type=st.none() | _TEXTS,
        encoding=st.sampled_from(encodings),
    )
    return st.just(()) | st.lists(one, min_size=1, max_size=3).map(tuple)


def event_rows() -> st.SearchStrategy[list[EventRow]]:
    """Generate some rows of the table `events`."""
    kinds: list[Kind] = ["create", "event", "delete", "checkpoint"]
    row = st.builds(
        EventRow,
        version=st.integers(0, 2**63 - 1),
        ordinal=st.integers(0, 2**31 - 1),
        kind=st.sampled_from(kinds),
        app_name=_IDS,
        user_id=_IDS,
        session_id=_IDS,
        committed_at=MICROS,
        token=TOKENS,
        previous=st.just("") | TOKENS,
        stamp=st.none() | STAMPS,
        state_delta=st.none() | _json(_OBJECTS),
        event_json=st.none() | _event_json(),
        payloads=_payloads(),
    )
    return st.lists(row, min_size=1, max_size=4)


def telemetry_rows() -> st.SearchStrategy[list[TelemetryRow]]:
    """Generate some rows of the table `telemetry`."""
    kinds: list[RowKind] = ["model", "tool", "run"]
    texts, counts = st.none() | _TEXTS, st.none() | st.integers(0, 2**63 - 1)
    optional = ("agent", "event_id", "call_id", "model", "tool_name", "error_type", "cause_id")
    counted = ("duration_us", "first_token_us", "prompt_tokens", "output_tokens", "total_tokens")
    row = st.builds(
        TelemetryRow,
        app_name=_IDS,
        user_id=_IDS,
        id=STAMPS,
        stamp=STAMPS,
        kind=st.sampled_from(kinds),
        session_id=_IDS,
        version=st.integers(0, 2**63 - 1),
        invocation_id=_TEXTS,
        started_at=MICROS,
        error_message=texts,
        **dict.fromkeys(optional, texts),
        **dict.fromkeys(counted, counts),
    )
    return st.lists(row, min_size=1, max_size=4)


def state_rows() -> st.SearchStrategy[list[StateRow]]:
    """Generate some rows of the table `state`."""
    row = st.builds(
        StateRow,
        app_name=_IDS,
        user_id=st.none() | _IDS,
        key=_TEXTS,
        value=_json(_SCALARS),
        stamp=STAMPS,
        session_id=_IDS,
        source_user_id=_IDS,
        version=st.integers(1, 2**63 - 1),
    )
    return st.lists(row, min_size=1, max_size=4)


def memory_rows() -> st.SearchStrategy[list[MemoryRow]]:
    """Generate some rows of the table `memory`."""
    ordinals = st.integers(0, 2**31 - 1)
    ids = st.none() | _IDS
    row = st.builds(
        MemoryRow,
        app_name=_IDS,
        user_id=ids,
        id=_IDS,
        kind=st.sampled_from(["add", "forget"]),
        stamp=STAMPS,
        ordinal=ordinals,
        place=st.none() | st.builds(place_of, STAMPS, ordinals),
        inserted_at=MICROS,
        session_id=ids,
        source_user_id=ids,
        version=st.integers(0, 2**63 - 1),
        extracted=st.booleans(),
        event_id=ids,
        invocation_id=ids,
        author=ids,
        tool_call_id=ids,
        event_time=st.none() | MICROS,
        content=st.none() | _json(_OBJECTS),
        text=st.none() | _TEXTS,
        words=st.lists(_TEXTS, max_size=3).map(tuple),
        custom_metadata=st.none() | _json(_OBJECTS),
        embedding=st.none() | _FLOATS.map(memory.vector),
    )
    return st.lists(row, min_size=1, max_size=4)
