"""Parquet files of one row, as commits mostly are, read without a Parquet library.

A library sets up a dozen readers for the dozen values of such a file, which takes five times as
long as looking them up. Owns when a file is known well enough for that: its footer must be, but for
sizes and offsets, that of a file that the library has read, and its pages one plain value each.
Of everything else, and of all that is damaged, nothing is told here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.tables.footers import MAGIC, TAIL, footer_size, numbers

_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
# PageHeader: a data page, its sizes and checksum; DataPageHeader: one value, PLAIN, no statistics.
_PAGE = re.compile(
    rb"\x15\x00\x15(%b)\x15(%b)\x15(%b)\x1c\x15\x02\x15\x00\x15\x06\x15\x06(?:\x1c\x00)?\x00\x00"
    % (_VARINT, _VARINT, _VARINT)
)
_THERE, _NULL = b"\x02\x00\x00\x00\x02\x01", b"\x02\x00\x00\x00\x02\x00"
"""A definition level: how many bytes, a run of one, the level."""
_ROWS = ((3,), (4, 3), (4, 1, 3, 5))
"""FileMetaData.num_rows, RowGroup.num_rows, ColumnMetaData.num_values."""
_DATA_PAGE_OFFSET = (4, 1, 3, 9)
_ZSTD, _NONE = "ZSTD", "UNCOMPRESSED"
_LARGEST_PAGE = 64 * 2**20
_MOST_SHAPES = 8

_INT32, _INT64 = Struct("<i"), Struct("<q")


class LeanReader:
    """Reads files of one row that have just the columns of a schema: texts, integers and times."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [(_kind(field.type), field.nullable) for field in schema]
        # What a footer is like, and the codec of the pages, None for none.
        self._shapes: list[tuple[re.Pattern[bytes], pa.Codec | None]] = []

    def learn(self, body: bytes) -> None:
        """Know files like this one, which the library has read and found to be in the schema."""
        metadata = pq.read_metadata(pa.BufferReader(body))
        if metadata.num_rows != 1 or metadata.num_row_groups != 1:
            return
        group = metadata.row_group(0)
        codecs = {group.column(number).compression for number in range(group.num_columns)}
        pattern = _pattern(body[-footer_size(body) : -TAIL])
        is_new = all(pattern.pattern != known.pattern for known, _ in self._shapes)
        if is_new and len(self._shapes) < _MOST_SHAPES and codecs in ({_ZSTD}, {_NONE}):
            self._shapes.append((pattern, pa.Codec("zstd") if codecs == {_ZSTD} else None))

    def read(self, body: bytes) -> tuple[Any, ...] | None:
        """Return the values of the row, times in microseconds; None if it must be read otherwise.

        Only what the library would return too is returned: a damaged file gives None.
        """
        end = len(body) - footer_size(body)
        for pattern, codec in self._shapes:
            match = pattern.fullmatch(body, max(0, end), len(body) - TAIL)
            if match is not None and body.startswith(MAGIC) and body.endswith(MAGIC):
                bounds = [*map(_number, match.groups()), end]
                try:
                    return self._values(body, bounds, codec)
                except (ValueError, pa.ArrowException, OSError):  # not UTF-8, not zstd
                    return None
        return None

    def _values(
        self, body: bytes, bounds: Sequence[int], codec: pa.Codec | None
    ) -> tuple[Any, ...]:
        at = len(MAGIC)
        values: list[Any] = []
        for (kind, nullable), (start, end) in zip(self._columns, pairwise(bounds), strict=True):
            if start != at:
                raise ValueError("pages that do not follow each other")
            page, at = _page(body, start, end, codec), end
            if nullable and page == _NULL:
                values.append(None)
                continue
            if nullable and not page.startswith(_THERE):
                raise ValueError("not a definition level of one value")
            values.append(kind(page[len(_THERE) :] if nullable else page))
        return tuple(values)


def _page(body: bytes, start: int, end: int, codec: pa.Codec | None) -> bytes:
    """Return the page that stands there.

    Raises:
        ValueError, pa.ArrowException: it is damaged, or holds anything but one plain value.
    """
    head = _PAGE.match(body, start, end)
    if head is None:
        raise ValueError("another page")
    size, stored, check = map(_number, head.groups())
    page = body[head.end() : end]
    if len(page) != stored or crc32(page) != check & 0xFFFFFFFF or not 0 <= size <= _LARGEST_PAGE:
        raise ValueError("a damaged page")
    if codec is not None:
        page = codec.decompress(page, size, asbytes=True)
    if len(page) != size:
        raise ValueError("a page of another size")
    return page


def _pattern(footer: bytes) -> re.Pattern[bytes]:
    """Return what footers are like that differ in sizes and offsets only; pages are groups."""
    parts, at = [], 0
    for each in numbers(footer):
        if each.path[0] != 4 or each.path in _ROWS:
            continue
        found = b"(%b)" if each.path == _DATA_PAGE_OFFSET else b"%b"
        parts += [re.escape(footer[at : each.start]), found % _VARINT]
        at = each.end
    return re.compile(b"".join([*parts, re.escape(footer[at:])]), re.DOTALL)


def _number(varint: bytes) -> int:
    """Return the number that a zigzag varint stands for."""
    value = 0
    for byte in reversed(varint):
        value = value << 7 | byte & 0x7F
    return value >> 1 ^ -(value & 1)


def _kind(of: pa.DataType) -> Any:
    """Return what turns a plain value of a type into Python's."""
    if pa.types.is_string(of):
        return _text
    return _integer(_INT32 if pa.types.is_int32(of) else _INT64)


def _text(value: bytes) -> str:
    if len(value) < 4 or int.from_bytes(value[:4], "little") != len(value) - 4:
        raise ValueError("a text of another length")
    return value[4:].decode()


def _integer(form: Struct) -> Any:
    def integer(value: bytes) -> int:
        if len(value) != form.size:
            raise ValueError("an integer of another size")
        found: int = form.unpack(value)[0]
        return found

    return integer
