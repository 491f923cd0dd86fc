"""Whether bytes of a large Parquet file are those that were stored."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.storage import MemoryStore
from lakestore.storage.files import StoreFiles
from lakestore.tables.footers import footer_size
from lakestore.tables.groups import GroupWriter, column_places
from lakestore.tables.pages import Pages, are_whole

SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string()),
        pa.field("event_json", pa.string()),
        pa.field("tool_names", pa.list_(pa.string())),
        pa.field("version", pa.int64()),
    ]
)
ROWS = 1_000
KEY = "packs/app=a/events/1.parquet"


def written(groups: int, letters: int) -> bytes:
    """Return a file of as many row groups, with texts of so many letters that cannot be packed."""
    chance, writer = random.Random(1), GroupWriter(SCHEMA)

    def text() -> str:
        return chance.randbytes(letters // 2).hex()

    for _ in range(groups):
        columns = {
            "app_name": ["a"] * ROWS,
            "event_json": [text() for _ in range(ROWS)],
            "tool_names": [[text(), "t"] for _ in range(ROWS)],
            "version": [chance.getrandbits(60) for _ in range(ROWS)],
        }
        writer.write(pa.table(columns, schema=SCHEMA))
    return writer.close()


BODY = written(2, 20)
FOOTER = BODY[-footer_size(BODY) :]
PLACES = column_places(FOOTER)


def fetch(start: int, length: int) -> bytes:
    """Read more of it."""
    return BODY[start : start + length]


@given(st.data())
def test_any_range_of_a_whole_file_is_whole(data: st.DataObject) -> None:
    """Wherever a read begins and ends, in whatever order."""
    pages = Pages(FOOTER)
    for _ in range(3):
        start = data.draw(st.integers(0, len(BODY) - 1))
        end = data.draw(st.integers(start, len(BODY)))
        assert pages.damage(start, BODY[start:end], fetch) is None


@given(st.data())
def test_damage_is_found_where_it_is(data: st.DataObject) -> None:
    """In a column that a read has whole, or begins in; the bytes of a page are all compared."""
    first, last = data.draw(
        st.sampled_from([place for place in PLACES if place[1] - place[0] > 90])
    )
    at = data.draw(st.integers(last - 20, last - 1))
    harmed = BODY[:at] + bytes([BODY[at] ^ data.draw(st.integers(1, 255))]) + BODY[at + 1 :]
    start = data.draw(st.integers(0, last - 1))
    end = data.draw(st.integers(last, PLACES[-1][1]))
    found = Pages(FOOTER).damage(start, harmed[start:end], lambda a, n: harmed[a : a + n])
    assert found == (first, last - first)
    if start <= first:
        assert Pages(FOOTER).damage(start, harmed[start:], fetch) == found
    assert Pages(FOOTER).damage(last, harmed[last:], fetch) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_looked_at(body: bytes) -> None:
    """What is no page is damage, however it is made, and never an error or a loop."""
    assert not are_whole(body + b"\x00")


@pytest.mark.parametrize("body", [b"\x1c" * 5_000, b"\x19\xf1\xff\xff\xff\xff\xff\x0f", b"\x15"])
def test_what_looks_like_much(body: bytes) -> None:
    """Structs within structs, a list of what is not there, a number without an end."""
    assert not are_whole(body)


def test_a_part_of_a_page_is_damage() -> None:
    """A page that ends too early was cut."""
    first, last = PLACES[1]
    assert are_whole(BODY[first:last])
    assert not are_whole(BODY[first : last - 1])


QUERIES = {
    "event_json": "sum(length(event_json))",
    "tool_names": "sum(length(tool_names[1]))",
    "version": "bit_xor(version)",
}


@pytest.mark.parametrize("letters", [400, 2_000])
@pytest.mark.parametrize("column", QUERIES)
def test_duckdb_is_given_no_damaged_byte(column: str, letters: int) -> None:
    """Of lists that it reads piece by piece neither; a file that is whole is read as ever."""
    body = written(2, letters)
    end = body[-footer_size(body) :]
    first, last = column_places(end)[SCHEMA.get_field_index(column)]
    at = (first + last) // 2

    def asked(body: bytes) -> object:
        store = MemoryStore()
        store.put_if_absent(KEY, body)
        files = StoreFiles(store)
        files.know(KEY, len(body), end, Pages(end).damage)
        with duckdb.connect() as connection:
            connection.register_filesystem(files)
            query = f"select {QUERIES[column]} from 'lakestore://{KEY}'"
            return connection.sql(query).fetchall()

    assert asked(body)
    with pytest.raises(duckdb.Error, match=rf"start={first} length={last - first}"):
        asked(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
