"""One object as a file that DuckDB reads: by ranges, from any thread.

DuckDB shares one Python file among its threads, each of which seeks and then reads. So a file here
keeps a position for each thread, and every read is one request for a range, which no other read
can disturb. Owns no more than the bytes of one object, and whether they are what was stored.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, local
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from lakestore.errors import FormatError, NotFoundError
from lakestore.storage.store import ObjectStore, UnreadableError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Span: TypeAlias = tuple[int, int]
"""Start and length, in bytes."""
Check: TypeAlias = Callable[[int, bytes, Callable[[int, int], bytes]], Span | None]
"""Is given where bytes are, the bytes, and what reads others; returns what is damaged, if it is."""

_BLIND = 1_000_000
"""How much DuckDB reads for the pages of a list, whatever they take: of row groups of a few hundred
kilobytes each byte would be fetched several times."""
_BLOCKS_REMEMBERED = 16
"""Of one file, so that threads that go through neighbouring row groups find what others read."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an object before it is read as a file."""

    key: str
    size: int
    """Of the file; the bytes before `end` are the object's."""
    end: bytes = b""
    """The last bytes of the file."""
    check: Check | None = None
    """Tells whether bytes are those that were stored; None where nothing does."""
    number: int = 0
    """Another one each time that an object is known anew."""


class Unread:
    """What of objects was damaged, or could not be read, when it was asked for last."""

    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}
        """By key, until the object is known anew."""
        self.count = 0
        """How often that was so."""
        self._lock = Lock()

    def note(self, key: str, span: Span) -> None:
        """Take note of one."""
        with self._lock:
            self.spans[key] = span
            self.count += 1

    def forget(self, key: str) -> None:
        """Take an object for whole."""
        with self._lock:
            self.spans.pop(key, None)


class RangeFile(io.RawIOBase):
    """One object as a file with a position for each thread."""

    def __init__(
        self,
        store: ObjectStore,
        known: Known,
        unread: Unread,
    ) -> None:
        """Read an object of `store`; `unread` is told what of it cannot be read, or is damaged."""
        self._store = store
        self._key, self._size, self._end = known.key, known.size, known.end
        self._stored = known.size - len(known.end)
        self._check = known.check
        self._unread = unread
        self._here = local()
        self._blind = Lock()
        self._blocks: dict[int, bytes] = {}

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return getattr(self._here, "position", 0)

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._here.position = max(0, start + offset)
        return self.tell()

    @override
    def read(self, size: int | None = -1) -> bytes:
        """Return the bytes from here on.

        Raises:
            FormatError: they are not those that were stored; the error names the key.
            NotFoundError: the object is gone.
            StorageError: the store failed, or (`UnreadableError`) the object is closed to us.
        """
        start = self.tell()
        left = max(0, self._size - start)
        wanted = left if size is None or size < 0 else min(size, left)
        stored = max(0, min(wanted, self._stored - start))
        body = self._read_stored(start, stored, blindly=wanted == _BLIND) if stored else b""
        known = max(0, start - self._stored)
        body += self._end[known : known + wanted - stored]
        self._here.position = start + len(body)
        return body

    def _read_stored(self, start: int, length: int, *, blindly: bool) -> bytes:
        span: Span | None = (start, length)
        try:
            body = (self._from_blocks if blindly else self._fetch)(start, length)
            span = self._check(start, body, self._from_blocks) if self._check else None
        except (NotFoundError, UnreadableError):
            self._unread.note(self._key, (start, length))
            raise
        if span is not None:
            self._unread.note(self._key, span)
            raise FormatError(
                "the bytes of an object are not those that were stored. Ask again, or refresh the"
                f" connection, for all else. key={self._key!r} start={span[0]} length={span[1]}"
            )
        return body

    def _fetch(self, start: int, length: int) -> bytes:
        return self._store.get_range(self._key, start, length)

    def _from_blocks(self, start: int, length: int) -> bytes:
        first, last = start // _BLIND, (start + length - 1) // _BLIND
        with self._blind:
            body = b"".join(self._block(number) for number in range(first, last + 1))
        return body[start - first * _BLIND :][:length]

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * _BLIND
            self._blocks[number] = self._fetch(start, min(_BLIND, self._stored - start))
            if len(self._blocks) > _BLOCKS_REMEMBERED:
                del self._blocks[next(iter(self._blocks))]
        return self._blocks[number]

    @override
    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        body = self.read(len(view))
        view[: len(body)] = body
        return len(body)
