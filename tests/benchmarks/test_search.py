"""Search over the memories of one user: our service and ADK's in the same run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from lakestore import Lake, LakeMemoryService
from lakestore.jobs import compact, sweep
from lakestore.retrieval.rankings import RankingName
from tests.benchmarks.measuring import Figures, Scale, Stopwatch
from tests.support.searching import said

APP, USER = "a", "u"
SIZE = 384
"""Of a vector."""
QUERIES = 20
ROUNDS = 10

Said = Sequence[tuple[str, Event]]
"""Events, each with its session."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one contender takes."""

    searches: list[float]
    """Seconds of each."""
    at_once: float
    """Seconds a memory, of many that are added together."""
    one_by_one: float
    """Seconds a memory, of those that are added to the others each in a call."""

    def row(self, name: str) -> str:
        """Return a row of the table."""
        p50, p99 = np.percentile(self.searches, [50, 99])
        rates = f"{1 / self.at_once:,.0f} | {1 / self.one_by_one:,.0f}"
        return f"| {name} | {p50 * 1e3:.2f} ms | {p99 * 1e3:.2f} ms | {rates} |"


def sentences(count: int, words: int, seed: int) -> list[str]:
    """Return texts whose words are as unevenly used as those of a language."""
    drawn = np.minimum(np.random.default_rng(seed).zipf(1.2, (count, words)), 50_000)
    return [" ".join(f"w{word}" for word in row) for row in drawn.tolist()]


def vectors(texts: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return vectors that mean nothing, and take as long to compare as others."""
    return np.random.default_rng(len(texts)).standard_normal((len(texts), SIZE), np.float32)


async def measured(
    service: BaseMemoryService,
    told: Said,
    first: int,
    queries: Sequence[str],
    rounds: int = 1,
    settle: Callable[[], object] = lambda: None,
) -> tuple[Measured, list[str | None]]:
    """Return what a service takes, and the ids that it finds.

    Args:
        service: The service.
        told: What is added; the `first` session by session, the others one by one.
        first: How many.
        queries: What is searched.
        rounds: How often each of them.
        settle: Is called between adding and searching.
    """
    by_session: dict[str, list[Event]] = {}
    for session_id, event in told[:first]:
        by_session.setdefault(session_id, []).append(event)
    with Stopwatch() as at_once:
        for session_id, events in by_session.items():
            await service.add_events_to_memory(
                app_name=APP, user_id=USER, session_id=session_id, events=events
            )
    with Stopwatch() as one_by_one:
        for session_id, event in told[first:]:
            await service.add_events_to_memory(
                app_name=APP, user_id=USER, events=[event], session_id=session_id
            )
    settle()
    searches, found = [], []
    await service.search_memory(app_name=APP, user_id=USER, query="what makes it warm")
    for number in range(rounds):
        for query in queries:
            with Stopwatch() as search:
                response = await service.search_memory(app_name=APP, user_id=USER, query=query)
            searches.append(search.seconds)
            found += [one.id for one in response.memories if not number]
    return Measured(
        searches, at_once.seconds / first, one_by_one.seconds / (len(told) - first)
    ), found


@asynccontextmanager
async def sqlite(arena: Path) -> AsyncIterator[SqliteMemoryService]:
    """Yield ADK's service on a file, with the ten results of the others."""
    service = SqliteMemoryService(arena / "memory.db", fts="on", max_results=10)
    yield service
    await service.close()


async def measured_lake(
    folder: Path, ranking: RankingName, told: Said, first: int, queries: Sequence[str]
) -> tuple[Measured, list[str | None], float]:
    """Return what ours takes on a folder, all of it packed, and what a first search does."""

    def settle() -> None:
        compact(lake)
        sweep(lake, grace=0)

    how: dict[str, Any] = {"ranking": ranking}
    if ranking == "hybrid":
        how["embedder"] = vectors
    with Lake.open(folder) as lake:
        service = LakeMemoryService(lake, **how)
        warm, found = await measured(service, told, first, queries, ROUNDS, settle)
    with Lake.open(folder, read_only=True) as lake, Stopwatch() as cold:
        asked: dict[str, Any] = {"app_name": APP, "user_id": USER, "query": queries[0]}
        await LakeMemoryService(lake, **how).search_memory(**asked)
    return warm, found, cold.seconds


async def test_search(arena: Path, scale: Scale, figures: Figures) -> None:
    """`overlap` finds what InMemoryMemoryService finds; in full, fifty times as fast."""
    first = scale.memories
    texts = sentences(first + min(200, first // 10), 16, 1)
    told = [(f"s{n // 50}", said(f"e{n}", text)) for n, text in enumerate(texts)]
    queries = sentences(QUERIES, 6, 2)

    adk, wanted = await measured(InMemoryMemoryService(), told, first, queries)
    ours = {
        name: await measured_lake(arena / f"memory-{name}", name, told, first, queries)
        for name in get_args(RankingName)
    }
    async with sqlite(arena) as service:
        fts5, _ = await measured(service, told, first, queries)

    assert ours["overlap"][1] == wanted
    ratio = float(np.median(adk.searches) / np.median(ours["overlap"][0].searches))
    rows = {
        **{
            f"`{name}`{f', {SIZE} floats' if name == 'hybrid' else ''}": warm
            for name, (warm, _, _) in ours.items()
        },
        "InMemoryMemoryService": adk,
        "SqliteMemoryService (FTS5)": fts5,
    }
    cold = ", ".join(f"`{name}` {seconds:.2f} s" for name, (_, _, seconds) in ours.items())
    figures.tables.append(
        "\n".join(
            [
                f"| search over {scale.memories:,} memories, warm | p50 | p99"
                " | added by sessions of 50, a second | one by one |",
                "|---|---|---|---|---|",
                *(one.row(name) for name, one in rows.items()),
                "",
                f"`overlap` is {ratio:,.0f}x as fast as InMemoryMemoryService (target: 50x)."
                f" Ours are LakeMemoryService on a folder, compacted; first search: {cold}.",
            ]
        )
    )
    if scale.name == "full":
        assert ratio >= 50
