"""Processes that append at once, each to a session of its own.

`python -m tests.requests.writers DIR PROCESSES EVENTS` prints what each requested and how long its
appends took: of one process alone, of all with a user each, and of all with one user. A program of
its own, since it forks: nothing else may run in it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Any

from lakestore import Lake, LakeSessionService
from tests.requests.counting import begin, requests_of, said

Seen = dict[str, Any]
"""`requests` by kind, and `seconds` of each append."""

_PATIENCE_SECONDS = 60


async def _append(folder: str, user: str, count: int, start: Barrier) -> Seen:
    seconds = []
    with Lake.open(folder) as lake:
        service = LakeSessionService(lake)
        session = await begin(service, user=user)
        # Nobody appends before everyone can: what is wanted is that all do at once.
        start.wait()
        with requests_of(service) as made:
            for number in range(count):
                started = time.perf_counter()
                await service.append_event(session, said(f"message {number}"))
                seconds.append(time.perf_counter() - started)
    return {"requests": made, "seconds": seconds}


def _write(folder: str, user: str, count: int, start: Barrier, results: SimpleQueue[Seen]) -> None:
    results.put(asyncio.run(_append(folder, user, count, start)))


def write(folder: str, processes: int, count: int, *, users: int = 1) -> list[Seen]:
    """Let `processes` processes append `count` events each; return what each has seen.

    Args:
        folder: The lake.
        processes: How many.
        count: Events of each, one by one.
        users: How many users the processes' sessions belong to.
    """
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(processes, timeout=_PATIENCE_SECONDS), context.SimpleQueue()
    writers = [
        context.Process(target=_write, args=(folder, f"user{n % users}", count, start, results))
        for n in range(processes)
    ]
    for writer in writers:
        writer.start()
    found: list[Seen] = [results.get() for _ in writers]
    for writer in writers:
        writer.join()
    return found


if __name__ == "__main__":
    folder, processes, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seen = {
        "alone": write(folder, 1, count),
        "apart": write(folder, processes, count, users=processes),
        "together": write(folder, processes, count),
    }
    print(json.dumps(seen))  # noqa: T201 - to who started it
