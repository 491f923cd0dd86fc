"""`hybrid` fuses what words and what vectors find, by rank."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakestore.catalog.vectors import VectorDatabase
from lakestore.errors import InputError
from lakestore.search.embedding import Embedder, embed
from lakestore.search.filters import filter_of
from lakestore.search.hybrid import Hybrid, K
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow
from lakestore.tables.memory import vector as pack
from tests.support.searching import found, index_of, rows_of_texts
from tests.support.sentence_models import SentenceModel, model_folders

MEANINGS = {"car": (1.0, 0.0), "automobile": (0.9, 0.1), "banana": (0.0, 1.0)}


def by_meaning(texts: Sequence[str]) -> list[tuple[float, float]]:
    """Return the vector of the first word that has one, else one that is near to nothing."""
    return [
        next((MEANINGS[word] for word in text.split() if word in MEANINGS), (-1.0, -1.0))
        for text in texts
    ]


def rows(*texts: str) -> list[MemoryRow]:
    """Return rows with their vectors."""
    return [
        replace(row, embedding=pack(vector))
        for row, vector in zip(rows_of_texts(*texts), by_meaning(texts), strict=True)
    ]


@pytest.fixture
def database() -> Iterator[VectorDatabase]:
    """A database for vectors."""
    made = VectorDatabase()
    yield made
    made.close()


@pytest.fixture
def ranking(database: VectorDatabase) -> Hybrid:
    """The ranking with vectors of three words."""
    return Hybrid(by_meaning, database.table)


def test_words_and_meaning_are_fused_by_rank(ranking: Hybrid) -> None:
    """A score is the sum of 1 / (60 + rank) over both lists; who is in one alone counts less."""
    index = index_of(ranking, rows("car wash", "automobile show", "banana split", "wash day"))
    hits = ranking.rank([index], "car wash")

    scores = {hit.key[1]: hit.score for hit in hits}
    assert scores["e1"] == pytest.approx(2 / (K + 1))
    assert scores["e2"] == pytest.approx(1 / (K + 2))
    assert scores["e4"] == pytest.approx(1 / (K + 2) + 1 / (K + 4))
    assert [hit.key[1] for hit in hits] == ["e1", "e4", "e2", "e3"]


def test_memories_without_a_vector_are_found_by_words(ranking: Hybrid) -> None:
    """No vector, one of zeros, or one of another model's length is no reason not to be found."""
    made = rows("car", "wash", "wash", "wash")
    made[1] = replace(made[1], embedding=None)
    made[2] = replace(made[2], embedding=pack((1.0, 0.0, 0.0)))
    made[3] = replace(made[3], embedding=pack((0.0, 0.0)))
    index = index_of(ranking, made)

    assert {"e2", "e3", "e4"} < set(found(ranking, index, "wash"))
    assert found(ranking, index, "automobile") == ["e1"]


def test_filters_come_before_the_cut(ranking: Hybrid) -> None:
    """However many are nearer, what a filter lets through is found."""
    near = rows(*["car"] * 300)
    far = replace(rows("banana car")[0], id="far", session_id="t", stamp="9")
    index = index_of(ranking, [*near, far])
    hits = ranking.rank([index], "car", 5, filter_of(session_ids=["t"]))
    assert [hit.key for hit in hits] == [("t", "far")]


def test_an_empty_query_asks_no_model(database: VectorDatabase) -> None:
    """Nothing is found for nothing, and nobody is paid for it."""

    def refuse(_texts: Sequence[str]) -> list[list[float]]:
        raise AssertionError("asked")

    ranking = Hybrid(refuse, database.table)
    index = index_of(ranking, rows("car"))
    assert ranking.rank([index], " \n") == []
    with pytest.raises(AssertionError, match="asked"):
        ranking.rank([index], "car")
    assert ranking.rank([index], "") == []


@pytest.mark.parametrize(
    "embedder",
    [
        lambda texts: [[1.0, 2.0] for _ in texts],
        lambda texts: ((n for n in (1, 2)) for _ in texts),
        lambda texts: np.tile(np.array([1, 2], np.float16), (len(texts), 1)),
        lambda texts: [array("d", [1, 2]) for _ in texts],
        lambda texts: [np.array([1.0, 2.0]) for _ in texts],
    ],
)
def test_any_library_fits(embedder: Embedder) -> None:
    """Lists, generators and arrays of any kind are vectors."""
    assert list(map(list, embed(embedder, ["a", "b"]))) == [[1.0, 2.0]] * 2
    assert embed(embedder, []) == []


@pytest.mark.parametrize(
    "answer",
    [
        *([[1.0]], [[1.0], [1.0, 2.0]], [[], []], [[float("nan")]] * 2, [[1e39]] * 2),
        *([["x"]] * 2, None, 1.0, [1.0, 2.0], ["ab", "cd"], [None, None]),
    ],
)
def test_an_embedder_that_returns_no_vectors_is_refused(answer: Any) -> None:
    """What could not be stored or compared is an InputError that says so."""
    with pytest.raises(InputError, match="embedder returns"):
        embed(lambda _texts: answer, ["a", "b"])


def test_a_table_goes_with_its_index(ranking: Hybrid, database: VectorDatabase) -> None:
    """An index that nobody holds takes no memory in the database."""
    count: Callable[[], int] = lambda: len(  # noqa: E731 - asked twice
        database._connection.execute("select table_name from duckdb_tables()").fetchall()
    )
    index = ranking.index()
    index.add(memory.to_table(rows("car")))
    assert count() == 1
    del index
    assert count() == 0


@pytest.mark.skipif(not model_folders(), reason="the files of no model are installed")
@pytest.mark.parametrize("folder", model_folders().values(), ids=list(model_folders()))
def test_a_small_model_works_offline(database: VectorDatabase, folder: Path) -> None:
    """A model such as all-MiniLM-L6-v2 finds by meaning what shares no word with the query."""
    model = SentenceModel(folder)
    ranking = Hybrid(model.encode, database.table)
    texts = ["My dog loves long walks", "The invoice was paid in May", "Paris is in France"]
    vectors = map(pack, embed(model.encode, texts))
    made = [replace(r, embedding=v) for r, v in zip(rows_of_texts(*texts), vectors, strict=True)]
    index = index_of(ranking, made)

    assert found(ranking, index, "pets")[0] == "e1"
    assert found(ranking, index, "a bill that was settled")[0] == "e2"
