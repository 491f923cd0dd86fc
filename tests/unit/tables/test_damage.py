"""Bytes that are damaged: a FormatError, whatever is wrong with them, and never wrong rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.history.rollup import Rollup
from lakestore.history.rollup import encode as encode_rollup
from lakestore.tables import events, state, telemetry
from lakestore.tables.events import EventRow
from lakestore.tables.state import StateRow
from tests.support.measured import measured

EVENTS = [
    EventRow(
        version=version,
        ordinal=0,
        kind="create" if version == 1 else "event",
        app_name="travel",
        user_id="ana",
        session_id="s1",
        committed_at=1_700_000_000_000_000,
        token=f"{version:016x}",
        previous="",
        stamp=None,
        state_delta='{"k": "é"}',
        event_json=None if version == 1 else f'{{"id": "e{version}", "timestamp": 1.5}}',
    )
    for version in range(1, 5)
]
STATE = [StateRow("travel", "ana", "k", '"é"', "1-1-1", "s1", "ana", 1)]
COMMIT = events.encode_commit(EVENTS[1:2])
LARGE_COMMIT = events.encode_commit([EVENTS[1]] * 100)
ROLLUP = encode_rollup(EVENTS, {"k": "é"}, 1)
ENTRY = state.encode(STATE)


def read_rollup(body: bytes) -> list[EventRow]:
    """Return all that is read of a rollup."""
    rollup = Rollup(body)
    return [*rollup.rows(), rollup.checkpoint, *rollup.last_events(9)]


OBJECTS: dict[str, tuple[bytes, Callable[[bytes], list[Any]]]] = {
    "commit": (COMMIT, events.decode),
    "large-commit": (LARGE_COMMIT, events.decode),
    "rollup": (ROLLUP, read_rollup),
    "entry": (ENTRY, state.decode),
    "telemetry": (telemetry.encode([measured()]), telemetry.decode),
}
of_each_object = pytest.mark.parametrize(("body", "read"), OBJECTS.values(), ids=OBJECTS.keys())


# R068
@of_each_object
@pytest.mark.parametrize(
    "other", [b"", b"x", b"PAR1", b"PAR1PAR1", b"\0" * 8, b"{}", b"PK\3\4" * 9]
)
def test_what_is_no_parquet(body: bytes, read: Callable[[bytes], list[Any]], other: bytes) -> None:
    """Empty files, half a magic number and other formats are refused as such."""
    assert read(body)
    with pytest.raises(FormatError):
        read(other)


@of_each_object
def test_what_was_cut_short(body: bytes, read: Callable[[bytes], list[Any]]) -> None:
    """An object that ends too early, anywhere, is refused."""
    for end in [*range(0, len(body), 37), len(body) - 1]:
        with pytest.raises(FormatError):
            read(body[:end])


@of_each_object
def test_what_lost_its_middle(body: bytes, read: Callable[[bytes], list[Any]]) -> None:
    """Pages that were zeroed, as by a disk that lost a block, are refused."""
    with pytest.raises(FormatError):
        read(body[:4] + bytes(len(body) // 2) + body[4 + len(body) // 2 :])


@settings(max_examples=200)
@given(
    name=st.sampled_from(sorted(OBJECTS)),
    place=st.floats(0, 1, exclude_max=True),
    change=st.integers(1, 255),
)
def test_one_changed_byte(name: str, place: float, change: int) -> None:
    """A byte that rotted gives a FormatError or rows, and no other error."""
    body, read = OBJECTS[name]
    at = int(place * len(body))
    damaged = body[:at] + bytes([body[at] ^ change]) + body[at + 1 :]
    try:
        rows = read(damaged)
    except FormatError:
        return
    assert rows


def test_texts_that_are_no_unicode() -> None:
    """A text whose bytes rotted to something that is no UTF-8 is refused."""
    assert COMMIT.count("é".encode()) == 1
    with pytest.raises(FormatError):
        events.decode(COMMIT.replace("é".encode(), b"\xff\xff"))


def test_a_commit_is_no_rollup() -> None:
    """A rollup ends with a checkpoint; what does not is none."""
    with pytest.raises(FormatError, match="checkpoint"):
        Rollup(COMMIT)


def test_an_entry_is_no_commit() -> None:
    """Objects of one table are not taken for those of another."""
    with pytest.raises(FormatError):
        events.decode(ENTRY)
    with pytest.raises(FormatError):
        state.decode(COMMIT)
