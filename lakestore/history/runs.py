"""Runs of one table as manifests name them: which rows are where, and reading them in order.

Owns that a newer run replaces what an older one says, and which ranges are read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Generic, TypeVar

import pyarrow as pa

from lakestore.history.environment import Environment
from lakestore.history.ranges import Answer, Range, ask, joined, tables_of, whole
from lakestore.log.keys import ArtifactKey, run_key
from lakestore.log.manifests import Group, StoredFile
from lakestore.tables import artifacts, erased, folded, runs
from lakestore.tables.artifacts import ArtifactRow
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow

R = TypeVar("R")

Place = tuple[str, str]
"""Where a row is in the order of a run: user ("" for none) and session, or key."""

FIRST: Place = ("", "")
_LAST = "\U0010ffff" * 8
LAST: Place = (_LAST, _LAST)
"""After every row of a run."""

_READS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """A table whose runs are sorted by user and one more text."""

    name: str
    schema: pa.Schema
    to_table: Callable[[Sequence[R]], pa.Table]
    from_table: Callable[[pa.Table], list[R]]
    place: Callable[[R], Place]
    columns: tuple[str | None, str]
    """The two columns that a place is made of; None for a table without users."""
    is_dead: Callable[[R], bool] = lambda _: False
    """Whether a row only says that something was deleted, and may go some day."""

    def places(self, table: pa.Table) -> list[Place]:
        """Return the place of each row."""
        column, name = self.columns
        names = table[name].to_pylist()
        users = table[column].to_pylist() if column else [None] * len(names)
        return [(user or "", name) for user, name in zip(users, names, strict=True)]


EVENTS: Kind[SessionRow] = Kind(
    "events",
    runs.SCHEMA,
    runs.to_table,
    runs.from_table,
    lambda row: (row.user_id, row.session_id),
    ("user_id", "session_id"),
    lambda row: not row.alive,
)
"""Sessions: its runs say what is packed of each, its packs hold the rows."""
ARTIFACTS: Kind[ArtifactRow] = Kind(
    "artifacts",
    artifacts.RUN_SCHEMA,
    artifacts.to_table,
    artifacts.from_table,
    lambda row: (row.user_id, row.key),
    ("user_id", "key"),
    lambda row: not row.saves,
)
"""Artifacts: its runs say what lives of each, and up to which commit of its log they tell."""

ERASED: Kind[ErasedRow] = Kind(
    "erased",
    erased.SCHEMA,
    erased.to_table,
    erased.from_table,
    lambda row: ("", row.digest),
    (None, "digest"),
)
"""Sessions that were erased: runs only, without names."""

FOLDED: Kind[str] = Kind(
    "folded",
    folded.SCHEMA,
    folded.to_table,
    folded.from_table,
    lambda name: ("", name),
    (None, "entry"),
)
"""Entries that are packed: runs only, by names without users."""


def artifact_place(key: ArtifactKey) -> Place:
    """Return where the row of an artifact is in runs of `ARTIFACTS`."""
    return key.user_id, artifacts.place_of(key.session_id, key.filename)


def artifacts_between(user_id: str, session_id: str | None) -> tuple[Place, Place]:
    """Return between which places are a session's artifacts, or (None) those its user's share."""
    first = artifacts.place_of(session_id, "").removesuffix('"]')
    return (user_id, first), (user_id, first + _LAST)


class Runs(Generic[R]):
    """Some runs of one app's table, newest first."""

    def __init__(
        self, environment: Environment, kind: Kind[R], app_name: str, files: Sequence[StoredFile]
    ) -> None:
        self._env = environment
        self._kind = kind
        self._app = app_name
        self._files = files
        self._firsts = {file.id: [_first(group) for group in file.groups] for file in files}

    def rows(self, low: Place = FIRST, high: Place = LAST) -> Iterator[R]:
        """Yield the rows from `low` to `high`, ascending, one a place.

        Raises:
            NotFoundError: a run was swept.
            FormatError: a run is damaged.
            StorageError: the store failed.
        """
        streams = []
        for age, file in enumerate(self._files):
            ranges = self._ranges(file, self._groups(file, low, high))
            # The first of each run at once.
            first = [self._ask(file, ranges[:1])]
            streams.append(self._stream(age, file, first, ranges[1:], (low, high)))
        in_order = merge(*streams, key=lambda entry: entry[:2])
        for _, same in groupby(in_order, key=lambda entry: entry[0]):
            yield next(same)[2]

    def _stream(
        self,
        age: int,
        file: StoredFile,
        asked: list[Answer[Iterator[pa.Table]]],
        ranges: Sequence[Range],
        span: tuple[Place, Place],
    ) -> Iterator[tuple[Place, int, R]]:
        for each in ranges:
            # The next range is on its way while this one is taken apart.
            asked.append(self._ask(file, [each]))
            yield from self._between(age, asked.pop(0)(), *span)
        yield from self._between(age, asked.pop(0)(), *span)

    def _between(
        self, age: int, tables: Iterable[pa.Table], low: Place, high: Place
    ) -> Iterator[tuple[Place, int, R]]:
        for table in tables:
            for row in self._kind.from_table(table):
                place = self._kind.place(row)
                if low <= place <= high:
                    yield place, age, row

    def at(self, places: Iterable[Place]) -> dict[Place, R]:
        """Return the rows at `places`, without those that have none.

        Reads only the row groups that may hold one, each once.

        Raises:
            NotFoundError, FormatError, StorageError: see `rows`.
        """
        wanted = set(places)
        found: dict[Place, R] = {}
        reads = [
            (file, each)
            for file in self._files
            for each in self._ranges(file, sorted({self._group(file, place) for place in wanted}))
        ]
        for first in range(0, len(reads), _READS_AT_ONCE):
            answers = [
                self._ask(file, [each]) for file, each in reads[first : first + _READS_AT_ONCE]
            ]
            for table in (table for answer in answers for table in answer()):
                for place, row in self._among(table, wanted):
                    found.setdefault(place, row)
        return found

    def _among(self, table: pa.Table, wanted: set[Place]) -> Iterator[tuple[Place, R]]:
        places = self._kind.places(table)
        chosen = [number for number, place in enumerate(places) if place in wanted]
        yield from zip(
            (places[number] for number in chosen), self._rows(table, chosen), strict=True
        )

    def _rows(self, table: pa.Table, chosen: Sequence[int]) -> list[R]:
        """Return some rows of a table, by their numbers, ascending; mostly they are neighbours.

        Not by `Table.take`: it imports pyarrow.compute and pandas, half a second of a new process.
        """
        if not chosen:
            return []
        first = chosen[0]
        rows = self._kind.from_table(table.slice(first, chosen[-1] - first + 1))
        return [rows[number - first] for number in chosen]

    def ask_between(self, spans: Sequence[tuple[Place, Place]]) -> Answer[list[R]]:
        """Begin to read all rows in any of `spans` (first and last place), of every run."""
        answers = [
            self._ask(file, self._ranges(file, groups))
            for file in self._files
            if (groups := sorted({n for span in spans for n in self._groups(file, *span)}))
        ]

        def rows() -> list[R]:
            found = []
            for table in (table for answer in answers for table in answer()):
                places = self._kind.places(table)
                chosen = [
                    number
                    for number, place in enumerate(places)
                    if any(low <= place <= high for low, high in spans)
                ]
                found += self._rows(table, chosen)
            return found

        return rows

    def ask_tables(self, low: Place, high: Place) -> Answer[list[pa.Table]]:
        """Begin to read the rows from `low` to `high` of every run, as they are stored."""
        answers = [
            self._ask(file, self._ranges(file, groups))
            for file in self._files
            if (groups := self._groups(file, low, high))
        ]

        def tables() -> list[pa.Table]:
            found = []
            for table in (table for answer in answers for table in answer()):
                places = self._kind.places(table)
                first, last = bisect_left(places, low), bisect_right(places, high)
                if first < last:
                    found.append(table.slice(first, last - first))
            return found

        return tables

    def _group(self, file: StoredFile, place: Place) -> int:
        """Return the row group that may hold `place`, -1 for none; 0 stands for the whole."""
        return bisect_right(self._firsts[file.id], place) - 1 if file.groups else 0

    def _groups(self, file: StoredFile, low: Place, high: Place) -> range:
        """Return the row groups that may hold what is from `low` to `high`; 0 for the whole."""
        if not file.groups:
            return range(1)
        firsts = self._firsts[file.id]
        return range(max(0, bisect_right(firsts, low) - 1), bisect_right(firsts, high))

    def _ranges(self, file: StoredFile, groups: Iterable[int]) -> list[Range]:
        key = run_key(self._app, self._kind.name, file.id)
        wanted = [number for number in groups if number >= 0]
        if not file.groups:
            return [whole(key, file)] if wanted else []
        places = [(file.groups[n].start, file.groups[n].length) for n in wanted]
        return [(key, start, length) for start, length in joined(places)]

    def _ask(self, file: StoredFile, ranges: Sequence[Range]) -> Answer[Iterator[pa.Table]]:
        answer = ask(self._env, ranges)
        schema, is_whole = self._kind.schema, not file.groups
        # Decoded one by one: rows take many times the bytes that they are stored in.
        return lambda: (
            table
            for each, body in zip(ranges, answer(), strict=True)
            for table in tables_of(each, body, schema, is_whole=is_whole)
        )


def _first(group: Group) -> Place:
    return group.first[0] or "", group.first[1]
