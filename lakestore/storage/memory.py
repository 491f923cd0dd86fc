"""A store in this process's memory, for tests and trials.

fsspec's own memory file system is not atomic, so this one keeps its objects under a lock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from threading import Lock

from typing_extensions import override

from lakestore.clock import Clock, SystemClock
from lakestore.errors import AlreadyExistsError, NotFoundError
from lakestore.storage.store import ObjectStore, StoredObject, check_body, check_range
from lakestore.storage.uploads import Upload

_named: dict[str, MemoryStore] = {}
_named_lock = Lock()


class MemoryStore(ObjectStore):
    """Objects in a dictionary under one lock."""

    near = True

    def __init__(self, name: str = "", *, clock: Clock | None = None) -> None:
        self.url = f"memory://{name}"
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._keys: list[str] = []

    @classmethod
    def named(cls, name: str) -> MemoryStore:
        """Return the store that everyone in this process shares under `name`."""
        with _named_lock:
            return _named.setdefault(name, cls(name))

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        check_body(key, body)
        self._create(key, body)

    def _create(self, key: str, body: bytes) -> None:
        with self._lock:
            if key in self._objects:
                raise AlreadyExistsError(f"the name is taken. {key=}")
            self._objects[key] = (bytes(body), self._clock.wall())
            insort(self._keys, key)

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        return _Upload(lambda body: self._create(key, body))

    @override
    def get(self, key: str) -> bytes:
        with self._lock:
            return self._find(key)

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        with self._lock:
            return self._find(key)[start : start + length]

    @override
    def size(self, key: str) -> int:
        with self._lock:
            return len(self._find(key))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        with self._lock:
            first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
            found = []
            for key in self._keys[first:]:
                if not key.startswith(prefix):
                    break
                body, modified = self._objects[key]
                found.append(StoredObject(key, len(body), modified))
        yield from found

    @override
    def delete(self, key: str) -> None:
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def _find(self, key: str) -> bytes:
        try:
            return self._objects[key][0]
        except KeyError:
            raise NotFoundError(f"no such object. {key=}") from None


class _Upload(Upload):
    """Gathers the parts."""

    def __init__(self, create: Callable[[bytes], None]) -> None:
        self._parts: list[bytes] = []
        self._create = create

    @override
    def whole(self, body: bytes) -> None:
        self._create(body)

    @override
    def begin(self) -> None:
        self._parts.clear()

    @override
    def add(self, part: bytes) -> None:
        self._parts.append(part)

    @override
    def finish(self) -> None:
        self._create(b"".join(self._parts))

    @override
    def abort(self) -> None:
        self._parts.clear()
