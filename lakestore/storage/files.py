"""A store as an fsspec file system that only reads: how DuckDB scans objects where they lie.

Objects never change, so what is known of one stays true. How one is read is
`lakestore.storage.range_file`'s.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from typing import Any

from fsspec import AbstractFileSystem
from typing_extensions import override

from lakestore.errors import NotFoundError
from lakestore.storage.range_file import Check, Known, RangeFile, Unread
from lakestore.storage.store import ObjectStore

SCHEME = "lakestore"
"""Files are named `lakestore://<key>`."""

_SIZES_REMEMBERED = 65_536
_BYTES_REMEMBERED = 64 * 2**20
_NEVER_CHANGED = datetime.fromtimestamp(0, UTC)


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The objects of one store as files, to be read; whatever would change one is refused."""

    protocol = SCHEME
    cachable = False

    def __init__(self, store: ObjectStore, unread: Unread | None = None) -> None:
        """Show the objects of `store`; `unread` is told what of them cannot be read."""
        super().__init__()
        self._store = store
        self._size_of = lru_cache(_SIZES_REMEMBERED)(store.size)
        self._known: dict[str, Known] = {}
        self._ends: dict[str, int] = {}  # how many bytes; the latest last
        self._remembered = 0
        self._learned = 0
        self._parts: dict[str, Known] = {}
        self._lock = Lock()
        self.unread = unread or Unread()
        """What of them could not be read."""

    def know(self, key: str, size: int, end: bytes = b"", check: Check | None = None) -> None:
        """Take note of the size of an object and of its last bytes: they need no request then.

        Of what is many megabytes ago the bytes are forgotten, and some day the rest.

        Args:
            key: The object.
            size: Its bytes.
            end: The last of them.
            check: Tells of others whether they are those that were stored.
        """
        with self._lock:
            self._remembered += len(end) - self._ends.pop(key, 0)
            self._learned += 1
            self._known[key] = Known(key, size, end, check, self._learned)
            self._ends[key] = len(end)
            while self._remembered > _BYTES_REMEMBERED:
                oldest = next(iter(self._ends))
                self._remembered -= self._ends.pop(oldest)
                self._known[oldest] = replace(self._known[oldest], end=b"")
            if len(self._known) > _SIZES_REMEMBERED:
                forgotten = next(iter(self._known))
                self._remembered -= self._ends.pop(forgotten, 0)
                del self._known[forgotten]
        self.unread.forget(key)

    def add_part(self, key: str, size: int, end: bytes, check: Check) -> str:
        """Return the path of a file that begins as an object does, and has an end of its own.

        Args:
            key: The object.
            size: Bytes of the file.
            end: The last of them.
            check: See `know`.
        """
        path = f"part-{sha256(end).hexdigest()[:16]}/{key}"
        self._parts[path] = Known(key, size, end, check)
        return f"{SCHEME}://{path}"

    @override
    def open(self, path: str, mode: str = "rb", **_: Any) -> RangeFile:
        """Return the object as a file.

        Raises:
            FileNotFoundError: there is no such object.
            PermissionError: the mode is not for reading.
        """
        if mode not in ("r", "rb"):
            raise PermissionError(f"the objects of a lake can only be read. {path=} {mode=}")
        return RangeFile(self._store, self._find(path), self.unread)

    def _find(self, path: str) -> Known:
        key = self._strip_protocol(path)
        known = self._parts.get(key) or self._known.get(key)
        try:
            return known or Known(key, self._size_of(key))
        except NotFoundError as error:
            raise FileNotFoundError(f"no such object. {path=}") from error

    @override
    def size(self, path: str) -> int:
        return self._find(path).size

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
        """Return the same time for all, for objects never change, until one is known anew.

        DuckDB keeps the footers of files whose time is the same.
        """
        return _NEVER_CHANGED + timedelta(seconds=self._find(path).number)

    def _refuse(self, path: str, *_: Any, **__: Any) -> None:
        raise PermissionError(f"the objects of a lake can only be read. {path=}")

    pipe_file = mkdir = makedirs = rm_file = rm = cp_file = mv = touch = _refuse
