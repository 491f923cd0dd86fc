"""A store as an fsspec file system that only reads: how DuckDB scans objects where they lie.

DuckDB shares one Python file among its threads, each of which seeks and then reads. So a file here
keeps a position for each thread, and every read is one request for a range, which no other read
can disturb. Objects never change, so what is known of one stays true.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock, local
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem
from typing_extensions import override

from lakestore.errors import NotFoundError
from lakestore.storage.store import ObjectStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

SCHEME = "lakestore"
"""Files are named `lakestore://<key>`."""

_SIZES_REMEMBERED = 65_536
_BYTES_REMEMBERED = 64 * 2**20
_BLIND = 1_000_000
"""How much DuckDB reads for the pages of a list, whatever they take: of row groups of a few hundred
kilobytes each byte would be fetched several times."""
_BLOCKS_REMEMBERED = 16
"""Of one file, so that threads that go through neighbouring row groups find what others read."""
_NEVER_CHANGED = datetime.fromtimestamp(0, UTC)


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The objects of one store as files, to be read; whatever would change one is refused."""

    protocol = SCHEME
    cachable = False

    def __init__(self, store: ObjectStore) -> None:
        """Show the objects of `store`."""
        super().__init__()
        self._store = store
        self._size_of = lru_cache(_SIZES_REMEMBERED)(store.size)
        self._sizes: dict[str, int] = {}
        self._ends: dict[str, bytes] = {}  # the latest last
        self._remembered = 0
        self._lock = Lock()

    def know(self, key: str, size: int, end: bytes = b"") -> None:
        """Take note of the size of an object and of its last bytes: they need no request then.

        Of what is many megabytes ago the bytes are forgotten, and some day the size.
        """
        with self._lock:
            self._remembered += len(end) - len(self._ends.pop(key, b""))
            self._sizes[key], self._ends[key] = size, end
            while self._remembered > _BYTES_REMEMBERED:
                self._remembered -= len(self._ends.pop(next(iter(self._ends))))
            if len(self._sizes) > _SIZES_REMEMBERED:
                del self._sizes[next(iter(self._sizes))]

    @override
    def open(self, path: str, mode: str = "rb", **_: Any) -> RangeFile:
        """Return the object as a file.

        Raises:
            FileNotFoundError: there is no such object.
            PermissionError: the mode is not for reading.
        """
        if mode not in ("r", "rb"):
            raise PermissionError(f"the objects of a lake can only be read. {path=} {mode=}")
        key = self._strip_protocol(path)
        return RangeFile(self._store, key, self.size(path), self._ends.get(key, b""))

    @override
    def size(self, path: str) -> int:
        key = self._strip_protocol(path)
        try:
            return self._sizes[key] if key in self._sizes else self._size_of(key)
        except NotFoundError as error:
            raise FileNotFoundError(f"no such object. {path=}") from error

    @override
    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": self._strip_protocol(path), "size": self.size(path), "type": "file"}

    @override
    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return the object at `path`, or all below the folder `path`, however deep."""
        folder = self._strip_protocol(path).rstrip("/")
        found = [
            {"name": stored.key, "size": stored.size, "type": "file"}
            for stored in self._store.list(f"{folder}/" if folder else "")
        ]
        return (found or [self.info(path)]) if detail else [entry["name"] for entry in found]

    @override
    def glob(self, path: str, maxdepth: int | None = None, **_: Any) -> list[str]:
        """Return `path` as it is: no key holds a pattern."""
        return [self._strip_protocol(path)]

    @classmethod
    @override
    def _strip_protocol(cls, path: str) -> str:
        """Return the key that `path` names.

        Raises:
            PermissionError: it would lead out of the lake, as `..` does in a folder.
        """
        key = str(super()._strip_protocol(path))
        if key and ("\\" in key or not {"", ".", ".."}.isdisjoint(key.split("/"))):
            raise PermissionError(f"no object of a lake has such a name. {path=}")
        return key

    @override
    def isdir(self, path: str) -> bool:
        return False

    @override
    def modified(self, path: str) -> datetime:
        """Return the same time for all: objects never change."""
        return _NEVER_CHANGED

    def _refuse(self, path: str, *_: Any, **__: Any) -> None:
        raise PermissionError(f"the objects of a lake can only be read. {path=}")

    pipe_file = mkdir = makedirs = rm_file = rm = cp_file = mv = touch = _refuse


class RangeFile(io.RawIOBase):
    """One object as a file with a position for each thread."""

    def __init__(self, store: ObjectStore, key: str, size: int, end: bytes = b"") -> None:
        """Read the object `key` of `store`, which has `size` bytes, the last of them `end`."""
        self._store = store
        self._key = key
        self._size = size
        self._end = end
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
        start = self.tell()
        left = max(0, self._size - start)
        wanted = left if size is None or size < 0 else min(size, left)
        known = start - self._size + len(self._end)
        if known >= 0:
            body = self._end[known : known + wanted]
        elif wanted == _BLIND:
            body = self._read_blindly(start)
        else:
            body = self._store.get_range(self._key, start, wanted) if wanted else b""
        self._here.position = start + len(body)
        return body

    def _read_blindly(self, start: int) -> bytes:
        first, last = start // _BLIND, (start + _BLIND - 1) // _BLIND
        with self._blind:
            body = b"".join(self._block(number) for number in range(first, last + 1))
        return body[start - first * _BLIND :][:_BLIND]

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * _BLIND
            length = min(_BLIND, self._size - start)
            self._blocks[number] = self._store.get_range(self._key, start, length)
            if len(self._blocks) > _BLOCKS_REMEMBERED:
                del self._blocks[next(iter(self._blocks))]
        return self._blocks[number]

    @override
    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        body = self.read(len(view))
        view[: len(body)] = body
        return len(body)
