"""`bm25`: words that few memories have count more, and in short ones more than in long ones."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from typing_extensions import override

from lakestore.search.analysis import Analyzer
from lakestore.search.filters import EVERYTHING, Filter
from lakestore.search.index import Hit, Index, Ranking, Scores, hits_of, locked
from lakestore.search.postings import Numbers, Postings, encoded

K1 = 1.2
B = 0.75
"""The two parameters as textbooks and Lucene have them."""


class Bm25Index(Index):
    """Rows by term, with how often each has it, and the length of each row in terms."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self._analyzer = analyzer
        self._terms = Postings(counted=True)
        self._lengths = array("i")

    @property
    @override
    def nbytes(self) -> int:
        return self.rows.nbytes + self._terms.nbytes + 4 * len(self._lengths)

    @property
    def lengths(self) -> Numbers:
        """How many terms each row has, without stop words."""
        return np.array(self._lengths, np.int32)

    def rows_with(self, term: str) -> int:
        """Return how many rows that are there have `term`."""
        return int(np.count_nonzero(self.rows.live[self._terms.rows(term)]))

    def scores(self, weights: dict[str, float], mean: float, where: Filter) -> Scores:
        """Return the score of each row, 0 for those that `where` leaves out.

        Args:
            weights: Of each term of the query.
            mean: The length of a row, on average over all that are searched.
            where: Which rows count.
        """
        scores = np.zeros(len(self.rows.keys))
        norms = K1 * (1 - B + B * self.lengths / (mean or 1))
        for term, weight in weights.items():
            rows, counts = self._terms.rows(term), self._terms.counts(term)
            scores[rows] += weight * (K1 + 1) * counts / (counts + norms[rows])
        return scores * self.rows.allowed(where)

    @override
    def _add(self, batch: pa.RecordBatch, first: int) -> None:
        words: list[str] = []
        sizes = []
        for text in batch.column("text").to_pylist():
            terms = self._analyzer.terms(text or "")
            words += terms.all
            sizes.append(len(terms.all))
            self._lengths.append(len(terms.telling))
        names, codes = encoded(pa.array(words, pa.string()))
        rows = np.repeat(np.arange(len(sizes)), sizes)
        # A pair of term and row as one number: pairs sort by row, and their doubles are counted.
        pairs, counts = np.unique(rows * max(1, len(names)) + codes, return_counts=True)
        self._terms.add(
            names, pairs % max(1, len(names)), pairs // max(1, len(names)) + first, counts
        )

    @override
    def _renumber(self, numbers: Numbers) -> None:
        self._terms.renumber(numbers)
        self._lengths = array("i", self.lengths[numbers >= 0].tobytes())


class Bm25(Ranking):
    """The ranking `bm25`, in one language; what is rare is judged over all indexes together."""

    def __init__(self, language: str | None = "english") -> None:
        """Make one; see `Analyzer`.

        Raises:
            InputError: the language is not known.
        """
        self._analyzer = Analyzer(language)

    @override
    def index(self) -> Bm25Index:
        return Bm25Index(self._analyzer)

    @override
    def rank(
        self, indexes: Sequence[Index], query: str, limit: int = 10, where: Filter = EVERYTHING
    ) -> list[Hit]:
        with locked(indexes):
            return hits_of(indexes, self.scores(indexes, query, where), limit)

    def scores(self, indexes: Sequence[Index], query: str, where: Filter) -> list[Scores]:
        """Return the scores of the rows of each index, whose locks are held."""
        terms = self._analyzer.query(query)
        found = [cast(Bm25Index, index) for index in indexes]
        rows = sum(len(index) for index in found)
        total = sum(int(index.lengths[index.rows.live].sum()) for index in found)
        having = {term: sum(index.rows_with(term) for index in found) for term in terms}
        weights = {
            term: math.log(1 + (rows - count + 0.5) / (count + 0.5))
            for term, count in having.items()
        }
        return [index.scores(weights, total / max(1, rows), where) for index in found]
