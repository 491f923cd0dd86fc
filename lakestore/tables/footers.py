"""Parquet footers: where the pages of a file are said to be, and how that is said of another place.

A footer is a struct in Thrift's compact protocol. Owns copying it with other offsets, since no
library moves a row group from one file into another without encoding it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    copy = _Copy(footer, by)
    copy.struct(())
    return bytes(copy.out)


@dataclass(frozen=True, slots=True)
class Number:
    """Where a 64-bit number stands in a footer."""

    path: tuple[int, ...]
    """The numbers of the fields that lead to it."""
    start: int
    end: int


def numbers(footer: bytes) -> list[Number]:
    """Return the 64-bit numbers of a footer proper, in their order."""
    copy = _Copy(footer, 0)
    copy.struct(())
    return copy.numbers


class _Copy:
    """Copies a struct field by field; only offsets change."""

    def __init__(self, source: bytes, by: int) -> None:
        self._source = source
        self._at = 0
        self._by = by
        self.out = bytearray()
        self.numbers: list[Number] = []
        self._values: dict[int, Callable[[tuple[int, ...]], object]] = {
            _BYTE: lambda _: self._raw(1),
            _I16: lambda _: self._put_varint(self._varint()),
            _I32: lambda _: self._put_varint(self._varint()),
            _I64: self._i64,
            _DOUBLE: lambda _: self._raw(8),
            _BINARY: lambda _: self._binary(),
            _LIST: self._list,
            _SET: self._list,
            _STRUCT: self.struct,
        }

    def struct(self, path: tuple[int, ...]) -> None:
        """Copy a struct that stands at `path`, the numbers of the fields that lead to it."""
        field = 0
        while True:
            head = self._raw(1)
            if head == 0:
                return
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else self._field()
            if kind not in _BOOLS:  # whose value is the kind
                self._values[kind]((*path, field))

    def _field(self) -> int:
        zigzag = self._varint()
        self._put_varint(zigzag)
        return (zigzag >> 1) ^ -(zigzag & 1)

    def _i64(self, path: tuple[int, ...]) -> None:
        start = self._at
        zigzag = self._varint()
        self.numbers.append(Number(path, start, self._at))
        if path in _OFFSETS and zigzag:
            zigzag += 2 * self._by  # offsets are never negative
        self._put_varint(zigzag)

    def _list(self, path: tuple[int, ...]) -> None:
        head = self._raw(1)
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._varint()
            self._put_varint(size)
        for _ in range(size):
            if kind in _BOOLS:
                self._raw(1)
            else:
                self._values[kind](path)

    def _binary(self) -> None:
        size = self._varint()
        self._put_varint(size)
        self.out += self._source[self._at : self._at + size]
        self._at += size

    def _raw(self, size: int) -> int:
        """Copy `size` bytes and return the first."""
        first = self._source[self._at]
        self.out += self._source[self._at : self._at + size]
        self._at += size
        return first

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._source[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _put_varint(self, value: int) -> None:
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)
