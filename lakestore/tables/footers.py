"""Parquet footers: where the pages of a file are said to be, and how that is said of another place.

Footers, and headers of pages, are structs in Thrift's compact protocol. Owns copying a footer with
other offsets, since no library moves a row group from one file into another without encoding it
again, and reading a header alone.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.errors import FormatError

MAGIC = b"PAR1"
TAIL = 8
"""Bytes after the footer proper: its length, and the magic ones."""

_BOOLS = (1, 2)
_BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12
_FIXED = {_BYTE: 1, _DOUBLE: 8}
"""Bytes of values of one length."""

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


class PageHeader(NamedTuple):
    """What stands before the bytes of a page."""

    end: int
    """Where it ends and the page begins."""
    size: int
    """Bytes of the page, as they are stored."""
    crc: int | None
    """Their checksum, None if they have none."""


# PageHeader.compressed_page_size and PageHeader.crc, as the fields' numbers.
_PAGE_SIZE, _PAGE_CRC = (3,), (4,)


def page_header(body: bytes, at: int) -> PageHeader:
    """Return the header that begins at `at`.

    Raises:
        FormatError: there is none.
    """
    walk = _Walk(body, at)
    try:
        walk.struct(())
        size, crc = walk.small[_PAGE_SIZE], walk.small.get(_PAGE_CRC)
    except (LookupError, RecursionError):
        raise FormatError("not the header of a page") from None
    return PageHeader(walk.at, size, None if crc is None else crc & 0xFFFFFFFF)


class _Walk:
    """Goes through a struct field by field."""

    __slots__ = ("_source", "at", "numbers", "small")

    def __init__(self, source: bytes, at: int = 0) -> None:
        self._source = source
        self.at = at
        self.numbers: list[Number] = []
        self.small: dict[tuple[int, ...], int] = {}
        """The last 32-bit number of each path."""

    def struct(self, path: tuple[int, ...]) -> None:
        """Go through a struct that stands at `path`, the numbers of the fields that lead to it."""
        field, source = 0, self._source
        while head := source[self.at]:
            self.at += 1
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else _signed(self._number())
            if kind not in _BOOLS:  # whose value is the kind
                self._value(kind, (*path, field))
        self.at += 1

    def _value(self, kind: int, path: tuple[int, ...]) -> None:
        if kind == _I32:
            self.small[path] = _signed(self._number())
        elif kind == _I64:
            start = self.at
            value = _signed(self._number())
            self.numbers.append(Number(path, start, self.at, value))
        elif kind == _BINARY:
            self._skip(self._number())
        elif kind == _STRUCT:
            self.struct(path)
        elif kind in (_LIST, _SET):
            self._list(path)
        elif kind == _I16:
            self._number()
        else:
            self._skip(_FIXED[kind])

    def _list(self, path: tuple[int, ...]) -> None:
        head = self._source[self.at]
        self.at += 1
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._number()
        for _ in range(size):
            if kind in _BOOLS:
                self._skip(1)
            else:
                self._value(kind, path)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._source):  # or a list of what is not there would take for ever
            raise IndexError("a struct ends before its end")

    def _number(self) -> int:
        value, shift, source = 0, 0, self._source
        while True:
            byte = source[self.at]
            self.at += 1
            if byte < 0x80:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)
