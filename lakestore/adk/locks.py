"""First come, first served, one at a time per key, for threads and event loops alike."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Lock


class KeyedLocks:
    """One lock per key, held only while someone holds or waits for it."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    @contextmanager
    def held(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of `key`, blocking this thread until it is free."""
        self._enter(key).result()
        try:
            yield
        finally:
            self._leave(key)

    @contextmanager
    def held_if_free(self, key: Hashable) -> Iterator[bool]:
        """Hold the lock of `key` if nobody does, and tell whether it is held."""
        with self._mutex:
            free = key not in self._waiting
            if free:
                self._waiting[key] = deque()
        try:
            yield free
        finally:
            if free:
                self._leave(key)

    @asynccontextmanager
    async def held_async(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of `key`, waiting in the event loop until it is free."""
        turn = self._enter(key)
        try:
            if not turn.done():
                await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            # Cancelled either before the turn came, or in the moment that it did.
            if not turn.cancel():
                self._leave(key)
            raise
        try:
            yield
        finally:
            self._leave(key)

    def _enter(self, key: Hashable) -> Future[None]:
        turn: Future[None] = Future()
        with self._mutex:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque()
                turn.set_result(None)
            else:
                queue.append(turn)
        return turn

    def _leave(self, key: Hashable) -> None:
        with self._mutex:
            queue = self._waiting[key]
            while queue:
                turn = queue.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            del self._waiting[key]
