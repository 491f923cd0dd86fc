"""Where time and randomness come from: arguments everywhere, so that tests decide them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What a lake needs to know of time."""

    def wall(self) -> float:
        """Return seconds since 1970 UTC. May jump; never orders anything by itself."""

    def elapsed(self) -> float:
        """Return seconds since some start, counting those in which the machine was suspended."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._wall_start = time.time()
        self._monotonic_start = time.monotonic()
        self._boottime = getattr(time, "CLOCK_BOOTTIME", None)

    def wall(self) -> float:
        """Return seconds since 1970 UTC."""
        return time.time()

    def elapsed(self) -> float:
        """Return seconds since some start, counting those in which the machine was suspended."""
        if self._boottime is not None:
            return time.clock_gettime(self._boottime)
        # Without a clock that counts suspension the wall clock may show it; the larger is safe.
        return max(time.time() - self._wall_start, time.monotonic() - self._monotonic_start)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


NewToken = Callable[[], str]
"""Makes a random name of 16 hexadecimal digits, never the same twice."""


def new_token() -> str:
    """Return a random name of 16 hexadecimal digits."""
    return secrets.token_hex(8)
