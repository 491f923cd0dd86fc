"""Rankings by the names that services and `lake.search` take. Owns no way to rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from lakestore.checks import check_choice
from lakestore.errors import InputError
from lakestore.search.bm25 import Bm25
from lakestore.search.embedding import Embedder, check_embedder
from lakestore.search.hybrid import Hybrid
from lakestore.search.index import Ranking
from lakestore.search.overlap import Overlap

RankingName = Literal["overlap", "bm25", "hybrid"]


def ranking_of(
    name: object, embedder: Embedder | None = None, language: str | None = "english"
) -> Callable[[], Ranking]:
    """Return what makes the ranking of that name, anew in each process.

    Raises:
        InputError: there is none of that name, the language is not known, or `hybrid` has no
            embedder.
    """
    check_choice("ranking", name, get_args(RankingName))
    check_embedder(embedder)
    Bm25(language)  # refuses a language that is not known
    if name == "overlap":
        return Overlap
    if name == "bm25":
        return lambda: Bm25(language)
    if embedder is None:
        raise InputError('ranking="hybrid" needs an embedder: a function from texts to vectors')

    def hybrid() -> Ranking:
        from lakestore.catalog.vectors import VectorDatabase

        return Hybrid(embedder, VectorDatabase().table, language)

    return hybrid
