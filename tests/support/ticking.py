"""How late an event loop is: a ticker beside the work, and a store that only it lets go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Condition
from typing import TypeVar

from typing_extensions import override

from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind

R = TypeVar("R")


def waited_for_a_core() -> float:
    """Return the seconds that this process's threads could run while others had the cores.

    0 where the system does not tell; Linux does. A thread that holds the interpreter counts as
    well as the loop's own: while it waits, nothing of the process runs.
    """
    nanoseconds = 0
    for schedule in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            nanoseconds += int(schedule.read_text().split()[1])
    return nanoseconds / 1e9


class Ticker:
    """Ticks every so many seconds in the loop that it is started in."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ticks = 0
        self.latest = 0.0
        """The longest that a tick came late, in seconds, other than for want of a core."""
        self._ticked = Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Ticker:
        self._task = asyncio.ensure_future(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _tick(self) -> None:
        while True:
            waited, due = waited_for_a_core(), time.monotonic() + self.seconds
            await asyncio.sleep(self.seconds)
            late = time.monotonic() - due
            self.latest = max(self.latest, late - (waited_for_a_core() - waited))
            with self._ticked:
                self.ticks += 1
                self._ticked.notify_all()

    def wait_for(self, ticks: int, timeout: float) -> bool:
        """Block this thread until so many more ticks came; False when they did not come in time."""
        with self._ticked:
            enough = self.ticks + ticks
            return self._ticked.wait_for(lambda: self.ticks >= enough, timeout)


class TickingStore(AroundStore):
    """A store whose every request takes some ticks: in the ticker's own loop it would never end."""

    near = False

    def __init__(self, inner: ObjectStore, ticker: Ticker, ticks: int) -> None:
        super().__init__(inner)
        self.near = False
        self._ticker = ticker
        self._ticks = ticks

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if self._ticker.ticks and not self._ticker.wait_for(self._ticks, 10.0):
            raise AssertionError("a request was made in the event loop")
        return call()
