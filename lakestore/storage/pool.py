"""Threads that wait on the store. Owns how many, and that a forked process makes its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Lock
from typing import TypeVar

from typing_extensions import override

from lakestore.storage.gate import Gate

T = TypeVar("T")
R = TypeVar("R")

_WORTH_A_THREAD = 32


class Pool:
    """A thread pool that starts on first use and is begun anew after a fork.

    A call that runs in a pool must not wait for another call in the same pool. What is called from
    inside `gate` runs inside, and whoever waits for it there is outside meanwhile.
    """

    def __init__(self, workers: int, name: str, gate: Gate | None = None) -> None:
        self._workers = workers
        self._name = name
        self._gate = gate or Gate()
        self._reset()

    def _reset(self) -> None:
        self._lock = Lock()
        self._pid = os.getpid()
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Run `call` in a thread, or right here when the interpreter starts no more threads."""
        if self._pid != os.getpid():  # the threads stayed with the parent
            self._reset()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers, f"lakestore-{self._name}")
            try:
                if not self._gate.is_inside:
                    return self._threads.submit(call)
                answer: Future[R] = _Answer(self._gate)
                self._threads.submit(lambda: _settle(answer, lambda: self._gate.inside(call)))
                return answer
            except RuntimeError:  # the interpreter is shutting down
                pass
        return _done(call)

    def start(self, call: Callable[[], R], *, near: bool) -> Future[R]:
        """Run `call` beside what the caller does next, or before that, right here, if `near`."""
        return _done(call) if near else self.submit(call)

    def map(self, call: Callable[[T], R], items: Sequence[T], *, near: bool) -> list[R]:
        """Return `call` of each item, in their order, run side by side.

        Args:
            call: What to run.
            items: What to run it on.
            near: The calls are quicker than handing them to a thread, so few are run right here.

        Raises:
            Exception: the first that a call raised; the others have ended by then.
            KeyboardInterrupt: calls that had not begun are left undone.
        """
        if len(items) < (_WORTH_A_THREAD if near else 2):
            return [call(item) for item in items]
        # A near store is bound by the processor: a few long slices, not a thread an item.
        slices = 4 if near else len(items)
        bounds = [len(items) * i // slices for i in range(slices + 1)]
        futures = [self.submit(_each(call, items[a:b])) for a, b in pairwise(bounds)]
        try:
            self._gate.outside(lambda: wait(futures))
        except BaseException:  # Ctrl-C: what has not begun is not worth waiting for
            for future in futures:
                future.cancel()
            raise
        return [result for future in futures for result in future.result()]

    def close(self) -> None:
        """Wait for what runs and end the threads; a later call starts them again."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None and self._pid == os.getpid():
            threads.shutdown()


class _Answer(Future[R]):
    """What somebody inside a gate waits for."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    @override
    def result(self, timeout: float | None = None) -> R:
        result = super().result
        return result(timeout) if self.done() else self._gate.outside(lambda: result(timeout))


def _done(call: Callable[[], R]) -> Future[R]:
    done: Future[R] = Future()
    _settle(done, call)
    return done


def _settle(outcome: Future[R], call: Callable[[], R]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
        outcome.set_exception(error)


def _each(call: Callable[[T], R], items: Sequence[T]) -> Callable[[], list[R]]:
    return lambda: [call(item) for item in items]
