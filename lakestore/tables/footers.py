"""Parquet footers: where the pages of a file are said to be, and how that is said of another place.

A footer is a struct in Thrift's compact protocol. Owns copying it with other offsets, since no
library moves a row group from one file into another without encoding it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC = b"PAR1"
TAIL = 8
"""Bytes after the footer proper: its length, and the magic ones."""

_BOOLS = (1, 2)
_BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12

# FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, as the fields' numbers.
_OFFSETS = {
    (4, 5): "RowGroup.file_offset",
    (4, 1, 2): "ColumnChunk.file_offset",
    (4, 1, 4): "ColumnChunk.offset_index_offset",
    (4, 1, 6): "ColumnChunk.column_index_offset",
    (4, 1, 3, 9): "ColumnMetaData.data_page_offset",
    (4, 1, 3, 10): "ColumnMetaData.index_page_offset",
    (4, 1, 3, 11): "ColumnMetaData.dictionary_page_offset",
    (4, 1, 3, 14): "ColumnMetaData.bloom_filter_offset",
}


def footer_size(body: bytes) -> int:
    """Return how many bytes at the end of a Parquet file are its footer, magic bytes included."""
    return int.from_bytes(body[-TAIL:-4], "little") + TAIL


def joined_footer(parts: list[tuple[int, bytes]]) -> bytes:
    """Return the footer of a file that holds whole files, each as it is.

    Args:
        parts: Where each begins, and its own footer; all of one schema.
    """
    found = [_metadata(moved(footer[:-TAIL], start)) for start, footer in parts]
    whole = found[0]
    for each in found[1:]:
        whole.append_row_groups(each)
    sink = pa.BufferOutputStream()
    whole.write_metadata_file(sink)
    footer: bytes = sink.getvalue().to_pybytes()[len(MAGIC) :]
    return footer


def _metadata(footer: bytes) -> pq.FileMetaData:
    file = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    return pq.read_metadata(pa.BufferReader(file))


def moved(footer: bytes, by: int) -> bytes:
    """Return a footer proper for the same pages `by` bytes later."""
    parts, at = [], 0
    for each in numbers(footer):
        if each.path in _OFFSETS and each.value:
            parts += [footer[at : each.start], _varint(each.value + by)]
            at = each.end
    return b"".join([*parts, footer[at:]])


def _varint(value: int) -> bytes:
    """Return a number that is not negative as it is written."""
    zigzag, out = 2 * value, bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


class Number(NamedTuple):
    """A 64-bit number in a footer."""

    path: tuple[int, ...]
    """The numbers of the fields that lead to it."""
    start: int
    end: int
    value: int


def numbers(footer: bytes) -> list[Number]:
    """Return the 64-bit numbers of a footer proper, in their order."""
    walk = _Walk(footer)
    walk.struct(())
    return walk.numbers


class _Walk:
    """Goes through a struct field by field."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._at = 0
        self.numbers: list[Number] = []
        self._values: dict[int, Callable[[tuple[int, ...]], object]] = {
            _BYTE: lambda _: self._skip(1),
            _I16: lambda _: self._number(),
            _I32: lambda _: self._number(),
            _I64: self._i64,
            _DOUBLE: lambda _: self._skip(8),
            _BINARY: lambda _: self._skip(self._number()),
            _LIST: self._list,
            _SET: self._list,
            _STRUCT: self.struct,
        }

    def struct(self, path: tuple[int, ...]) -> None:
        """Go through a struct that stands at `path`, the numbers of the fields that lead to it."""
        field = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else _signed(self._number())
            if kind not in _BOOLS:  # whose value is the kind
                self._values[kind]((*path, field))

    def _i64(self, path: tuple[int, ...]) -> None:
        start = self._at
        value = _signed(self._number())
        self.numbers.append(Number(path, start, self._at, value))

    def _list(self, path: tuple[int, ...]) -> None:
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._number()
        for _ in range(size):
            if kind in _BOOLS:
                self._skip(1)
            else:
                self._values[kind](path)

    def _skip(self, size: int) -> None:
        self._at += size

    def _byte(self) -> int:
        self._at += 1
        return self._source[self._at - 1]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._source[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)
