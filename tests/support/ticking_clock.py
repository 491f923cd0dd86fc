"""A clock that tests move: every look at it takes a moment, so no two times are equal."""

from __future__ import annotations

from threading import Lock


class TickingClock:
    """Counts from a fixed day; `advance` lets hours pass in no time."""

    def __init__(self, start: float = 1_750_000_000.0, tick: float = 1e-4) -> None:
        self._lock = Lock()
        self._start = start
        self._passed = 0.0
        self._tick = tick

    def wall(self) -> float:
        """Return seconds since 1970 UTC."""
        return self._start + self.elapsed()

    def elapsed(self) -> float:
        """Return seconds since the clock was made."""
        with self._lock:
            self._passed += self._tick
            return self._passed

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        with self._lock:
            self._passed += seconds
