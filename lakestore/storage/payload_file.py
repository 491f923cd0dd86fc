"""One object as a file for people's programs: seekable, buffered, read ahead.

Owns how much is fetched at a time. Where a reader goes on it is more each time, so that a table is
read in few requests; where it jumps it is little, so that a directory at the end of an archive is
found cheaply.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from typing_extensions import override

from lakestore.errors import FormatError
from lakestore.storage.store import ObjectStore
from lakestore.storage.uploads import PART

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIRST = 256 * 1024
"""Bytes that are fetched after a jump."""
_BUFFER = 64 * 1024


def open_object(store: ObjectStore, key: str, size: int) -> io.BufferedReader:
    """Return an object as a binary file, as whatever takes one expects it.

    Nothing is asked of the store before the first read. The file may be shared by threads, which
    then share its position, and must not be read when the store is closed.

    Args:
        store: Where it is.
        key: The object.
        size: Its bytes, as whoever wrote it has noted them.
    """
    return io.BufferedReader(PayloadFile(store, key, size), _BUFFER)


class PayloadFile(io.RawIOBase):
    """An object as a file without a buffer, of which the last bytes fetched are kept."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._position = 0
        self._start = 0
        self._fetched = memoryview(b"")
        self._ahead = _FIRST

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        start = starts.get(whence)
        if start is None:
            raise io.UnsupportedOperation(f"a file is not sought in this way. {whence=}")
        if start + offset < 0:
            raise ValueError(f"a file has no place before its start. {offset=} {whence=}")
        self._position = start + offset
        return self._position

    @override
    def readinto(self, buffer: Buffer) -> int:
        """Fill `buffer` as far as it goes.

        Raises:
            FormatError: the object is shorter than it was stored.
            NotFoundError: the object is gone.
            StorageError: the store failed.
        """
        view = memoryview(buffer).cast("B")
        if not 0 <= self._position - self._start < len(self._fetched):
            self._fetch(len(view))
        first = self._position - self._start
        found = self._fetched[first : first + len(view)]
        view[: len(found)] = found
        self._position += len(found)
        return len(found)

    def _fetch(self, wanted: int) -> None:
        """Fetch what the position is in, if it is in the object."""
        place, left = self._position, self._size - self._position
        if left <= 0:
            return
        goes_on = place == self._start + len(self._fetched)
        self._ahead = min(2 * self._ahead, PART) if goes_on else _FIRST
        # A jump to the end is followed by one to a little before it, in archives and tables.
        start = place if goes_on else min(place, max(0, self._size - _FIRST))
        end = place + min(max(wanted, self._ahead), PART, left)
        fetched = self._store.get_range(self._key, start, end - start)
        if len(fetched) < end - start:
            raise FormatError(
                f"an object is shorter than it was stored. key={self._key!r} size={self._size}"
            )
        self._start, self._fetched = start, memoryview(fetched)

    @override
    def readall(self) -> bytes:
        rest = bytearray(max(0, self._size - self._position))
        view = memoryview(rest)
        while view:
            view = view[self.readinto(view[:PART]) :]
        return bytes(rest)
