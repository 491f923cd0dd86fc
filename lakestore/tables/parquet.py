"""How tables become Parquet bytes and come back. Owns encodings and the check of what was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.errors import FormatError
from lakestore.tables.footers import MAGIC, TAIL, footer_size, joined_footer

_LEVEL = 8
"""Of zstd, where much is written once and kept; see DECISIONS."""


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
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **_large(table.schema)) as writer:
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
_RANGELESS = {*_LONG, *_RANDOM, "state_delta", "invocation_id", "tool_names.list.element"}
"""Columns of which the least and most of a group tell nothing, and would be half of a footer."""
_ENCODINGS = {
    **_LONG,
    **_RANDOM,
    **dict.fromkeys(("version", "committed_at", "event_time"), _NUMBER),
}
"""Of columns whose values do not repeat; all others have dictionaries."""


@cache
def _large(schema: pa.Schema, *, ranges: bool = True) -> dict[str, Any]:
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
class GroupPlace:
    """Where one row group is in a file, with the footer of its own that follows it."""

    start: int
    """Bytes before it."""
    length: int
    """Bytes."""
    rows: int


class GroupWriter:
    """Writes large Parquet in memory, one row group a call, as `write_large` does.

    Each row group is a whole Parquet file within the file, so that one range of it can be read
    without the footer of all, which grows with the number of groups and columns.
    """

    def __init__(self, schema: pa.Schema, *, ranges: bool = True) -> None:
        """Write rows of `schema`.

        Args:
            schema: Of all row groups.
            ranges: Say what the least and most of columns are, for who skips row groups by it.
        """
        self._schema = schema
        self._options = _large(schema, ranges=ranges)
        self._parts: list[bytes] = []
        self._footers: list[tuple[int, bytes]] = []
        self.nbytes = 0
        """Bytes so far."""
        self.groups: list[GroupPlace] = []
        """The row groups that were written."""

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, self._schema, **self._options) as writer:
            writer.write_table(table, row_group_size=table.num_rows)
        self.copy(sink.getvalue().to_pybytes(), table.num_rows)

    def copy(self, body: bytes, rows: int) -> None:
        """Write a row group of another file of this schema, as it is."""
        self._footers.append((self.nbytes, body[-footer_size(body) :]))
        self.groups.append(GroupPlace(self.nbytes, len(body), rows))
        self._parts.append(body)
        self.nbytes += len(body)

    def close(self) -> bytes:
        """Return the file, with a footer for all of it; at least one group was written."""
        if len(self._parts) == 1:  # whose own says the same
            return self._parts[0]
        return b"".join([*self._parts, joined_footer(self._footers)])


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A Parquet file in memory that is sure to have the columns of a schema."""

    file: pq.ParquetFile
    schema: pa.Schema

    @property
    def num_row_groups(self) -> int:
        """How many row groups it has."""
        return int(self.file.num_row_groups)


def open_parquet(body: bytes, schema: pa.Schema, refused: Sequence[str] = ()) -> TypedFile:
    """Return the file that `body` holds, of which the columns of `schema` are to be read.

    Raises:
        FormatError: it is not Parquet, or a column is missing or of another type, or one of the
            `refused` is there.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file. reason={error}") from error
    types = dict(zip(found.names, found.types, strict=True))
    for field in schema:
        if types.get(field.name) != field.type:
            raise FormatError(f"a Parquet file lacks a column. column={field.name!r}")
    for name in refused:
        if name in types:
            raise FormatError(f"written by a newer version of lakestore. column={name!r}")
    return TypedFile(file, schema)


def split_groups(body: bytes) -> list[bytes]:
    """Return the row groups of a range of a `GroupWriter`'s file, each a whole file, in order.

    Raises:
        FormatError: the range is not made of whole row groups.
    """
    found: list[bytes] = []
    end = len(body)
    while end:
        start = _start_of_last(body, end)
        if start < 0 or body[start : start + len(MAGIC)] != MAGIC:
            raise FormatError("a range of a Parquet file is not made of whole row groups")
        found.append(body[start:end])
        end = start
    return found[::-1]


def group_places(footer: bytes, size: int) -> list[tuple[int, int]]:
    """Return start and length of each row group of a `GroupWriter`'s file, footers included.

    Args:
        footer: Of the whole file.
        size: Of the whole file.

    Raises:
        FormatError: it is no footer.
    """
    pages, last = _pages(footer), size - len(footer)
    starts = [min(found) - len(MAGIC) for found in pages]
    # A footer right after the pages is that of the one group.
    ends = [*starts[1:], size if max(pages[-1].values(), default=0) == last else last]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]


def column_places(footer: bytes) -> list[tuple[int, int]]:
    """Return where the pages of each column of each row group begin, and where they end.

    Raises:
        FormatError: it is no footer.
    """
    return sorted(place for found in _pages(footer) for place in found.items())


def _start_of_last(body: bytes, end: int) -> int:
    """Return where the file begins that ends at `end`, below 0 when none does."""
    size = footer_size(body[max(0, end - TAIL) : end])
    if size > end:
        return -1
    ends = [max(found.values()) for found in _pages(body[end - size : end])]
    return end - size - max(ends, default=0)


def _pages(footer: bytes) -> list[dict[int, int]]:
    """Return, for each row group, where the pages of each column begin, and where they end."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + footer))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not the footer of a Parquet file. reason={error}") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [
        {
            (start := _start_of(column)): start + int(column.total_compressed_size)
            for column in (group.column(number) for number in range(group.num_columns))
        }
        for group in groups
    ]


def _start_of(column: pq.ColumnChunkMetaData) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


def read_groups(typed: TypedFile, groups: Sequence[int] | None = None) -> pa.Table:
    """Return the rows of some row groups, or of all.

    Raises:
        FormatError: there is no row, or a page does not decode.
    """
    wanted = range(typed.num_row_groups) if groups is None else groups
    if not wanted:  # pyarrow 18 fails at that, newer ones return a table
        raise FormatError("a Parquet file holds no row")
    try:
        # One thread: handing a small file to a pool costs five times what decoding it does.
        table = typed.file.read_row_groups(
            list(wanted), columns=typed.schema.names, use_threads=False
        )
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
