"""What all rankings share: an index of one scope, and the best of several. Owns no way to score."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakestore.search.filters import EVERYTHING, Filter
from lakestore.search.postings import Numbers
from lakestore.search.rows import Key, Rows

Scores = npt.NDArray[np.float64]

_MANY_DEAD = 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that was found."""

    scope: int
    """Which of the indexes that were searched it is in, from 0."""
    key: Key = field(repr=False)
    score: float
    """Comparable with others of the same search alone."""
    values: Mapping[str, Any] = field(repr=False, compare=False)
    """What is known of it: the columns `lakestore.search.rows.SHOWN`."""


class Index(ABC):
    """The memories of one scope, by one ranking; safe to be used by several threads."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """About how much memory it takes."""

    def add(self, table: pa.Table) -> None:
        """Fold rows in, adds and forgets, in any order and as often as wanted.

        Args:
            table: With the columns `lakestore.search.rows.COLUMNS`, at least.
        """
        with self.lock:
            batch = self.rows.fold(table)
            if batch.num_rows:
                self._add(batch, len(self.rows.keys) - batch.num_rows)
            self._tidy()

    def remove(self, keys: Iterable[Key]) -> None:
        """Take memories away without remembering that they were there, as pruning does."""
        with self.lock:
            self.rows.remove(keys)
            self._tidy()

    def _tidy(self) -> None:
        if self.rows.dead > max(_MANY_DEAD, len(self.rows)):
            self._renumber(self.rows.renumber())

    @abstractmethod
    def _add(self, batch: pa.RecordBatch, first: int) -> None:
        """Take rows whose numbers begin with `first`."""

    @abstractmethod
    def _renumber(self, numbers: Numbers) -> None:
        """Give rows their new numbers, and drop those that have -1 there."""


class Ranking(ABC):
    """A way to say which memories suit a query best."""

    @abstractmethod
    def index(self) -> Index:
        """Return an empty index, for this ranking alone."""

    @abstractmethod
    def rank(
        self, indexes: Sequence[Index], query: str, limit: int = 10, where: Filter = EVERYTHING
    ) -> list[Hit]:
        """Return the best of all memories in `indexes`, the best first.

        Equals come in the order of `indexes`, then session by session as they were added, whatever
        order the index learned of them in.

        Args:
            indexes: That this ranking made: a user's own, and the app's.
            query: Any text.
            limit: How many at most.
            where: Applied before the best are taken.
        """


@contextmanager
def locked(indexes: Sequence[Index]) -> Iterator[None]:
    """Hold the locks of all of `indexes`, taken in an order of no two threads' own."""
    with ExitStack() as stack:
        for index in sorted(set(indexes), key=id):
            stack.enter_context(index.lock)
        yield


def hits_of(indexes: Sequence[Index], scores: Sequence[Scores], limit: int) -> list[Hit]:
    """Return the `best` of all rows as hits."""
    return [
        Hit(scope, rows.keys[row], float(scores[scope][row]), rows.shown(row))
        for scope, row in best(indexes, scores, limit)
        for rows in [indexes[scope].rows]
    ]


def best(indexes: Sequence[Index], scores: Sequence[Scores], limit: int) -> list[tuple[int, int]]:
    """Return index and row of the highest scores above 0, the best first, equals in order.

    Args:
        indexes: Whose locks are held.
        scores: Of the rows of each of them.
        limit: How many at most.
    """
    if limit < 1:
        return []
    found = [
        (scope, row)
        for scope, index in enumerate(indexes)
        for row in _best(scores[scope], index.rows.ranks, limit)
    ]
    found.sort(key=lambda one: -scores[one[0]][one[1]])
    return found[:limit]


def _best(scores: Scores, ranks: npt.NDArray[np.int64], limit: int) -> list[int]:
    rows = np.flatnonzero(scores > 0)
    if len(rows) > limit:
        least = np.partition(scores[rows], len(rows) - limit)[len(rows) - limit]
        above, ties = rows[scores[rows] > least], rows[scores[rows] == least]
        wanted = limit - len(above)
        ties = ties[np.argpartition(ranks[ties], wanted - 1)[:wanted]]
        rows = np.concatenate([above, ties])
    found: list[int] = rows[np.lexsort((ranks[rows], -scores[rows]))].tolist()
    return found
