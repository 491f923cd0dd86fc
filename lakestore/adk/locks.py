"""First come, first served, one at a time per key, for threads and event loops alike.

Owns the order. Whoever waits in an event loop keeps no thread waiting, and what was begun for it
goes on when the waiting is cancelled or the loop ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

R = TypeVar("R")


class KeyedLocks:
    """One lock per key, held only while someone holds or waits for it."""

    def __init__(self) -> None:
        self._mutex = Lock()
        # For each key its holder, then those who wait, in the order in which they came: what to
        # call when their turn comes.
        self._queues: dict[Hashable, deque[Callable[[], None]]] = {}

    def is_free(self, key: Hashable) -> bool:
        """Tell whether nobody holds the lock of `key` at this moment."""
        return key not in self._queues

    @contextmanager
    def held(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of `key`, blocking this thread until it is free."""
        turn = Lock()
        turn.acquire()
        self._enter(key, turn.release)
        turn.acquire()
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
                self._queues[key] = deque([_nothing])
        try:
            yield free
        finally:
            if free:
                self._leave(key)

    def run(
        self, key: Hashable, submit: Callable[[Callable[[], None]], object], work: Callable[[], R]
    ) -> Future[R]:
        """Run `work` in a thread, holding the lock of `key`, when its turn comes.

        Args:
            key: Names the lock.
            submit: Starts a thread with what it is given.
            work: What to run.

        Returns:
            What `work` returns or raises; it cannot be cancelled.
        """
        outcome: Future[R] = Future()
        outcome.set_running_or_notify_cancel()

        def fail(error: BaseException) -> None:
            self._leave(key)
            outcome.set_exception(error)

        def perform() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                fail(error)
            else:
                self._leave(key)
                outcome.set_result(result)

        def start() -> None:
            try:
                submit(perform)
            except Exception as error:  # noqa: BLE001 - the lake was closed meanwhile
                fail(error)

        self._enter(key, start)
        return outcome

    def _enter(self, key: Hashable, begin: Callable[[], None]) -> None:
        """Call `begin` when the turn of whoever comes now has come, perhaps at once."""
        with self._mutex:
            queue = self._queues.setdefault(key, deque())
            queue.append(begin)
            first = len(queue) == 1
        if first:
            begin()

    def _leave(self, key: Hashable) -> None:
        with self._mutex:
            queue = self._queues[key]
            queue.popleft()
            following = queue[0] if queue else None
            if following is None:
                del self._queues[key]
        if following is not None:
            following()


def _nothing() -> None:
    pass
