"""What `Lake.sql` returns: a relation of DuckDB's that is asked once more where a read fails.

Owns what is asked anew, and that nobody is given a row twice. Whether to ask again, and what is
shown then, is the catalog's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import duckdb
import pyarrow as pa

from lakestore.storage.range_file import Unread

R = TypeVar("R")

_HELD_BYTES = 16 * 2**20
"""How much of a stream is read before any of it is given: what is damaged there is not shown, and
all else is. Rows that were given cannot be taken back."""

Ask = Callable[[], duckdb.DuckDBPyRelation]
"""Returns a relation on the rows as they are now."""


class Tries(Protocol):
    """Runs what reads, and runs it again where it met something that is not shown any more."""

    def __call__(self, read: Callable[[], R], again: Callable[[], None]) -> R:
        """Return what `read` returns; `again` is called before it is run again."""


def tried(unread: Unread, read: Callable[[], R], again: Callable[[], None]) -> R:
    """Run what reads, and again where it met what is damaged, or gone, as often as it finds more.

    The second time it need not find more: another query may have met the same before.

    Args:
        unread: Is told what it met.
        read: What reads.
        again: Lets it find something else.
    """
    tries = 0
    while True:
        count, met = unread.count, dict(unread.spans)
        try:
            return read()
        except (duckdb.Error, pa.ArrowException, OSError):  # the latter of streams
            if unread.count == count or (tries and unread.spans == met):
                raise
        tries += 1
        again()


class _Question:
    """A query, on the relation of which all is built that is made of its answer."""

    def __init__(self, ask: Ask, tries: Tries) -> None:
        self._ask, self._tries = ask, tries
        self.relation = tries(ask, lambda: None)
        self.number = 1
        """How often it was asked."""

    def run(self, read: Callable[[], R]) -> R:
        return self._tries(read, self._ask_again)

    def _ask_again(self) -> None:
        self.relation = self._ask()
        self.number += 1


class Answer:
    """Stands for a relation. Each read of it runs the query, as with any relation."""

    __slots__ = ("__weakref__", "_made", "_number", "_question", "_remake")

    def __init__(self, question: _Question, remake: Ask, made: duckdb.DuckDBPyRelation) -> None:
        self._question, self._remake, self._made = question, remake, made
        self._number = question.number

    def _now(self) -> duckdb.DuckDBPyRelation:
        if self._number != self._question.number:
            self._made, self._number = self._remake(), self._question.number
        return self._made

    @property  # type: ignore[misc]  # what takes relations looks here
    def __class__(self) -> type[Any]:
        return duckdb.DuckDBPyRelation

    def __getattr__(self, name: str) -> Any:
        if name in Answer.__slots__:  # of one that is being copied
            raise AttributeError(name)
        return self._read(lambda: getattr(self._now(), name))

    def _read(self, read: Callable[[], Any]) -> Any:
        found = self._question.run(read)
        if isinstance(found, duckdb.DuckDBPyRelation):
            return Answer(self._question, read, found)
        return self._method(read, found) if callable(found) else found

    def _method(self, read: Callable[[], Any], method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            def run() -> Any:
                plain = {key: _plain(value) for key, value in named.items()}
                return read()(*map(_plain, args), **plain)

            return self._read(lambda: _begun(run()))

        return call

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.to_arrow_reader().__arrow_c_stream__(schema)

    def __len__(self) -> int:
        return int(self._read(lambda: len(self._now())))

    def __contains__(self, name: Any) -> bool:
        return name in self._now()

    def __getitem__(self, name: str) -> Any:
        return self._read(lambda: self._now()[name])

    def __repr__(self) -> str:
        return str(self._read(lambda: repr(self._now())))


def answer(ask: Ask, tries: Tries) -> duckdb.DuckDBPyRelation:
    """Return what stands for the relation that `ask` returns."""
    question = _Question(ask, tries)
    made = Answer(question, lambda: question.relation, question.relation)
    return cast("duckdb.DuckDBPyRelation", made)


def _plain(value: Any) -> Any:
    return value._now() if type(value) is Answer else value


def _begun(found: Any) -> Any:
    """Return what was read; of a stream, once its first megabytes were, of which none was given."""
    if not isinstance(found, pa.RecordBatchReader):
        return found
    held, size = [], 0
    for batch in found:
        held.append(batch)
        size += batch.nbytes
        if size >= _HELD_BYTES:
            break
    return pa.RecordBatchReader.from_batches(found.schema, chain(held, found))
