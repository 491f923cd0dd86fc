"""Processes that append at once, each to a session of its own.

`python -m tests.requests.writers URL PROCESSES EVENTS [OPTIONS]` prints what each requested and how
long its appends took: of one process alone, of all with a user each, and of all with one user. A
program of its own, since it forks: nothing else may run in it.
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

Place = tuple[str, dict[str, Any] | None]
"""URL and storage options of a lake."""

_PATIENCE_SECONDS = 60


async def _append(place: Place, user: str, count: int, start: Barrier) -> Seen:
    seconds = []
    with Lake.open(place[0], storage_options=place[1]) as lake:
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


def _write(place: Place, user: str, count: int, start: Barrier, results: SimpleQueue[Seen]) -> None:
    results.put(asyncio.run(_append(place, user, count, start)))


def write(place: Place, processes: int, count: int, *, users: int = 1) -> list[Seen]:
    """Let `processes` processes append `count` events each; return what each has seen.

    Args:
        place: The lake.
        processes: How many.
        count: Events of each, one by one.
        users: How many users the processes' sessions belong to.
    """
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(processes, timeout=_PATIENCE_SECONDS), context.SimpleQueue()
    writers = [
        context.Process(target=_write, args=(place, f"user{n % users}", count, start, results))
        for n in range(processes)
    ]
    for writer in writers:
        writer.start()
    found: list[Seen] = [results.get() for _ in writers]
    for writer in writers:
        writer.join()
    return found


if __name__ == "__main__":
    processes, count = int(sys.argv[2]), int(sys.argv[3])
    place = (sys.argv[1], json.loads(sys.argv[4]) if len(sys.argv) > 4 else None)
    seen = {
        "alone": write(place, 1, count),
        "apart": write(place, processes, count, users=processes),
        "together": write(place, processes, count),
    }
    print(json.dumps(seen))  # noqa: T201 - to who started it
