"""One store as many processes reach it: with delays, faults and replies that never come.

`Bucket` is the truth. `RemoteStore` is one process's way to it, and raises what
`lakestore.storage.store` documents, at the places that decisions choose.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from typing_extensions import override

from lakestore.errors import AlreadyExistsError, NotFoundError, StorageError, UnknownOutcomeError
from lakestore.storage import ObjectStore, StoredObject, Upload
from lakestore.storage.store import check_body, check_range
from tests.simulator.scanning import is_at_once
from tests.simulator.scheduler import Crashed, Life, Scheduler
from tests.simulator.trace import short

if TYPE_CHECKING:
    from tests.simulator.processes import Process

R = TypeVar("R")
Kind = Literal["put", "get", "list", "size", "delete"]

VIEW_AGE = 300.0
GRACE = 3600.0
LONGEST_LIFE = 6 * GRACE
"""No request outlives its sender by more, see `tests.simulator.settings`."""

STALLS = {
    "a minute": 60.0,
    "a view": 1.2 * VIEW_AGE,
    "a grace": 1.2 * GRACE,
    "three graces": 3.3 * GRACE,
}
"""How long a process, a request or a copy of one may stand still."""

_LATENCY = 0.03
_TORN_SECONDS = 0.4
_SLOW = [f"{what} {when} {long}" for what in ("stalls", "is slow") for when in ("before", "after")
         for long in STALLS]  # fmt: skip
_CRASHES = ["crashes before", "crashes after"]
FAULTS: dict[Kind, tuple[str, ...]] = {
    "put": (
        "",
        *_SLOW,
        *_CRASHES,
        "crashes meanwhile",
        "fails",
        "is dropped",
        "loses its reply",
        "is resent",
        "comes late",
        "comes twice",
    ),
    "get": ("", *_SLOW, *_CRASHES, "fails"),
    "list": ("", *_SLOW, *_CRASHES, "fails"),
    "size": ("", *_SLOW, *_CRASHES, "fails"),
    "delete": (
        "",
        *_SLOW,
        *_CRASHES,
        "crashes meanwhile",
        "fails",
        "loses its reply",
        "comes late",
    ),
}
"""What may happen to a request of each kind; the first is that nothing does."""


@dataclass(frozen=True)
class Weather:
    """How likely things go wrong in a history."""

    switching: float = 0.3
    """That another fiber goes on, wherever one can."""
    faults: float = 0.0
    """That something happens to a request."""
    most: int = 3
    """So many faults at most."""
    only: str = ""
    """Only those that hold one of these texts, separated by commas, if given."""
    on: tuple[Kind, ...] = ("put", "get", "list", "size", "delete")
    """Only to requests of these kinds."""
    torn: float = 0.0
    """That a listing shows some but not all of what changes while it is made."""

    @cache  # noqa: B019 - there are few weathers, and they are values
    def faults_of(self, kind: Kind) -> tuple[str, ...]:
        """Return what may happen to a request."""
        if kind not in self.on:
            return ("",)
        if not self.only:
            return FAULTS[kind]
        wanted = self.only.split(",")
        return ("", *(f for f in FAULTS[kind] if f and any(text in f for text in wanted)))


class Bucket:
    """Objects that nobody can change, by key."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.objects: dict[str, tuple[bytes, float]] = {}
        self._keys: list[str] = []

    def put(self, key: str, body: bytes) -> None:
        """Create an object, if nothing is there; payloads alone may be empty."""
        if key in self.objects:
            raise AlreadyExistsError(f"the name is taken. {key=}")
        self.objects[key] = (bytes(body), self._scheduler.now)
        insort(self._keys, key)

    def get(self, key: str) -> bytes:
        """Return an object."""
        found = self.objects.get(key)
        if found is None:
            raise NotFoundError(f"no such object. {key=}")
        return found[0]

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        if self.objects.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def list(self, prefix: str, after: str) -> list[StoredObject]:
        """Return what is there, ascending."""
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        found = []
        for key in self._keys[first:]:
            if not key.startswith(prefix):
                break
            body, modified = self.objects[key]
            found.append(StoredObject(key, len(body), modified))
        return found


class RemoteStore(ObjectStore):
    """A bucket as one process reaches it."""

    def __init__(self, bucket: Bucket, process: Process) -> None:
        self._bucket = bucket
        self._process = process
        self.url = "sim://bucket"
        self.near = process.near

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        check_body(key, body)
        self._send("put", key, lambda: self._bucket.put(key, body))

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        return _RemoteUpload(
            lambda body: self._send("put", key, lambda: self._bucket.put(key, body))
        )

    @override
    def get(self, key: str) -> bytes:
        return self._send("get", key, lambda: self._bucket.get(key))

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return self._send("get", key, lambda: self._bucket.get(key)[start : start + length])

    @override
    def size(self, key: str) -> int:
        return self._send("size", key, lambda: len(self._bucket.get(key)))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        yield from self._send("list", prefix, lambda: self._listing(prefix, after))

    @override
    def delete(self, key: str) -> None:
        self._send("delete", key, lambda: self._bucket.delete(key))

    def _send(self, kind: Kind, key: str, effect: Callable[[], R]) -> R:
        scheduler, process = self._process.scheduler, self._process
        fiber = scheduler.current
        if fiber is None or is_at_once():
            return effect()
        if not process.life.alive:
            raise Crashed
        place = scheduler.unique(f"{fiber.op} {kind} {short(key, stamp=False)}")
        fault = process.world.fault(kind, place)
        if fault:
            process.disturb(fault)
        reply: R = _Request(scheduler, process, kind, key, place, effect).send(fault)
        return reply

    def _listing(self, prefix: str, after: str) -> Sequence[StoredObject]:
        """List, and now and then see only some of what changes meanwhile, as stores may."""
        scheduler, fiber = self._process.scheduler, self._process.scheduler.current
        first = self._bucket.list(prefix, after)
        if fiber is None:
            return first
        place = scheduler.unique(f"{fiber.op} shows {short(prefix)}")
        seen, _, long = self._process.world.tear(place).partition(" for ")
        if not seen:
            return first
        scheduler.pause(place, STALLS.get(long, _TORN_SECONDS))
        return _torn(first, self._bucket.list(prefix, after), seen)


def _torn(
    first: Sequence[StoredObject], then: Sequence[StoredObject], seen: str
) -> list[StoredObject]:
    """Return what both show, and of the rest what `seen` says, its letters over and over."""
    both = {stored.key for stored in first} & {stored.key for stored in then}
    every = {stored.key: stored for stored in (*first, *then)}
    changed = [key for key in sorted(every) if key not in both]
    chosen = {key for i, key in enumerate(changed) if seen[i % len(seen)] == "y"}
    return [every[key] for key in sorted(both | chosen)]


_PATTERNS = ("n", "y", "yn", "ny", "yyn", "nny", "nyy", "ynn")
TORN = ("", *_PATTERNS, *(f"{p} for {long}" for p in _PATTERNS for long in STALLS))
"""Which of the objects that come or go during a listing it shows, and how long it takes."""


@dataclass
class _Request:
    """One request on its way."""

    scheduler: Scheduler
    process: Process
    kind: Kind
    key: str
    place: str
    effect: Callable[[], object]

    def send(self, fault: str) -> Any:
        """Do the request, with what happens to it."""
        try:
            self._pause("<", fault, "before")
        except Crashed:
            self._outlive()
            raise
        reply = self._arrive(fault)
        self._pause(">", fault, "after")
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _pause(self, mark: str, fault: str, when: str) -> None:
        seconds = _LATENCY
        what, _, rest = fault.partition(f" {when}")
        if rest:
            long = STALLS[rest.strip()]
            self._note(f"{what} {when} it for {long:.0f} s")
            if what == "stalls":
                self.process.life.freeze(self.scheduler.now, long)
            seconds = long
        elif fault == f"crashes {when}":
            self._die(when)
        self.scheduler.pause(f"{self.place} {mark}", seconds)

    def _die(self, when: str) -> None:
        self._note(f"the process crashes {when} it")
        self.process.life.alive = False
        raise Crashed

    def _outlive(self) -> None:
        """A request may be on its way when another thread of its process crashes."""
        decisions = self.process.world.decisions
        if self.kind in ("put", "delete") and decisions.choose(
            f"{self.place} outlives", ("", "yes"), 0.5
        ):
            self._later()

    def _arrive(self, fault: str) -> object:
        """Let the request take effect or not; return the reply, or the error instead of one."""
        if fault == "fails":
            return self._told(StorageError(f"the store failed. key={self.key!r}"), "fails")
        if fault == "is dropped":
            return self._told(self._no_reply(), "is dropped, without a reply")
        if fault == "comes late":
            self._later()
            return self._told(self._no_reply(), "has no reply yet")
        if fault == "crashes meanwhile":
            self._later()
            self._die("while the request is on its way: right after")
        reply = self._do()
        if fault == "comes twice":
            self._later()
        if fault == "is resent":
            self._note("the client sends it again")
            reply = self._do()
        if fault == "loses its reply":
            return self._told(self._no_reply(), "its reply is lost")
        return reply

    def _no_reply(self) -> Exception:
        known = UnknownOutcomeError if self.kind == "put" else StorageError
        return known(f"no reply. key={self.key!r}")

    def _do(self) -> object:
        try:
            reply = self.effect()
        except (AlreadyExistsError, NotFoundError) as error:
            return self._told(error, "refused: taken" if self.kind == "put" else "nothing there")
        return self._told(reply, _outcome(self.kind, reply))

    def _later(self) -> None:
        """Let a copy of the request arrive after its sender has given up, or was answered."""
        decisions = self.process.world.decisions
        long = decisions.choose(f"{self.place} arrives in", ("a moment", *STALLS), 0.7)
        seconds = min(STALLS.get(long, 1.0), LONGEST_LIFE)
        self.scheduler.spawn(f"{self.place} late", Life(), self._land, after=seconds)

    def _land(self) -> None:
        self._note("a copy arrives late")
        self._do()

    def _told(self, reply: object, what: str) -> object:
        self._note(what)
        return reply

    def _note(self, what: str) -> None:
        if self.scheduler.tracing:
            self.scheduler.note(f"{self.kind} {short(self.key)}: {what}")


def _outcome(kind: Kind, reply: object) -> str:
    if kind == "list" and isinstance(reply, list):
        return " ".join(short(stored.key, name=True) for stored in reply) or "nothing"
    return {"put": "created", "delete": "gone"}.get(kind, "read")


class _RemoteUpload(Upload):
    """Sends the whole object at its end; what comes before it changes nothing."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put = put
        self._parts: list[bytes] = []

    @override
    def whole(self, body: bytes) -> None:
        self._put(body)

    @override
    def begin(self) -> None:
        self._parts.clear()

    @override
    def add(self, part: bytes) -> None:
        self._parts.append(part)

    @override
    def finish(self) -> None:
        self._put(b"".join(self._parts))

    @override
    def abort(self) -> None:
        self._parts.clear()
