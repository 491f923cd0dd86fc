"""Commits of one row that are read without the library: the same rows, or nothing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.tables.events import COMMIT_SCHEMA, EventRow, encode_commit, from_table
from lakestore.tables.lean import LeanReader
from tests.support.table_rows import event_rows

ROW = EventRow(
    version=300,
    ordinal=0,
    kind="event",
    app_name="travel",
    user_id="ana",
    session_id="s1",
    committed_at=-1_700_000_000_000_000,
    token=f"{1:016x}",
    previous="",
    state_delta='{"k": "é"}',
    event_json='{"id": "e", "timestamp": 1.5}',
)
LONG = EventRow(
    version=1,
    ordinal=0,
    kind="event",
    app_name="travel",
    user_id="ana",
    session_id="s1",
    committed_at=0,
    token=f"{1:016x}",
    previous=f"{2:016x}",
    event_json="long " * 1_000,
)


def reader(*bodies: bytes) -> LeanReader:
    """Return a reader that knows files like these."""
    found = LeanReader(COMMIT_SCHEMA)
    for body in bodies:
        found.learn(body)
    return found


READER = reader(encode_commit([ROW]), encode_commit([LONG]))


def lean_rows(found: LeanReader, body: bytes) -> list[EventRow] | None:
    """Return the row that the reader finds."""
    values = found.read(body)
    return None if values is None else [EventRow(*values)]


@given(rows=event_rows(), filler=st.sampled_from([0, 3_000]))
def test_a_row_is_what_the_library_reads(rows: list[EventRow], filler: int) -> None:
    """Once files of its shape are known a row is read, and is the one that was written."""
    body = encode_commit(rows[:1])
    found = reader(body)
    assert lean_rows(found, body) == rows[:1] == from_table(pq.read_table(pa.BufferReader(body)))


@pytest.mark.parametrize("row", [ROW, LONG], ids=["plain", "compressed"])
def test_one_shape_is_many_sizes(row: EventRow) -> None:
    """A file is known by its shape: other values of other lengths are read by it too."""
    for length in (1, 100, 1_000, 40_000):
        other = EventRow(
            version=2**40 + length,
            ordinal=0,
            kind="event",
            app_name="a",
            user_id="ü" * 200,
            session_id="s",
            committed_at=length,
            token=row.token,
            previous=row.previous,
            state_delta=row.state_delta,
            event_json=f"{length:,}." * length,
        )
        assert lean_rows(READER, encode_commit([other])) == [other]


@pytest.mark.parametrize("row", [ROW, LONG], ids=["plain", "compressed"])
def test_no_damaged_file_gives_another_row(row: EventRow) -> None:
    """Whatever byte is changed or cut off: the row that was written, or nothing."""
    body = encode_commit([row])
    assert lean_rows(READER, body) == [row]
    for place in range(len(body)):
        for flipped in (1, 0x80, 0xFF):
            damaged = bytearray(body)
            damaged[place] ^= flipped
            assert lean_rows(READER, bytes(damaged)) in ([row], None), place
        assert READER.read(body[:place]) is None
        assert READER.read(body[place + 1 :]) is None


def test_other_files_are_left_to_the_library() -> None:
    """Of more rows, of other columns, of no checksums or another codec nothing is told."""
    table = pq.read_table(pa.BufferReader(encode_commit([ROW])))
    several = encode_commit([ROW, ROW])
    others = [several]
    for options in (
        {"compression": "snappy"},
        {"compression": "none", "use_dictionary": True},
        {"compression": "none", "use_dictionary": False, "write_statistics": True},
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **options)
        others.append(sink.getvalue().to_pybytes())
    swapped = [
        "version", "ordinal", "kind", "app_name", "session_id", "user_id", *table.column_names[6:]
    ]  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.select(swapped),
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    others.append(sink.getvalue().to_pybytes())
    for body in [*others, b"", b"PAR1", b"PAR1PAR1", b"\xff" * 40]:
        assert READER.read(body) is None
    assert reader(several).read(several) is None
