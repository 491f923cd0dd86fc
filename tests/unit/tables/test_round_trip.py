"""Every table has the same four names, and its rows come back through Arrow and through bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.tables import events, memory, state, telemetry
from lakestore.tables.events import EventRow
from lakestore.tables.memory import MemoryRow
from lakestore.tables.parquet import OPTIONAL
from lakestore.tables.state import StateRow
from lakestore.tables.telemetry import TelemetryRow
from tests.support.strategies import TEXTS, json_objects, json_values
from tests.support.table_rows import event_rows, memory_rows, state_rows, telemetry_rows


@dataclass(frozen=True, slots=True)
class TableCase:
    """One file of `tables/`."""

    name: str
    module: ModuleType
    row: type
    rows: st.SearchStrategy[list[Any]]
    """Some rows of one object."""
    encode: Callable[[Sequence[Any]], bytes]
    decode: Callable[[bytes], list[Any]]
    left_out: frozenset[str] = frozenset()
    """Columns of `SCHEMA` that follow from the others, so that no row has them."""


THIN = frozenset(events.SCHEMA.names) - frozenset(events.COMMIT_SCHEMA.names)
CASES = [
    TableCase("commit", events, EventRow, event_rows(), events.encode_commit, events.decode, THIN),
    TableCase("rollup", events, EventRow, event_rows(), events.encode_rollup, events.decode, THIN),
    TableCase("state", state, StateRow, state_rows(), state.encode, state.decode),
    TableCase(
        "memory",
        memory,
        MemoryRow,
        memory_rows(),
        memory.encode,
        memory.decode,
        frozenset({"key"}),
    ),
    TableCase(
        "telemetry",
        telemetry,
        TelemetryRow,
        telemetry_rows(),
        telemetry.encode,
        telemetry.decode,
    ),
]

of_each_table = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@of_each_table
@given(data=st.data())
def test_rows_come_back(case: TableCase, data: st.DataObject) -> None:
    """Rows survive the way through Arrow and through bytes, in their order."""
    rows = data.draw(case.rows)
    table = case.module.to_table(rows)

    assert table.schema == case.module.SCHEMA
    assert case.module.from_table(table) == rows
    assert case.decode(case.encode(rows)) == rows


@of_each_table
def test_a_row_is_frozen_and_tells_its_columns(case: TableCase) -> None:
    """A row type has the columns of the schema in their order, and cannot be changed."""
    names = [name for name in case.module.SCHEMA.names if name not in case.left_out]

    assert is_dataclass(case.row)
    assert [field.name for field in fields(case.row)] == names
    assert case.row.__name__.endswith("Row")
    assert case.row.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert hasattr(case.row, "__slots__")


@of_each_table
def test_no_rows_are_an_empty_table(case: TableCase) -> None:
    """A table without rows has the types all the same."""
    table = case.module.to_table([])

    assert (table.schema, table.num_rows) == (case.module.SCHEMA, 0)
    assert case.module.from_table(table) == []


@of_each_table
@given(data=st.data())
def test_a_part_of_a_table_gives_its_rows(case: TableCase, data: st.DataObject) -> None:
    """Slices and tables of several chunks are read like whole ones."""
    rows = data.draw(case.rows)
    table = case.module.to_table(rows)
    chunks = pa.concat_tables([table, table])

    assert case.module.from_table(table.slice(1)) == rows[1:]
    assert case.module.from_table(chunks) == rows * 2


@of_each_table
@given(data=st.data())
def test_other_columns_and_orders_do_not_matter(case: TableCase, data: st.DataObject) -> None:
    """A later version may add columns, and engines may reorder them."""
    rows = data.draw(case.rows)
    table = pq.read_table(pa.BufferReader(case.encode(rows)))
    table = table.select(table.column_names[::-1])
    table = table.append_column("added_later", pa.array([{"x": 1}] * len(rows)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)

    assert case.decode(sink.getvalue().to_pybytes()) == rows


@of_each_table
@given(data=st.data())
def test_a_missing_column_is_named(case: TableCase, data: st.DataObject) -> None:
    """Bytes without one of the columns are a FormatError that says which."""
    rows = data.draw(case.rows)
    table = pq.read_table(pa.BufferReader(case.encode(rows)))
    names = [field.name for field in fields(case.row) if field.name not in OPTIONAL]
    name = data.draw(st.sampled_from(names))
    sink = pa.BufferOutputStream()
    pq.write_table(table.drop_columns([name]), sink)

    with pytest.raises(FormatError, match=f"'{name}'"):
        case.decode(sink.getvalue().to_pybytes())


@of_each_table
@given(data=st.data())
def test_a_column_of_another_type_is_named(case: TableCase, data: st.DataObject) -> None:
    """So is one whose values are of another kind."""
    rows = data.draw(case.rows)
    table = pq.read_table(pa.BufferReader(case.encode(rows)))
    name = data.draw(st.sampled_from([field.name for field in fields(case.row)]))
    place = table.column_names.index(name)
    other = pa.array([1.5] * len(rows), pa.float64())
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, name, other), sink)

    with pytest.raises(FormatError, match=f"'{name}'"):
        case.decode(sink.getvalue().to_pybytes())


@of_each_table
def test_an_object_without_rows_is_damaged(case: TableCase) -> None:
    """No object of a lake is ever written without a row."""
    with pytest.raises(FormatError, match="no row"):
        case.decode(case.encode([]))


@given(rows=event_rows())
def test_commits_and_rollups_decode_alike(rows: list[EventRow]) -> None:
    """No reader can tell from which of the two a row came."""
    commit, rollup = events.encode_commit(rows), events.encode_rollup(rows)

    assert events.decode(commit) == events.decode(rollup)


@given(rows=event_rows())
def test_thin_columns_are_in_rollups_only(rows: list[EventRow]) -> None:
    """A commit holds `COMMIT_SCHEMA`, a rollup `SCHEMA`; the latter is what follows from rows.

    Both lack the column for payloads where no row has any.
    """
    commit = pq.read_table(pa.BufferReader(events.encode_commit(rows)))
    rollup = pq.read_table(pa.BufferReader(events.encode_rollup(rows)))

    less = [] if any(row.payloads for row in rows) else ["payloads"]
    assert commit.column_names == [it for it in events.COMMIT_SCHEMA.names if it not in less]
    assert rollup.column_names == [it for it in events.SCHEMA.names if it not in less]
    assert rollup.to_pylist() == events.to_table(rows).drop_columns(less).to_pylist()


def test_a_rollup_is_cut_into_row_groups() -> None:
    """The end of a long rollup can be read without its beginning."""
    row = EventRow(1, 0, "event", "a", "u", "s", 0, "ff", "")
    rows = [row] * (2 * events.ROW_GROUP_ROWS + 1)
    file = pq.ParquetFile(pa.BufferReader(events.encode_rollup(rows)))

    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [
        1,
        events.ROW_GROUP_ROWS,
        events.ROW_GROUP_ROWS,
    ]


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=12))
def test_the_latest_row_of_each_key_counts(rows: list[tuple[str, int]]) -> None:
    """The fold of shared state is the same in any order."""
    made = [StateRow("a", None, key, str(n), f"{n:016}", "s", "u", 1) for key, n in rows]
    fold = state.latest(made)

    assert fold == state.latest(made[::-1]) == state.latest(made + made)
    assert {key: int(row.value or "") for key, row in fold.items()} == {
        key: max(n for other, n in rows if other == key) for key, _ in rows
    }


@given(
    delta=json_objects()
    | st.dictionaries(
        st.builds(
            str.__add__, st.sampled_from(["", "app:", "user:", "temp:", "App:", "app"]), TEXTS
        ),
        json_values(),
    )
)
def test_a_delta_splits_into_scopes(delta: dict[str, Any]) -> None:
    """Each key goes to the scope that its prefix names, without it, and `temp:` keys to none."""
    session, user, app = state.split_scopes(delta)

    again = {
        **session,
        **{f"user:{key}": value for key, value in user.items()},
        **{f"app:{key}": value for key, value in app.items()},
    }
    assert again == {key: value for key, value in delta.items() if not key.startswith("temp:")}
    assert not any(key.startswith(("user:", "app:", "temp:")) for key in session)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("k", ({"k": 1}, {}, {})),
        ("", ({"": 1}, {}, {})),
        ("user:k", ({}, {"k": 1}, {})),
        ("app:k", ({}, {}, {"k": 1})),
        ("user:", ({}, {"": 1}, {})),
        ("app:user:k", ({}, {}, {"user:k": 1})),
        ("user:app:k", ({}, {"app:k": 1}, {})),
        ("temp:k", ({}, {}, {})),
        ("temp:app:k", ({}, {}, {})),
        ("User:k", ({"User:k": 1}, {}, {})),
        ("application", ({"application": 1}, {}, {})),
    ],
)
def test_prefixes_are_read_once(
    key: str, expected: tuple[dict[str, int], dict[str, int], dict[str, int]]
) -> None:
    """Only the first prefix counts, letter by letter."""
    assert state.split_scopes({key: 1}) == expected
