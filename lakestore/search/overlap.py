"""`overlap`: how many words of the query a memory has, as ADK's InMemoryMemoryService counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from typing_extensions import override

from lakestore.search.filters import EVERYTHING, Filter
from lakestore.search.index import Hit, Index, Ranking, Scores, hits_of, locked
from lakestore.search.postings import Numbers, Postings, encoded, parents
from lakestore.tables.words import folded, query_words


class OverlapIndex(Index):
    """Rows by word, and by letter where a query may match a part of a word.

    A word of the query that is not plain ASCII matches anywhere in a text, as in ADK: Chinese and
    Japanese put no blanks between words.
    """

    def __init__(self) -> None:
        super().__init__()
        self._words = Postings()
        self._letters = Postings()
        self._texts: dict[int, str] = {}
        self._texts_nbytes = 0

    @property
    @override
    def nbytes(self) -> int:
        return self.rows.nbytes + self._words.nbytes + self._letters.nbytes + self._texts_nbytes

    def scores(self, words: Sequence[str], where: Filter) -> Scores:
        """Return for each row how many of `words` it has, 0 for those that `where` leaves out."""
        scores = np.zeros(len(self.rows.keys))
        for word in words:
            having = np.zeros(len(scores), np.bool_)
            having[self._words.rows(word)] = True
            if not word.isascii():
                having[self._containing(word)] = True
            scores += having
        return scores * self.rows.allowed(where)

    def _containing(self, word: str) -> list[int]:
        """Return the rows whose text has `word` in it, which is not ASCII."""
        letters = {letter for letter in word if not letter.isascii()}
        rarest = min((self._letters.rows(letter) for letter in letters), key=len)
        return [row for row in rarest.tolist() if word in self._texts[row]]

    @override
    def _add(self, batch: pa.RecordBatch, first: int) -> None:
        words = batch.column("words")
        terms, codes = encoded(words.flatten())
        self._words.add(terms, codes, parents(words) + first)
        self._add_letters(batch.column("text"), first)

    def _add_letters(self, texts: pa.StringArray, first: int) -> None:
        rows_of: defaultdict[str, list[int]] = defaultdict(list)
        for row, text in enumerate(texts.to_pylist(), first):
            if text is not None and not (text := folded(text)).isascii():
                self._texts[row] = text
                self._texts_nbytes += 100 + 4 * len(text)
                for letter in set(text):
                    if not letter.isascii():
                        rows_of[letter].append(row)
        codes = np.repeat(np.arange(len(rows_of)), [len(rows) for rows in rows_of.values()])
        rows = np.array([row for rows in rows_of.values() for row in rows], np.int32)
        self._letters.add(list(rows_of), codes, rows)

    @override
    def _renumber(self, numbers: Numbers) -> None:
        self._words.renumber(numbers)
        self._letters.renumber(numbers)
        self._texts = {
            int(numbers[row]): text for row, text in self._texts.items() if numbers[row] >= 0
        }
        self._texts_nbytes = sum(100 + 4 * len(text) for text in self._texts.values())


class Overlap(Ranking):
    """The ranking `overlap`."""

    @override
    def index(self) -> OverlapIndex:
        return OverlapIndex()

    @override
    def rank(
        self, indexes: Sequence[Index], query: str, limit: int = 10, where: Filter = EVERYTHING
    ) -> list[Hit]:
        words = sorted(query_words(query))
        with locked(indexes):
            scores = [cast(OverlapIndex, index).scores(words, where) for index in indexes]
            return hits_of(indexes, scores, limit)
