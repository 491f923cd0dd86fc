"""Memory with many threads and processes at once: nothing is lost, doubled or brought back."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from lakestore import Lake, LakeMemoryService
from lakestore.jobs import compact
from tests.contracts.building import ANA
from tests.contracts.memory_building import event, fact, found, session

WORKERS, EACH = 4, 6
EVENTS = [event(f"e{number}", f"tea {number}") for number in range(8)]


def test_all_that_many_add_is_there_once(tmp_path: Path) -> None:
    """Two services, whose threads add one session and facts of their own, and search, at once."""
    lakes = [Lake.open(tmp_path / "lake") for _ in range(2)]
    services = [LakeMemoryService(lake).sync for lake in lakes]
    barrier = Barrier(2 * WORKERS)

    def work(worker: int) -> None:
        service = services[worker % 2]
        barrier.wait(60)
        service.add_session_to_memory(session(*EVENTS))
        for number in range(EACH):
            service.add_memory(**ANA, memories=[fact("coffee", f"{worker}-{number}")])
            mine = service.search_memory(**ANA, query="coffee", limit=100).memories
            ids = [memory.id for memory in mine]
            assert {f"{worker}-{each}" for each in range(number + 1)} <= set(ids)
            assert len(set(ids)) == len(ids)
        if not worker:
            compact(service.lake)
        service.delete_memory(**ANA, memory_id=f"{worker}-0")
        service.add_memory(**ANA, memories=[fact("coffee", f"{worker}-0")])

    with ThreadPoolExecutor(2 * WORKERS) as workers:
        assert [*workers.map(work, range(2 * WORKERS))] == [None] * 2 * WORKERS
    expected = {f"{w}-{number}" for w in range(2 * WORKERS) for number in range(1, EACH)}
    with Lake.open(tmp_path / "lake", read_only=True) as lake:
        for service in (*services, LakeMemoryService(lake).sync):
            tea = service.search_memory(**ANA, query="tea", limit=100).memories
            assert [memory.id for memory in tea] == [each.id for each in EVENTS]
            coffee = service.search_memory(**ANA, query="coffee", limit=100).memories
            assert {memory.id for memory in coffee} == expected
            assert len(coffee) == len(expected)
    for lake in lakes:
        lake.close()


async def test_tasks_of_a_loop_at_once() -> None:
    """Many awaits at once on one service are each answered by what was acknowledged before."""
    with Lake.open("memory://tasks-at-once") as lake:
        service = LakeMemoryService(lake)

        async def work(number: int) -> None:
            await service.add_memory(**ANA, memories=[fact("tea", f"f{number}")])
            assert f"f{number}" in await found(service, "tea", limit=100)

        await asyncio.gather(*(work(number) for number in range(20)))
        assert len(await found(service, "tea", limit=100)) == 20
