"""Memory made anew from history, beside reading and adding each session; and a lake without any."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from lakestore import Lake, LakeMemoryService, LakeSessionService
from lakestore.jobs import rebuild_memory
from tests.benchmarks.archive import user, write_archive
from tests.benchmarks.histories import APP
from tests.benchmarks.large import SESSION
from tests.benchmarks.measuring import OURS, Figures, Scale, Stopwatch, take_turns

Services = tuple[BaseSessionService, BaseMemoryService]

ONE_BY_ONE = "lakestore, session by session"
ADK = "SqliteSessionService to InMemoryMemoryService"
_EVENTS = 50
_TARGET = 5.0


@pytest.fixture(scope="module")
def history(arena: Path, scale: Scale) -> Path:
    """Return a folder with a packed lake of some users, and a file of ADK's with the same."""
    folder = arena / "history"
    folder.mkdir()
    write_archive(folder / "lake", scale.remembered, _EVENTS, folder / "sqlite.db")
    return folder


async def test_rebuild(history: Path, arena: Path, scale: Scale, figures: Figures) -> None:
    """All of an app's memory is made in one scan of the history, not by a read for each session."""
    users = [user(number) for number in range(scale.remembered)]
    queries = [(name, "order") for name in users[:: max(1, len(users) // 8)]]
    answers: dict[str, list[list[str | None]]] = {}

    async def ours(number: int) -> float:
        with Lake.open(_copy(history, arena, f"rebuilt-{number}")) as lake:
            with Stopwatch() as watch:
                report = rebuild_memory(lake, APP)
            assert report.events == scale.remembered * _EVENTS
            answers[OURS] = await _found(LakeMemoryService(lake), queries)
        return watch.seconds

    def adding(
        name: str,
        opened: Callable[[int], AsyncIterator[tuple[BaseSessionService, BaseMemoryService]]],
    ) -> Callable[[int], Awaitable[float]]:
        async def work(number: int) -> float:
            async with asynccontextmanager(opened)(number) as (sessions, memories):
                with Stopwatch() as watch:
                    for each in users:
                        session = await sessions.get_session(
                            app_name=APP, user_id=each, session_id=SESSION
                        )
                        assert session is not None
                        await memories.add_session_to_memory(session)
                answers[name] = await _found(memories, queries)
            return watch.seconds

        return work

    async def in_the_lake(number: int) -> AsyncIterator[Services]:
        with Lake.open(_copy(history, arena, f"added-{number}")) as lake:
            yield LakeSessionService(lake), LakeMemoryService(lake)

    async def in_adk(_: int) -> AsyncIterator[Services]:
        yield SqliteSessionService(str(history / "sqlite.db")), InMemoryMemoryService()

    work = {OURS: ours, ONE_BY_ONE: adding(ONE_BY_ONE, in_the_lake), ADK: adding(ADK, in_adk)}
    samples = await take_turns(scale.session_rounds, work)
    assert answers[OURS] == answers[ONE_BY_ONE] == answers[ADK]
    medians = {name: statistics.median(times) for name, times in samples.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times, samples[OURS], strict=True))
        for name, times in samples.items()
    }
    rows = [f"| {name} | {medians[name]:.2f} s | {ratios[name]:.1f}x |" for name in samples]
    verdict = "met" if ratios[ONE_BY_ONE] >= _TARGET else "missed"
    figures.tables.append(
        f"Memory of {scale.remembered:,} packed sessions of {_EVENTS} events made anew"
        f" (`rebuild_memory` at least {_TARGET:g}x as fast as session by session: {verdict}):\n\n"
        "| | time | of `rebuild_memory` |\n|---|---|---|\n" + "\n".join(rows)
    )


def _copy(history: Path, arena: Path, name: str) -> Path:
    return Path(shutil.copytree(history / "lake", arena / name))


async def _found(
    memories: BaseMemoryService, queries: list[tuple[str, str]]
) -> list[list[str | None]]:
    """Return the ids of what each query finds."""
    found = []
    for user_id, query in queries:
        answer = await memories.search_memory(app_name=APP, user_id=user_id, query=query)
        found.append([one.id for one in answer.memories])
    return found
