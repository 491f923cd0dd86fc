"""What a `Session` object is to show of what was stored: once, and where the object lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event as Flag
from threading import Lock

_PATIENCE_SECONDS = 1.0


class Showing:
    """A change of an object that is made once, by the event loop that asked for it if it can be.

    Other tasks of that loop may be iterating over the object's state. A loop that has ended, or is
    itself waiting, leaves the change to whoever needs it next.
    """

    def __init__(self, show: Callable[[], None], loop: asyncio.AbstractEventLoop | None) -> None:
        self._show = show
        self._loop = loop
        self._lock = Lock()
        self._shown = Flag()

    def __call__(self) -> None:
        """Make the change, unless it was made."""
        with self._lock:
            if not self._shown.is_set():
                self._shown.set()
                self._show()

    def soon(self) -> None:
        """Have the loop make the change; without one, or when it has ended, make it here."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self)
                return
        except RuntimeError:  # the loop is closed
            pass
        self()

    def ensure(self) -> None:
        """Return when the change is made, by the loop or else here."""
        loop = self._loop
        if loop is not None and loop.is_running() and loop is not _running_loop():
            self._shown.wait(_PATIENCE_SECONDS)
        self()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
