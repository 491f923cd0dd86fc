"""Stores around a store that do what networks, disks and neighbours do.

Each is driven by plain arguments and touches nothing but what passes through it. Which requests one
meets is said by `Nth`: the n-th of a kind whose key holds a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Barrier, Lock
from typing import Literal, TypeVar

from typing_extensions import override

from lakestore.errors import AlreadyExistsError, NotFoundError, StorageError, UnknownOutcomeError
from lakestore.storage import AroundUpload, ObjectStore, StoredObject, UnreadableError, Upload
from tests.support.clocks import ManualClock

R = TypeVar("R")

Kind = Literal["put", "get", "get_range", "size", "list", "delete"]


@dataclass(slots=True)
class Nth:
    """Picks requests: `times` of a kind, from the `nth` on, whose key holds `holding`."""

    kind: Kind
    nth: int = 1
    times: int = 1
    holding: str = ""
    met: int = 0
    """How many of that kind and key there were."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    def picks(self, kind: Kind, key: str) -> bool:
        """Count a request, and tell whether it is one of those."""
        if kind != self.kind or self.holding not in key:
            return False
        with self._lock:
            self.met += 1
            return self.nth <= self.met < self.nth + self.times


class AroundStore(ObjectStore):
    """Passes every request through `around`, which passes it on."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.url = inner.url
        self.near = inner.near

    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        """Do the request."""
        return call()

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self.around("put", key, lambda: self.inner.put_if_absent(key, body))

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        def request(kind: str, _sent: int, call: Callable[[], None]) -> None:
            self.around("put" if kind == "PUT" else "delete", key, call)

        return AroundUpload(self.inner.open_upload(key, content_type), request)

    @override
    def uri(self, key: str) -> str:
        return self.inner.uri(key)

    @override
    def sign(self, key: str, expires: float) -> str:
        return self.inner.sign(key, expires)

    @override
    def get(self, key: str) -> bytes:
        return self.around("get", key, lambda: self.inner.get(key))

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.around("get_range", key, lambda: self.inner.get_range(key, start, length))

    @override
    def size(self, key: str) -> int:
        return self.around("size", key, lambda: self.inner.size(key))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        # Taken at once, so that the request is over when something else is let in.
        found, closed = self.around("list", prefix, lambda: _taken(self.inner, prefix, after))
        yield from found
        if closed is not None:
            raise closed

    @override
    def delete(self, key: str) -> None:
        self.around("delete", key, lambda: self.inner.delete(key))


def _taken(
    store: ObjectStore, prefix: str, after: str
) -> tuple[list[StoredObject], UnreadableError | None]:
    found: list[StoredObject] = []
    try:
        found.extend(store.list(prefix, after))
    except UnreadableError as error:
        return found, error
    return found, None


class LostReplyStore(AroundStore):
    """Loses the reply to a put.

    Args:
        inner: The store.
        lost: Which puts; their kind is `put`.
        outcome: `landed`: the object is there, and the caller hears nothing. `resent`: the client
            sends it again, and is refused by itself. `dropped`: it never arrived, and the caller
            hears nothing.
    """

    def __init__(
        self, inner: ObjectStore, lost: Nth, outcome: Literal["landed", "resent", "dropped"]
    ) -> None:
        super().__init__(inner)
        self._lost = lost
        self._outcome = outcome

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if not self._lost.picks(kind, key):
            return call()
        if self._outcome != "dropped":
            call()
        if self._outcome == "resent":
            return call()
        raise UnknownOutcomeError(f"no reply. {key=}")


class LateStore(AroundStore):
    """Lets a put land only when `release` is called; until then its outcome is not known."""

    def __init__(self, inner: ObjectStore, late: Nth) -> None:
        super().__init__(inner)
        self._late = late
        self._calls: list[Callable[[], object]] = []

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if not self._late.picks(kind, key):
            return call()
        self._calls.append(call)
        raise UnknownOutcomeError(f"no reply. {key=}")

    def release(self) -> list[bool]:
        """Let what is on its way arrive; tell of each whether the store took it."""
        return [self._lands(call) for call in self._calls]

    @staticmethod
    def _lands(call: Callable[[], object]) -> bool:
        try:
            call()
        except AlreadyExistsError:
            return False
        return True


class FailingStore(AroundStore):
    """Fails the picked requests without doing them."""

    def __init__(
        self, inner: ObjectStore, failing: Nth, error: type[Exception] = StorageError
    ) -> None:
        super().__init__(inner)
        self._failing = failing
        self._error = error

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if self._failing.picks(kind, key):
            raise self._error(f"the store failed. {key=}")
        return call()


class SlowStore(AroundStore):
    """Lets a clock go on by `seconds` before each picked request, and as much after it."""

    def __init__(
        self,
        inner: ObjectStore,
        slow: Nth,
        clock: ManualClock,
        *,
        before: float = 0.0,
        after: float = 0.0,
    ) -> None:
        super().__init__(inner)
        self._slow = slow
        self._clock = clock
        self._before = before
        self._after = after

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if not self._slow.picks(kind, key):
            return call()
        self._clock.advance(self._before)
        try:
            return call()
        finally:
            self._clock.advance(self._after)


class InterruptedStore(AroundStore):
    """Lets others act before, or after, each picked request: a stall with a known content.

    `act` may be anything without arguments: another host's append, a sweep, `Event.wait`.
    """

    def __init__(
        self,
        inner: ObjectStore,
        picked: Nth,
        act: Callable[[], object],
        *,
        when: Literal["before", "after"] = "before",
    ) -> None:
        super().__init__(inner)
        self._picked = picked
        self._act = act
        self._when = when

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if not self._picked.picks(kind, key):
            return call()
        if self._when == "before":
            self._act()
        result = call()
        if self._when == "after":
            self._act()
        return result


def interrupting(
    picked: Nth, act: Callable[[], object]
) -> Callable[[ObjectStore], InterruptedStore]:
    """Return what puts an `InterruptedStore` around a store."""
    return lambda inner: InterruptedStore(inner, picked, act)


class BarrierStore(AroundStore):
    """Holds each request of a kind until all parties of `barrier` have come to one."""

    def __init__(self, inner: ObjectStore, kind: Kind, barrier: Barrier) -> None:
        super().__init__(inner)
        self._kind = kind
        self._barrier = barrier

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if kind == self._kind:
            self._barrier.wait()
        return call()


class CarelessStore(AroundStore):
    """Ignores the condition of a put and writes over what is there, as some S3 servers do."""

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self.inner.delete(key)
        self.inner.put_if_absent(key, body)


class PlaceholderStore(AroundStore):
    """Lists an empty object for each folder, as consoles and other tools make them."""

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        found = [*self.inner.list(prefix, after)]
        folders = {
            stored.key[: i + 1]
            for stored in found
            for i, letter in enumerate(stored.key)
            if letter == "/"
        }
        made = [StoredObject(key, 0, 0.0) for key in folders if key.startswith(prefix)]
        yield from sorted([*found, *made], key=lambda stored: stored.key)

    @override
    def get(self, key: str) -> bytes:
        try:
            return self.inner.get(key)
        except NotFoundError:
            if key.endswith("/"):
                return b""
            raise


class AgeingStore(AroundStore):
    """Tells of what is there when `age` is called that it is so much older."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._older: dict[str, float] = {}

    def age(self, seconds: float) -> None:
        """Let everything be older."""
        for key in self.inner.names(""):
            self._older[key] = self._older.get(key, 0.0) + seconds

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for stored in self.inner.list(prefix, after):
            older = self._older.get(stored.key, 0.0)
            yield StoredObject(stored.key, stored.size, stored.modified - older)

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        return self.inner.names(prefix, after)


class ClosedStore(AroundStore):
    """Lets nobody look into one folder, which it names when all else is listed."""

    def __init__(self, inner: ObjectStore, folder: str) -> None:
        super().__init__(inner)
        self._folder = folder

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for stored in self.inner.list(prefix, after):
            if not stored.key.startswith(self._folder):
                yield stored
        if self._folder.startswith(prefix) or prefix.startswith(self._folder):
            raise UnreadableError("a folder is closed", self._folder)


class TornStore(AroundStore):
    """Leaves a key out of its first listing, as a listing in pages may that others tear."""

    def __init__(self, inner: ObjectStore, missing: str) -> None:
        super().__init__(inner)
        self._missing = missing
        self._lists = Nth("list")

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        torn = self._lists.picks("list", prefix)
        for stored in [*self.inner.list(prefix, after)]:
            if not torn or stored.key != self._missing:
                yield stored
