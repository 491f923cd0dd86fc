"""Search over the memories of one user, warm: our rankings, and ADK's services in the same run."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from lakestore.catalog.vectors import VectorDatabase
from lakestore.search.bm25 import Bm25
from lakestore.search.hybrid import Hybrid
from lakestore.search.index import Ranking
from lakestore.search.overlap import Overlap
from lakestore.tables import memory
from tests.benchmarks.measuring import Figures, Scale, Stopwatch
from tests.support.memories import rows_of
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


def table_of(told: Said) -> pa.Table:
    """Return a row a memory."""
    table = memory.to_table(rows_of(told))
    flat = pa.array(vectors(table["text"].to_pylist()).ravel())
    lists = pa.ListArray.from_arrays(pa.array(range(0, len(flat) + 1, SIZE), pa.int32()), flat)
    return table.set_column(table.column_names.index("embedding"), "embedding", lists)


def measured(
    ranking: Ranking, told: Said, first: int, queries: Sequence[str]
) -> tuple[Measured, list[str]]:
    """Return what a ranking takes, and the ids that it finds at the end.

    Args:
        ranking: Ours.
        told: What is added; the `first` at once, the others one by one.
        first: How many.
        queries: Each is asked for a few times.
    """
    table, index = table_of(told), ranking.index()
    with Stopwatch() as at_once:
        index.add(table.slice(0, first))
    with Stopwatch() as one_by_one:
        for number in range(first, len(told)):
            index.add(table.slice(number, 1))
    searches = []
    for query in list(queries) * ROUNDS:
        with Stopwatch() as search:
            ranking.rank([index], query)
        searches.append(search.seconds)
    found = [hit.key[1] for query in queries for hit in ranking.rank([index], query)]
    return Measured(
        searches, at_once.seconds / first, one_by_one.seconds / (len(told) - first)
    ), found


async def measured_adk(
    service: BaseMemoryService, told: Said, first: int, queries: Sequence[str]
) -> tuple[Measured, list[str | None]]:
    """Return what a service of ADK takes, and the ids that it finds; see `measured`."""
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
    searches, found = [], []
    for query in queries:
        started = time.perf_counter()
        response = await service.search_memory(app_name=APP, user_id=USER, query=query)
        searches.append(time.perf_counter() - started)
        found += [one.id for one in response.memories]
    return Measured(
        searches, at_once.seconds / first, one_by_one.seconds / (len(told) - first)
    ), found


@asynccontextmanager
async def sqlite(arena: Path) -> AsyncIterator[SqliteMemoryService]:
    """Yield ADK's service on a file, with the ten results of the others."""
    service = SqliteMemoryService(arena / "memory.db", fts="on", max_results=10)
    yield service
    await service.close()


async def test_search(arena: Path, scale: Scale, figures: Figures) -> None:
    """`overlap` finds what InMemoryMemoryService finds; in full, fifty times as fast."""
    first = scale.memories
    texts = sentences(first + min(200, first // 10), 16, 1)
    told = [(f"s{n // 50}", said(f"e{n}", text)) for n, text in enumerate(texts)]
    queries = sentences(QUERIES, 6, 2)

    database = VectorDatabase()
    adk, wanted = await measured_adk(InMemoryMemoryService(), told, first, queries)
    overlap, found = measured(Overlap(), told, first, queries)
    bm25, _ = measured(Bm25(), told, first, queries)
    hybrid, _ = measured(Hybrid(vectors, database.table), told, first, queries)
    async with sqlite(arena) as service:
        fts5, _ = await measured_adk(service, told, first, queries)
    database.close()

    assert found == wanted
    ratio = float(np.median(adk.searches) / np.median(overlap.searches))
    rows = {
        "`overlap`": overlap,
        "`bm25`": bm25,
        f"`hybrid`, {SIZE} floats": hybrid,
        "InMemoryMemoryService": adk,
        "SqliteMemoryService (FTS5)": fts5,
    }
    figures.tables.append(
        "\n".join(
            [
                f"| search over {scale.memories:,} memories, warm | p50 | p99"
                " | added at once, a second | one by one |",
                "|---|---|---|---|---|",
                *(one.row(name) for name, one in rows.items()),
                "",
                f"`overlap` is {ratio:,.0f}x as fast as InMemoryMemoryService (target: 50x);"
                " ours are the rankings alone, no store is asked.",
            ]
        )
    )
    if scale.name == "full":
        assert ratio >= 50
