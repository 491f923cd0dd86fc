"""Whether what was read of a large Parquet file is what was stored, as the checksums of pages tell.

DuckDB compares none of them: damage in the midst of a text would be an answer. No I/O.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from zlib import crc32

from lakestore.errors import FormatError
from lakestore.tables.footers import page_header
from lakestore.tables.groups import column_places

Fetch = Callable[[int, int], bytes]
"""Reads so many bytes from a place on."""


class Pages:
    """The pages of one file, column by column: each is looked at when it is first read."""

    def __init__(self, footer: bytes) -> None:
        """Take the file's footer.

        Raises:
            FormatError: it is no footer.
        """
        places = column_places(footer)
        self._starts = array("q", [start for start, _ in places])
        self._ends = array("q", [end for _, end in places])
        self._is_whole = bytearray(len(places))

    def damage(self, start: int, body: bytes, fetch: Fetch) -> tuple[int, int] | None:
        """Return start and length of a column that is damaged, None where none is.

        Looks at the columns that `body` has whole, and at the one in which it begins, unless it is
        the end of the file, where somebody looks for the footer. What it ends in is looked at when
        the rest of it is read.

        Args:
            start: Where the bytes are.
            body: The bytes.
            fetch: Reads what is missing of the column in which they begin.
        """
        end = start + len(body)
        is_end = not self._ends or end > self._ends[-1]
        number = max(0, bisect_right(self._starts, start) - 1)
        while number < len(self._starts) and (first := self._starts[number]) < end:
            last = self._ends[number]
            is_held = start <= first and last <= end
            is_begun = first <= start < last and not is_end
            if not self._is_whole[number] and (is_held or is_begun):
                length = last - first
                pages = body[first - start :][:length] if is_held else fetch(first, length)
                if len(pages) < length or not are_whole(pages):
                    return first, length
                self._is_whole[number] = True
            number += 1
        return None


def are_whole(pages: bytes) -> bool:
    """Tell whether some pages, one after the other, are those that were stored."""
    view, at = memoryview(pages), 0
    while at < len(pages):
        try:
            header = page_header(pages, at)
        except FormatError:
            return False
        at = header.end + header.size
        if header.size < 0 or at > len(pages):
            return False
        if header.crc is not None and crc32(view[header.end : at]) != header.crc:
            return False
    return True
