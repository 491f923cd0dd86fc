"""`hybrid`: what `bm25` and vectors find, fused by rank. Owns no way to compare vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
from typing_extensions import override

from lakestore.search.analysis import Analyzer
from lakestore.search.bm25 import Bm25, Bm25Index
from lakestore.search.embedding import Embedder, embed
from lakestore.search.filters import EVERYTHING, Filter
from lakestore.search.index import Hit, Index, Scores, best, hits_of, locked
from lakestore.search.postings import Numbers
from lakestore.search.rows import Mask

DEPTH = 10
"""How many of each list are fused, or as many as are asked for if that is more: what a search by
either alone returns, as search engines do by default. From longer lists, what stands low in both
comes before what is the best in one."""
K = 60
"""What is added to a rank before it is turned over, as in the paper on reciprocal rank fusion."""


class Vectors(Protocol):
    """Where vectors are kept and compared; `lakestore.catalog.vectors` has one."""

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""

    def add(self, first: int, embeddings: pa.Array) -> None:
        """Keep vectors, lists of 32-bit floats or null, of rows from number `first` on."""

    def cosines(self, vector: Sequence[float], rows: Mask) -> Scores:
        """Return for each row its cosine plus 1; 0 for others than `rows`, and without one."""

    def renumber(self, numbers: Numbers) -> None:
        """Give rows their new numbers, and drop those that have -1 there."""


class HybridIndex(Bm25Index):
    """An index of `bm25`, with the vectors of its rows."""

    def __init__(self, analyzer: Analyzer, vectors: Vectors) -> None:
        super().__init__(analyzer)
        self.vectors = vectors

    @property
    @override
    def nbytes(self) -> int:
        return super().nbytes + self.vectors.nbytes

    @override
    def _add(self, batch: pa.RecordBatch, first: int) -> None:
        super()._add(batch, first)
        self.vectors.add(first, batch.column("embedding"))

    @override
    def _renumber(self, numbers: Numbers) -> None:
        super()._renumber(numbers)
        self.vectors.renumber(numbers)


class Hybrid(Bm25):
    """The ranking `hybrid`; memories that have no vector are found by their words alone."""

    def __init__(
        self,
        embedder: Embedder,
        new_vectors: Callable[[], Vectors],
        language: str | None = "english",
    ) -> None:
        """Make one.

        Args:
            embedder: What the vectors of the memories were made with.
            new_vectors: Gives each index a place for its vectors.
            language: See `Analyzer`.

        Raises:
            InputError: the language is not known.
        """
        super().__init__(language)
        self._embedder = embedder
        self._new_vectors = new_vectors

    @override
    def index(self) -> HybridIndex:
        return HybridIndex(self._analyzer, self._new_vectors())

    @override
    def rank(
        self, indexes: Sequence[Index], query: str, limit: int = 10, where: Filter = EVERYTHING
    ) -> list[Hit]:
        if not query.strip():
            return []
        # Outside of the locks: a model may be far away.
        (vector,) = embed(self._embedder, [query])
        depth = max(DEPTH, limit)
        with locked(indexes):
            by_words = self.scores(indexes, query, where)
            by_meaning = [
                cast(HybridIndex, index).vectors.cosines(vector, index.rows.allowed(where))
                for index in indexes
            ]
            fused = [np.zeros(len(scores)) for scores in by_words]
            for scores in (by_words, by_meaning):
                for rank, (scope, row) in enumerate(best(indexes, scores, depth), 1):
                    fused[scope][row] += 1 / (K + rank)
            return hits_of(indexes, fused, limit)
