"""How tables become Parquet bytes and come back. Owns encodings and the check of what was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.errors import FormatError

_LEVEL = 8
"""Of zstd, where much is written once and kept; see DECISIONS."""

OPTIONAL = frozenset({"payloads"})
"""Columns that an object has only where one of its rows has a value; in memory others have nulls.
A reader that does not know them refuses the object."""


def lean(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the columns that an object may lack."""
    return pa.schema([field for field in schema if field.name not in OPTIONAL])


def as_stored(table: pa.Table) -> pa.Table:
    """Return a table without the optional columns in which no row has a value."""
    empty = [it for it in table.column_names if it in OPTIONAL and _is_empty(table, it)]
    return table.drop_columns(empty) if empty else table


def _is_empty(table: pa.Table, name: str) -> bool:
    return bool(table[name].null_count == table.num_rows)


def filled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table of `schema` with nulls in the optional columns that it lacks."""
    there = set(table.column_names)
    for place, field in enumerate(schema):
        if field.name in OPTIONAL and field.name not in there:
            table = table.add_column(place, field, pa.nulls(table.num_rows, field.type))
    return table


def write_small(table: pa.Table, *, compress: bool = False, group_rows: int | None = None) -> bytes:
    """Return a table of a few rows, lean: no dictionaries, statistics or embedded Arrow schema.

    Encoding is most of the CPU of an append; compressing a few hundred bytes would double it.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=group_rows,
        compression="zstd" if compress else "none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def write_large(table: pa.Table, group_rows: int) -> bytes:
    """Return a table of many rows: zstd, and what its columns gain by.

    All row groups have `group_rows` rows, but for the first, which has what is left over.
    """
    sink, table = pa.BufferOutputStream(), as_stored(table)
    with pq.ParquetWriter(sink, table.schema, **large(table.schema)) as writer:
        first = table.num_rows % group_rows
        if first:
            writer.write_table(table.slice(0, first))
        for start in range(first, table.num_rows, group_rows):
            writer.write_table(table.slice(start, group_rows), row_group_size=group_rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


_TEXT, _NUMBER = "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BINARY_PACKED"
_LONG = dict.fromkeys(("event_json", "text", "content", "error_message"), _TEXT)
_RANDOM = {
    **dict.fromkeys(("token", "previous"), _TEXT),
    **dict.fromkeys(("stamp", "id", "key", "place", "event_id"), "DELTA_BYTE_ARRAY"),
}
"""Texts with random parts, which get larger where one looks for what repeats."""
_OF_PAYLOADS = {
    f"payloads.list.element.{name}"
    for name in ("path", "key", "sha256", "size", "mime_type", "encoding")
}
_RANGELESS = {
    *(*_LONG, *_RANDOM, *_OF_PAYLOADS),
    *("state_delta", "invocation_id", "tool_names.list.element"),
}
"""Columns of which the least and most of a group tell nothing, and would be half of a footer."""
_ENCODINGS = {
    **_LONG,
    **_RANDOM,
    **dict.fromkeys(("version", "committed_at", "event_time"), _NUMBER),
}
"""Of columns whose values do not repeat; all others have dictionaries."""


@cache
def large(schema: pa.Schema, *, ranges: bool = True) -> dict[str, Any]:
    """Return how tables of many rows are written; `ranges`: with the least and most of columns."""
    columns = [path for field in schema for path in _leaves(field)]
    return {
        "compression": "zstd",
        "compression_level": {path: 1 if path in _RANDOM else _LEVEL for path in columns},
        "write_page_checksum": True,
        "store_schema": False,
        "use_dictionary": [path for path in columns if path not in _ENCODINGS],
        "write_statistics": [path for path in columns if ranges and path not in _RANGELESS],
        "column_encoding": {path: _ENCODINGS[path] for path in columns if path in _ENCODINGS},
    }


def _leaves(field: pa.Field, above: str = "") -> Iterator[str]:
    """Yield the paths of the columns that a field is made of."""
    path = f"{above}{field.name}"
    if pa.types.is_list(field.type):
        yield from _leaves(pa.field("element", field.type.value_type), f"{path}.list.")
    elif pa.types.is_struct(field.type):
        for each in field.type:
            yield from _leaves(each, f"{path}.")
    else:
        yield path


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A Parquet file in memory that is sure to have the columns of a schema."""

    file: pq.ParquetFile
    schema: pa.Schema
    stored: list[str]
    """Those of its columns that are there: optional ones may be missing."""

    @property
    def num_row_groups(self) -> int:
        """How many row groups it has."""
        return int(self.file.num_row_groups)


def open_parquet(body: bytes, schema: pa.Schema) -> TypedFile:
    """Return the file that `body` holds, of which the columns of `schema` are to be read.

    Raises:
        FormatError: it is not Parquet, or a column is missing that is not optional, or of another
            type.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file. reason={error}") from error
    types = dict(zip(found.names, found.types, strict=True))
    for field in schema:
        if types.get(field.name) != field.type and (
            field.name in types or field.name not in OPTIONAL
        ):
            raise FormatError(f"a Parquet file lacks a column. column={field.name!r}")
    return TypedFile(file, schema, [name for name in schema.names if name in types])


def read_groups(typed: TypedFile, groups: Sequence[int] | None = None) -> pa.Table:
    """Return the rows of some row groups, or of all, with nulls in optional columns that it lacks.

    Raises:
        FormatError: there is no row, or a page does not decode.
    """
    return filled(read_stored(typed, groups), typed.schema)


def read_stored(typed: TypedFile, groups: Sequence[int] | None = None) -> pa.Table:
    """Return the rows of some row groups, or of all, without optional columns that it lacks.

    Raises:
        FormatError: there is no row, or a page does not decode.
    """
    wanted = range(typed.num_row_groups) if groups is None else groups
    if not wanted:  # pyarrow 18 fails at that, newer ones return a table
        raise FormatError("a Parquet file holds no row")
    try:
        # One thread: handing a small file to a pool costs five times what decoding it does.
        table = typed.file.read_row_groups(list(wanted), columns=typed.stored, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"a Parquet file does not decode. reason={error}") from error
    return checked(table)


def read_exactly(body: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return the rows of a file that has just the columns of `schema`, None of one that has others.

    They are to be `checked`.

    Raises:
        FormatError: it is not Parquet, or a page does not decode, or there is no row.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file. reason={error}") from error
    if not table.num_rows:
        raise FormatError("a Parquet file holds no row")
    return table if table.schema.equals(schema) else None


def checked(table: pa.Table) -> pa.Table:
    """Return a table that was read, sure that its values are what its types say.

    Raises:
        FormatError: a text is not UTF-8, for one; or there is no row.
    """
    try:
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"a Parquet file does not decode. reason={error}") from error
    if not table.num_rows:
        raise FormatError("a Parquet file holds no row")
    return table
