"""What is found of what was meant: recall@10 on LoCoMo, ADK's services in the same run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from lakestore.catalog.vectors import VectorDatabase
from lakestore.search.bm25 import Bm25
from lakestore.search.embedding import embed
from lakestore.search.hybrid import Hybrid
from lakestore.search.index import Ranking
from lakestore.search.overlap import Overlap
from lakestore.tables.memory import MemoryRow, vector
from tests.benchmarks.measuring import Figures, Scale
from tests.support.locomo import Conversation, conversations, mean, recall
from tests.support.memories import rows_of
from tests.support.real_histories import data_folder
from tests.support.searching import found, index_of
from tests.support.sentence_models import SentenceModel, model_folders

APP, USER = "a", "u"
LEAST = {"bm25": 0.60, "hybrid": 0.66}

Finds = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def talks(scale: Scale) -> list[Conversation]:
    """The conversations; of one the first questions, unless it is to be measured."""
    folder = data_folder()
    if folder is None:
        pytest.skip("LoCoMo is not at hand")
    all_of_them = conversations(folder)
    if scale.name == "full":
        return all_of_them
    return [replace(all_of_them[0], questions=all_of_them[0].questions[:20])]


def ours(ranking: Ranking, rows: list[MemoryRow]) -> Finds:
    """Return what a ranking finds among `rows`."""
    index = index_of(ranking, rows)
    return lambda query: found(ranking, index, query)


async def fill(service: BaseMemoryService, talk: Conversation) -> BaseMemoryService:
    """Add all sessions."""
    for session_id, events in talk.sessions.items():
        await service.add_events_to_memory(
            app_name=APP, user_id=USER, events=events, session_id=session_id
        )
    return service


def event_id(service: BaseMemoryService, memory: object) -> str:
    """Return the id of the event that a memory is of."""
    if isinstance(service, SqliteMemoryService):
        return str(json.loads(json.dumps(memory.custom_metadata))["event_id"])  # type: ignore[attr-defined]
    return str(memory.id)  # type: ignore[attr-defined]


def verdict(name: str, score: float) -> str:
    """Return the target and whether it was reached, nothing where there is none."""
    least = LEAST.get(name.partition(",")[0])
    if least is None:
        return "| "
    return f"{least} | {'met' if score >= least else 'missed'}"


async def test_recall(
    arena: Path, scale: Scale, figures: Figures, talks: list[Conversation]
) -> None:
    """`overlap` is InMemoryMemoryService, result by result; `bm25` and `hybrid` find far more."""
    folders = model_folders() if scale.name == "full" else {}
    models = {name: SentenceModel(folder) for name, folder in folders.items()}
    database = VectorDatabase()
    recalls: defaultdict[str, list[float]] = defaultdict(list)
    for number, talk in enumerate(talks):
        rows = rows_of((name, event) for name, told in talk.sessions.items() for event in told)
        finders = {"overlap": ours(Overlap(), rows), "bm25": ours(Bm25(), rows)}
        for name, model in models.items():
            encoded = map(vector, embed(model.encode, [row.text or "" for row in rows]))
            rows = [replace(row, embedding=one) for row, one in zip(rows, encoded, strict=True)]
            finders[f"hybrid, {name}"] = ours(Hybrid(model.encode, database.table), rows)
        adk = await fill(InMemoryMemoryService(), talk)
        fts5 = await fill(SqliteMemoryService(arena / f"locomo-{number}.db", max_results=10), talk)
        for question in talk.questions:
            results = {name: finds(question.text) for name, finds in finders.items()}
            for service in (adk, fts5):
                response = await service.search_memory(
                    app_name=APP, user_id=USER, query=question.text
                )
                ids = [event_id(service, one) for one in response.memories]
                results[type(service).__name__] = ids
            assert results["overlap"] == results["InMemoryMemoryService"]
            for name, result in results.items():
                recalls[name].append(recall(question, result))
        await fts5.close()  # type: ignore[attr-defined] # SqliteMemoryService's alone
    database.close()

    scores = {name: mean(values) for name, values in recalls.items()}
    asked = len(recalls["overlap"])
    figures.tables.append(
        "\n".join(
            [
                f"| LoCoMo, {asked:,} questions | recall@10 | target | |",
                "|---|---|---|---|",
                *(
                    f"| {name} | {score:.3f} | {verdict(name, score)} |"
                    for name, score in scores.items()
                ),
            ]
        )
    )
    assert scores["bm25"] > scores["overlap"]
