"""Parquet in which each row group is a file of its own, so that ranges can be read alone.

Owns how they are written, joined and told apart; encodings are `lakestore.tables.parquet`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.errors import FormatError
from lakestore.tables.footers import MAGIC, TAIL, footer_size, joined_footer
from lakestore.tables.parquet import OPTIONAL, as_stored, large, lean, open_parquet, read_groups


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
    without the footer of all, which grows with the number of groups and columns. All have the same
    columns: the first row with a value in an optional one has those before it written again.
    """

    def __init__(self, schema: pa.Schema, *, ranges: bool = True) -> None:
        """Write rows of `schema`.

        Args:
            schema: Of all row groups.
            ranges: Say what the least and most of columns are, for who skips row groups by it.
        """
        self._whole = schema
        self._ranges = ranges
        self._begin(lean(schema))

    def _begin(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._options = large(schema, ranges=self._ranges)
        self._parts: list[bytes] = []
        self._footers: list[tuple[int, bytes]] = []
        self.nbytes = 0
        """Bytes so far."""
        self.groups: list[GroupPlace] = []
        """The row groups that were written."""

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        if not self._is_whole and len(as_stored(table).schema) > len(self._schema):
            self._widen()
        self._encode(table.select(self._schema.names))

    @property
    def _is_whole(self) -> bool:
        return len(self._schema) == len(self._whole)

    def _widen(self) -> None:
        """Write what there is again, with all columns."""
        parts = self._parts
        self._begin(self._whole)
        for body in parts:
            self._encode(read_groups(open_parquet(body, self._whole)).select(self._whole.names))

    def _encode(self, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, self._schema, **self._options) as writer:
            writer.write_table(table, row_group_size=table.num_rows)
        self._take(sink.getvalue().to_pybytes(), table.num_rows)

    def copy(self, body: bytes, rows: int) -> bool:
        """Write a row group of another file of this schema as it is; tell whether it could be.

        One that lacks a column of those before it cannot.
        """
        is_whole = len(pq.read_schema(pa.BufferReader(body))) == len(self._whole)
        if is_whole and not self._is_whole:
            self._widen()
        if is_whole == self._is_whole:
            self._take(body, rows)
        return is_whole == self._is_whole

    def _take(self, body: bytes, rows: int) -> None:
        self._footers.append((self.nbytes, body[-footer_size(body) :]))
        self.groups.append(GroupPlace(self.nbytes, len(body), rows))
        self._parts.append(body)
        self.nbytes += len(body)

    def close(self) -> bytes:
        """Return the file, with a footer for all of it; at least one group was written."""
        if len(self._parts) == 1:  # whose own says the same
            return self._parts[0]
        return b"".join([*self._parts, joined_footer(self._footers)])


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


def has_payloads(footer: bytes) -> bool:
    """Tell whether a file has the columns that one may lack, by its footer.

    Raises:
        FormatError: it is no footer.
    """
    try:
        schema = pq.read_schema(pa.BufferReader(MAGIC + footer))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not the footer of a Parquet file. reason={error}") from error
    return not OPTIONAL.isdisjoint(schema.names)


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
