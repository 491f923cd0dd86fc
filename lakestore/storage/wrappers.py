"""Stores around a store: counting what is asked, letting others compute, refusing to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from typing_extensions import override

from lakestore.errors import ReadOnlyError
from lakestore.storage.gate import Gate
from lakestore.storage.metrics import Metrics
from lakestore.storage.store import PAGE, ObjectStore, StoredObject
from lakestore.storage.uploads import AroundUpload, Upload

T = TypeVar("T")


class Wrapper(ObjectStore):
    """Passes everything on."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.url = inner.url
        self.near = inner.near

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self._inner.put_if_absent(key, body)

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        return self._inner.open_upload(key, content_type)

    @override
    def uri(self, key: str) -> str:
        return self._inner.uri(key)

    @override
    def sign(self, key: str, expires: float) -> str:
        return self._inner.sign(key, expires)

    @override
    def get(self, key: str) -> bytes:
        return self._inner.get(key)

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._inner.get_range(key, start, length)

    @override
    def size(self, key: str) -> int:
        return self._inner.size(key)

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        return self._inner.list(prefix, after)

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        return self._inner.names(prefix, after)

    @override
    def delete(self, key: str) -> None:
        self._inner.delete(key)

    @override
    def clear_leftovers(self, grace: float) -> None:
        self._inner.clear_leftovers(grace)

    @override
    def clear_folders(self, prefix: str) -> None:
        self._inner.clear_folders(prefix)

    @override
    def close(self) -> None:
        self._inner.close()


class CountingStore(Wrapper):
    """Counts each request in `metrics`, whether it succeeds or not."""

    def __init__(self, inner: ObjectStore, metrics: Metrics) -> None:
        super().__init__(inner)
        self._metrics = metrics

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self._metrics.request("PUT", written=len(body))
        super().put_if_absent(key, body)

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        return AroundUpload(super().open_upload(key, content_type), self._count)

    def _count(self, kind: str, written: int, call: Callable[[], None]) -> None:
        self._metrics.request(kind, written=written)
        call()

    @override
    def get(self, key: str) -> bytes:
        self._metrics.request("GET")
        body = super().get(key)
        self._metrics.received(len(body))
        return body

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._metrics.request("GET")
        body = super().get_range(key, start, length)
        self._metrics.received(len(body))
        return body

    @override
    def size(self, key: str) -> int:
        self._metrics.request("HEAD")
        return super().size(key)

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        return self._pages(super().list(prefix, after))

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        return self._pages(super().names(prefix, after))

    @override
    def delete(self, key: str) -> None:
        self._metrics.request("DELETE")
        super().delete(key)

    def _pages(self, found: Iterator[T]) -> Iterator[T]:
        """Count a listing, and where each page is a request, every further page."""
        self._metrics.request("LIST")
        return found if self.near else self._count_pages(found)

    def _count_pages(self, found: Iterator[T]) -> Iterator[T]:
        for number, each in enumerate(found):
            if number and number % PAGE == 0:
                self._metrics.request("LIST")
            yield each


class GatedStore(Wrapper):
    """Leaves the gate while it waits for a request, but for what a near store lists."""

    def __init__(self, inner: ObjectStore, gate: Gate) -> None:
        super().__init__(inner)
        self._gate = gate

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self._gate.outside(lambda: self._inner.put_if_absent(key, body))

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        upload = super().open_upload(key, content_type)
        return AroundUpload(upload, lambda _kind, _written, call: self._gate.outside(call))

    @override
    def sign(self, key: str, expires: float) -> str:
        return self._gate.outside(lambda: self._inner.sign(key, expires))

    @override
    def get(self, key: str) -> bytes:
        return self._gate.outside(lambda: self._inner.get(key))

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._gate.outside(lambda: self._inner.get_range(key, start, length))

    @override
    def size(self, key: str) -> int:
        return self._gate.outside(lambda: self._inner.size(key))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        found = self._inner.list(prefix, after)
        return found if self.near else self._pages(found)

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        found = self._inner.names(prefix, after)
        return found if self.near else self._pages(found)

    @override
    def delete(self, key: str) -> None:
        self._gate.outside(lambda: self._inner.delete(key))

    def _pages(self, found: Iterator[T]) -> Iterator[T]:
        """Yield all; the first of a page is what a request is made for."""
        while first := self._gate.outside(lambda: [*islice(found, 1)]):
            yield from first
            yield from islice(found, PAGE - 1)


class ReadOnlyStore(Wrapper):
    """Refuses every write before it reaches the store."""

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        raise ReadOnlyError(f"the lake was opened with read_only=True. url={self.url!r}")

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        raise ReadOnlyError(f"the lake was opened with read_only=True. url={self.url!r}")

    @override
    def clear_leftovers(self, grace: float) -> None:
        """Do nothing: there will be no write."""

    @override
    def clear_folders(self, prefix: str) -> None:
        raise ReadOnlyError(f"the lake was opened with read_only=True. url={self.url!r}")

    @override
    def delete(self, key: str) -> None:
        raise ReadOnlyError(f"the lake was opened with read_only=True. url={self.url!r}")
