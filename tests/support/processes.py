"""A few processes that stay for the whole run: each takes seconds to import ADK.

Owns how tests in several processes start at one moment; what these do is
`tests.support.session_writers`'s.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

R = TypeVar("R")

PROCESSES = 4
SECONDS = 90.0


@dataclass
class _Start:
    """The line at which the workers wait for each other."""

    barrier: Barrier | None = None


_start = _Start()


def _begin(barrier: Barrier) -> None:
    _start.barrier = barrier


def at_once() -> None:
    """Wait, in a worker, until all workers of this race are here."""
    assert _start.barrier is not None
    _start.barrier.wait(SECONDS)


@cache
def _pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    return ProcessPoolExecutor(
        PROCESSES, mp_context=context, initializer=_begin, initargs=(barrier,)
    )


def race(work: Callable[..., R], arguments: Sequence[tuple[Any, ...]]) -> list[R]:
    """Run `work` in each of the processes at once, each with its arguments; return the results.

    `work` must call `at_once` exactly once: a worker that waits there can take no second task.
    """
    assert len(arguments) == PROCESSES
    futures = [_pool().submit(work, *each) for each in arguments]
    return [future.result(SECONDS) for future in futures]


def elsewhere(work: Callable[..., R], *arguments: Any) -> R:
    """Run `work` in another process, and return its result."""
    return _pool().submit(work, *arguments).result(SECONDS)
