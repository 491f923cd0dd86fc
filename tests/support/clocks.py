"""A clock that a test sets. Owns time only; what passes it on is in the tests."""

from __future__ import annotations

from threading import Lock

from lakestore.clock import Clock


class ManualClock:
    """Stands still until it is told to go on; `sleep` goes on at once. Safe in many threads."""

    def __init__(self, wall: float = 1_700_000_000.0, elapsed: float = 1_000.0) -> None:
        self._lock = Lock()
        self._wall = wall
        self._elapsed = elapsed
        self.slept: list[float] = []
        """How long each `sleep` was."""

    def wall(self) -> float:
        """Return seconds since 1970 UTC."""
        return self._wall

    def elapsed(self) -> float:
        """Return seconds since some start."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass, and note it."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        with self._lock:
            self._wall += seconds
            self._elapsed += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back, in no time."""
        with self._lock:
            self._wall += seconds


class SkewedClock:
    """Another machine's clock: time passes as on `clock`, and its wall clock is off."""

    def __init__(self, clock: Clock, skew: float) -> None:
        self._clock = clock
        self._skew = skew

    def wall(self) -> float:
        """Return seconds since 1970 UTC, as this machine believes."""
        return self._clock.wall() + self._skew

    def elapsed(self) -> float:
        """Return seconds since some start."""
        return self._clock.elapsed()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._clock.sleep(seconds)
