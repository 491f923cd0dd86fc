"""Who may compute of the threads that work for event loops. Owns turns; nothing relies on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

_PATIENCE_SECONDS = 1.0


class Gate:
    """Lets the threads that are inside compute one at a time.

    The interpreter runs one thread at a time anyway, and takes turns of milliseconds: an event loop
    comes late by as many of them as there are threads that compute. Whoever waits, for the store
    or for another thread, is outside meanwhile.

    It is no lock: whoever has waited for a second goes in, so that one who computes
    for long holds up nobody for longer, and no two wait for each other.
    """

    def __init__(self) -> None:
        self._free = threading.Lock()
        self._here = threading.local()

    @property
    def is_inside(self) -> bool:
        """Whether this thread is."""
        return getattr(self._here, "inside", False)

    def inside(self, call: Callable[[], R]) -> R:
        """Return what `call` returns, run inside."""
        if self.is_inside:
            return call()
        self._enter()
        try:
            return call()
        finally:
            self._leave()

    def outside(self, wait: Callable[[], R]) -> R:
        """Return what `wait` returns, which computes next to nothing, run outside."""
        if not self.is_inside:
            return wait()
        self._leave()
        try:
            return wait()
        finally:
            self._enter()

    def _enter(self) -> None:
        self._here.alone = self._free.acquire(timeout=_PATIENCE_SECONDS)
        self._here.inside = True

    def _leave(self) -> None:
        self._here.inside = False
        if self._here.alone:
            self._free.release()
