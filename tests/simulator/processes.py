"""Processes as they use the product: a lake and a session service, a clock and threads each.

Owns what is put in the place of time, randomness and threads. What runs in a pool is a fiber of its
process, which others may interleave with, delay, and end by a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from google.adk.sessions.session import Session
from typing_extensions import override

from lakestore import Lake
from lakestore.adk.sync import SyncSessionService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.log.marker import Limits
from lakestore.storage import Pool
from tests.simulator.scheduler import Crashed, Life, Scheduler
from tests.simulator.store import GRACE, VIEW_AGE, RemoteStore

if TYPE_CHECKING:
    from tests.simulator.world import World

T = TypeVar("T")
R = TypeVar("R")

LIMITS = Limits(VIEW_AGE, GRACE)


class VirtualClock:
    """A machine's clocks: its wall clock is off by `skew`, its elapsed time is its own."""

    def __init__(self, scheduler: Scheduler, life: Life, skew: float) -> None:
        self._scheduler = scheduler
        self.life = life
        self._skew = skew
        self._start = scheduler.now - 100.0

    def wall(self) -> float:
        """Return seconds since 1970 UTC, as this machine believes."""
        return self._scheduler.now + self._skew

    def elapsed(self) -> float:
        """Return seconds since it started."""
        return self._scheduler.now - self._start

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, and others act."""
        fiber = self._scheduler.current
        self._scheduler.note(f"waits {seconds} s")
        self._scheduler.pause(fiber.next_place() if fiber else "", seconds)


class _Awaited(Future[R]):
    """A future that lets others go on while somebody waits for it."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    @override
    def result(self, timeout: float | None = None) -> R:
        await_done(self._scheduler, self)
        return super().result(timeout)

    @override
    def exception(self, timeout: float | None = None) -> BaseException | None:
        await_done(self._scheduler, self)
        return super().exception(timeout)


def await_done(scheduler: Scheduler, future: Future[R]) -> None:
    """Let others go on until `future` is done."""
    fiber = scheduler.current
    if fiber is not None:
        scheduler.wait(fiber.next_place(), future.done)


class FiberPool(Pool):
    """Takes the place of a pool of threads: what runs in it are fibers of its process."""

    def __init__(self, process: Process, workers: int) -> None:
        self._process = process
        self._free = workers
        self._waiting: deque[Callable[[], None]] = deque()

    @override
    def submit(self, call: Callable[[], R]) -> Future[R]:
        scheduler = self._process.scheduler
        outcome: Future[R] = _Awaited(scheduler)
        fiber = scheduler.current
        if fiber is None:
            _settle(outcome, call)
            return outcome
        place = fiber.next_place()
        self._waiting.append(lambda: self._start(f"{place}/", lambda: _settle(outcome, call)))
        self._begin()
        return outcome

    def _begin(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft()()

    def _start(self, prefix: str, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                work()
            finally:
                self._free += 1
                self._begin()

        self._process.scheduler.spawn(prefix, self._process.life, body)

    @override
    def map(self, call: Callable[[T], R], items: Sequence[T], *, near: bool) -> list[R]:
        if near or len(items) < 2:
            return [call(item) for item in items]
        futures = [self.submit(_bound(call, item)) for item in items]
        for future in futures:
            future.exception()
        return [future.result() for future in futures]

    @override
    def close(self) -> None:
        """Nothing runs on its own."""


def _bound(call: Callable[[T], R], item: T) -> Callable[[], R]:
    return lambda: call(item)


def _settle(outcome: Future[R], call: Callable[[], R]) -> None:
    try:
        result = call()
    except Crashed:
        raise
    except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


class Process:
    """One process: it has a lake open, holds sessions, and may crash."""

    def __init__(
        self, world: World, name: str, skew: float, *, near: bool, read_only: bool = False
    ) -> None:
        self.world = world
        self.near = near
        self.scheduler = world.scheduler
        self.name = name
        self.born = world.scheduler.ticks
        self.life = Life()
        self.faults = 0
        """What has happened to its requests, but for stalls."""
        self.stalls = 0
        self.handles: dict[tuple[str, str], list[Session]] = {}
        """What it holds of each session, the newest last."""
        self.handed: dict[int, Session] = {}
        """By its id, each `Session` that came from elsewhere, without a marker."""
        with world.scheduler.alone():
            self.lake = Lake(
                RemoteStore(world.bucket, self),
                read_only=read_only,
                limits=LIMITS,
                clock=VirtualClock(world.scheduler, self.life, skew),
                new_token=world.token,
                cache_bytes=2**20,
                pools=lambda workers, *_: FiberPool(self, workers),
            )
        self.service = SyncSessionService(self.lake, payload_threshold=0)
        self.memories = SyncMemoryService(self.lake, max_results=1_000)
        world.processes.append(self)

    def disturb(self, fault: str) -> None:
        """Note that something has happened to one of its requests."""
        if fault.startswith(("stalls", "is slow")):
            self.stalls += 1
        else:
            self.faults += 1

    def background(self, work: Callable[[], None]) -> None:
        """Do work that nobody waits for, as the product does its upkeep."""
        fiber = self.scheduler.current
        assert fiber is not None
        self.scheduler.spawn(f"{fiber.next_place()}~", self.life, work)
