"""A store that a test lets through request by request, from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Queue
from threading import Semaphore
from typing import Any, TypeVar

from typing_extensions import override

from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind

R = TypeVar("R")

SECONDS = 20.0


class SteppingStore(AroundStore):
    """Stops before and after each request, while it is closed, until the test says go.

    Open at first. Between `close` and `open`, `stop` awaits that a thread stands, `go` lets one on.
    """

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._closed = False
        self._stopped: Queue[str] = Queue()
        self._allowed = Semaphore(0)

    def close_gate(self) -> None:
        """Stop every thread that comes from now on."""
        self._closed = True

    def open_gate(self) -> None:
        """Let everyone go, those who stand too."""
        self._closed = False
        self._allowed.release(100)

    async def stop(self, task: asyncio.Future[Any] | None = None) -> str:
        """Wait until a thread stands; return what it is about to do, or has done.

        Returns "" when `task` ends without coming to another stop.
        """
        async with asyncio.timeout(SECONDS):
            while self._stopped.empty():
                if task is not None and task.done():
                    return ""
                await asyncio.sleep(0.001)
        return self._stopped.get()

    def go(self) -> None:
        """Let one thread go on."""
        self._allowed.release()

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        self._stand(f"before {kind}")
        try:
            return call()
        finally:
            self._stand(f"after {kind}")

    def _stand(self, where: str) -> None:
        if self._closed:
            self._stopped.put(where)
            assert self._allowed.acquire(timeout=SECONDS), "the test let nobody go"
