"""Runs blocking code of many processes in one thread, one piece at a time, in virtual time.

A fiber stops wherever it calls `pause` or `wait`, and who goes on is a decision. When nobody can
go on, time does, to when the first one wakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

from tests.simulator.decisions import Decisions

_LONGEST = 20_000


class Crashed(BaseException):
    """The process is dead. Not an `Exception`, so that nothing mistakes it for a failure."""


class Life:
    """Whether the fibers of one process run."""

    def __init__(self) -> None:
        self.alive = True
        self.frozen_until = 0.0
        self.frozen_for = 0.0
        """Seconds in which it stood still, all of it."""

    def freeze(self, now: float, seconds: float) -> None:
        """Let all of it stand still."""
        self.frozen_until = now + seconds
        self.frozen_for += seconds


@dataclass(eq=False)
class Fiber:
    """One thread of a process."""

    prefix: str
    """Names it."""
    op: str
    """What somebody does, of which this is a part; names the places in it."""
    life: Life
    run: greenlet
    wakes_at: float
    count: int = 0
    waits_for: Callable[[], bool] | None = None

    def next_place(self) -> str:
        """Name the next place in it where nothing is asked of the store."""
        self.count += 1
        return f"{self.prefix}.{self.count}"

    def is_ready(self, now: float) -> bool:
        """Tell whether it can go on."""
        if not self.life.alive:
            return True
        if self.wakes_at > now or self.life.frozen_until > now:
            return False
        return self.waits_for is None or self.waits_for()


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a printed history."""

    time: float
    who: str
    what: str


@dataclass
class Scheduler:
    """Lets one fiber at a time run, until it pauses."""

    decisions: Decisions
    switching: float
    """How likely another fiber goes on."""
    tracing: bool = False
    now: float = 1_700_000_000.0
    steps: list[Step] = field(default_factory=list)
    ticks: int = 0
    current: Fiber | None = None
    outside: str = ""
    """Who does something before or after the history, in no fiber."""
    _fibers: list[Fiber] = field(default_factory=list)
    _last: Fiber | None = None
    _place: str = "begin"
    _named: dict[str, int] = field(default_factory=dict)

    def spawn(
        self, prefix: str, life: Life, work: Callable[[], None], *, after: float = 0.0
    ) -> Fiber:
        """Start a fiber in `after` seconds; what it raises ends the history."""

        def body() -> None:
            try:
                work()
            except Crashed:
                self.note("ends with its process")

        op = self.current.op if self.current else prefix
        run = greenlet(body, parent=self._hub())
        fiber = Fiber(prefix, op, life, run, self.now + after)
        self._fibers.append(fiber)
        return fiber

    def _hub(self) -> greenlet:
        return self._home if self.current is not None else getcurrent()

    def run(self) -> None:
        """Run until all fibers have ended."""
        self._home = getcurrent()
        while self._fibers:
            ready = [fiber for fiber in self._fibers if fiber.is_ready(self.now)]
            if not ready:
                self._let_time_pass()
                continue
            self._resume(self._choose(ready))

    def _let_time_pass(self) -> None:
        times = [
            time
            for fiber in self._fibers
            if (time := max(fiber.wakes_at, fiber.life.frozen_until)) > self.now
        ]
        if not times:
            raise RuntimeError(f"everyone waits: {[fiber.prefix for fiber in self._fibers]}")
        self.now = min(times)

    def _choose(self, ready: list[Fiber]) -> Fiber:
        if len(ready) == 1:
            return ready[0]
        if self._last in ready:
            ready.remove(self._last)
            ready.insert(0, self._last)
        names = [fiber.prefix for fiber in ready]
        place = self.unique(f"{self._place} then")
        chosen = self.decisions.choose(place, names, self.switching)
        return ready[names.index(chosen)]

    def _resume(self, fiber: Fiber) -> None:
        self.ticks += 1
        if self.ticks > _LONGEST:
            raise RuntimeError("the history does not end")
        self.current = self._last = fiber
        fiber.waits_for = None
        try:
            if fiber.life.alive:
                fiber.run.switch()
            elif fiber.run:  # it has begun
                fiber.run.throw(Crashed())
        finally:
            self.current = None
            if not fiber.run:
                self._fibers.remove(fiber)

    def pause(self, place: str, seconds: float = 0.0) -> None:
        """Let others go on; return when it is this fiber's turn again, in `seconds` or later."""
        fiber = self.current
        if fiber is None:  # before and after the history nobody else is there
            self.now += seconds
            return
        fiber.wakes_at = self.now + seconds
        self._place = place
        self._home.switch()
        if not fiber.life.alive:
            raise Crashed

    def wait(self, place: str, until: Callable[[], bool]) -> None:
        """Let others go on until something is so."""
        fiber = self.current
        if until() or fiber is None:
            return
        fiber.waits_for = until
        self.pause(place)

    def unique(self, place: str) -> str:
        """Return `place`, or what tells it from the places that had that name before."""
        self._named[place] = self._named.get(place, 0) + 1
        return place if self._named[place] == 1 else f"{place} #{self._named[place]}"

    def tick(self) -> int:
        """Return the next number of what happens: later things have larger ones."""
        self.ticks += 1
        return self.ticks

    def note(self, what: str) -> None:
        """Write down what happens, if the history is to be printed."""
        if self.tracing:
            who = self.current.prefix if self.current else self.outside
            self.steps.append(Step(self.now, who, what))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run what is inside with nobody else, and without faults: in no fiber."""
        fiber, self.current = self.current, None
        try:
            yield
        finally:
            self.current = fiber
