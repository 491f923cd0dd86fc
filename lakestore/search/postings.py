"""An inverted index: for each term the rows that have it. Owns numbers, not what a term is."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.signedinteger[Any]]
_NONE: Numbers = np.empty(0, np.int32)
_OVERHEAD = 160
"""About what a term costs beside its rows: a key, and an array without content. In bytes."""


class Postings:
    """Row numbers by term, ascending, with how often each row has the term where that counts."""

    def __init__(self, *, counted: bool = False) -> None:
        self._rows: dict[Hashable, array[int]] = {}
        self._counts: dict[Hashable, array[int]] | None = {} if counted else None
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self._nbytes + _OVERHEAD * len(self._rows)

    def add(
        self,
        terms: Sequence[Hashable],
        codes: Numbers,
        rows: Numbers,
        counts: Numbers | None = None,
    ) -> None:
        """Add pairs of term and row, each pair once.

        Args:
            terms: Each once.
            codes: For each pair which of `terms` it is about.
            rows: For each pair the row; above all rows there are of the term, and of one term
                ascending.
            counts: For each pair how often the row has the term.
        """
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(terms) + 1)).tolist()
        rows = rows[order].astype(np.int32)
        counts = None if counts is None else counts[order].astype(np.int32)
        for number, term in enumerate(terms):
            here = slice(starts[number], starts[number + 1])
            self._append(self._rows, term, rows[here])
            if self._counts is not None and counts is not None:
                self._append(self._counts, term, counts[here])

    def _append(self, to: dict[Hashable, array[int]], term: Hashable, numbers: Numbers) -> None:
        found = to.get(term)
        if found is None:
            found = to[term] = array("i")
        found.frombytes(numbers.tobytes())
        self._nbytes += numbers.nbytes

    def rows(self, term: Hashable) -> Numbers:
        """Return the rows that have `term`."""
        found = self._rows.get(term)
        return _NONE if found is None else np.array(found, np.int32)

    def counts(self, term: Hashable) -> Numbers:
        """Return how often each of `rows(term)` has it."""
        found = self._counts.get(term) if self._counts is not None else None
        return _NONE if found is None else np.array(found, np.int32)

    def renumber(self, numbers: Numbers) -> None:
        """Give each row its new number in `numbers`, and drop those that have -1 there."""
        self._nbytes = 0
        for term in list(self._rows):
            new = numbers[self.rows(term)]
            kept = new >= 0
            counts = self.counts(term)[kept] if self._counts is not None else None
            del self._rows[term]
            if kept.any():
                self._append(self._rows, term, new[kept])
            if self._counts is not None and counts is not None:
                del self._counts[term]
                if kept.any():
                    self._append(self._counts, term, counts)


def encoded(column: pa.Array) -> tuple[list[str], Numbers]:
    """Return the distinct texts of a column without nulls, and for each row which one it is."""
    codes = column.dictionary_encode()
    return codes.dictionary.to_pylist(), codes.indices.to_numpy(zero_copy_only=False)


def parents(lists: pa.ListArray) -> Numbers:
    """Return for each of the flattened values of `lists`, none of them null, its list's number."""
    sizes = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    return np.repeat(np.arange(len(lists), dtype=np.int32), sizes)
