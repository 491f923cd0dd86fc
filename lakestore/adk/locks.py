"""First come, first served, one at a time per key, for threads and event loops alike."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Lock

from lakestore.errors import InputError


@dataclass(slots=True)
class _Turn:
    """One who holds or waits for a lock."""

    loop: asyncio.AbstractEventLoop | None
    """The event loop that it runs in, None for a plain thread."""
    comes: Future[None] = field(default_factory=Future)


class KeyedLocks:
    """One lock per key, held only while someone holds or waits for it."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._queues: dict[Hashable, deque[_Turn]] = {}
        """For each key its holder, then those who wait, in the order in which they came."""

    @contextmanager
    def held(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of `key`, blocking this thread until it is free.

        Raises:
            InputError: it never would be, since the event loop of this thread holds it.
        """
        turn = self._enter(key, None)
        if not turn.comes.done() and self._waits_for_own_loop(key, turn):
            self._withdraw(key, turn)
            raise InputError(
                "a blocking call would wait for an append that this thread's event loop has under"
                " way: use `await` and the service itself instead of its `.sync`"
            )
        turn.comes.result()
        try:
            yield
        finally:
            self._leave(key)

    @contextmanager
    def held_if_free(self, key: Hashable) -> Iterator[bool]:
        """Hold the lock of `key` if nobody does, and tell whether it is held."""
        with self._mutex:
            free = key not in self._queues
            if free:
                self._queues[key] = deque([_Turn(_running_loop())])
        try:
            yield free
        finally:
            if free:
                self._leave(key)

    @asynccontextmanager
    async def held_async(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of `key`, waiting in the event loop until it is free."""
        turn = self._enter(key, asyncio.get_running_loop())
        try:
            if not turn.comes.done():
                await asyncio.wrap_future(turn.comes)
        except asyncio.CancelledError:
            self._withdraw(key, turn)
            raise
        try:
            yield
        finally:
            self._leave(key)

    def _enter(self, key: Hashable, loop: asyncio.AbstractEventLoop | None) -> _Turn:
        turn = _Turn(loop)
        with self._mutex:
            queue = self._queues.setdefault(key, deque())
            queue.append(turn)
            if queue[0] is turn:
                turn.comes.set_result(None)
        return turn

    def _withdraw(self, key: Hashable, turn: _Turn) -> None:
        """Give up a turn: before it came, or in the moment that it did."""
        if not turn.comes.cancel():
            self._leave(key)

    def _leave(self, key: Hashable) -> None:
        with self._mutex:
            queue = self._queues[key]
            queue.popleft()
            while queue:
                if queue[0].comes.set_running_or_notify_cancel():
                    queue[0].comes.set_result(None)
                    return
                queue.popleft()
            del self._queues[key]

    def _waits_for_own_loop(self, key: Hashable, turn: _Turn) -> bool:
        loop = _running_loop()
        with self._mutex:
            ahead = takewhile(lambda other: other is not turn, self._queues.get(key, ()))
            return loop is not None and any(other.loop is loop for other in ahead)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
