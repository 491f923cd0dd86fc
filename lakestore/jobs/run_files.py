"""Runs as jobs write them: what a change is merged with, and how a run is put.

Owns when runs become one; what they hold is decided by whoever publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import merge
from itertools import chain, groupby, islice
from typing import TypeVar

from lakestore.history.archive import Archive, Kind
from lakestore.history.environment import Environment
from lakestore.log.keys import run_key
from lakestore.log.manifests import Group, Manifest, StoredFile
from lakestore.tables.footers import footer_size
from lakestore.tables.groups import GroupWriter

R = TypeVar("R")

RUN_GROUP_ROWS = 1_024
WHOLE_BELOW = 256 * 1024
_MOST_RUNS = 2


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs that a table has then."""

    files: tuple[StoredFile, ...]
    replaced: Sequence[str] = ()
    """The keys of those that it has no more."""


class RunWriter:
    """Writes the runs of one app."""

    def __init__(
        self,
        environment: Environment,
        archive: Archive,
        app_name: str,
        whole_below: int = WHOLE_BELOW,
        group_rows: int = RUN_GROUP_ROWS,
    ) -> None:
        """Write runs of `app_name`; for the sizes see `Publisher`."""
        self._env = environment
        self._archive = archive
        self._app = app_name
        self._whole_below = whole_below
        self._group_rows = group_rows
        self.stored: set[str] = set()
        """The keys of all that were put."""

    def runs(
        self,
        kind: Kind[R],
        newest: Manifest,
        rows: Sequence[R],
        keep: Callable[[R], R | None] | None = None,
    ) -> Runs:
        """Put a run with `rows`; with `keep`, one run of all there are as it makes of each row."""
        files = newest.table(kind.name).runs
        if not rows and keep is None:
            return Runs(files)
        absorbed, spent = absorbed_by(files, len(rows), self._whole_below)
        if keep is not None:
            absorbed, spent = files, 0
        found = _newest(kind, rows, self._archive.rows_in(kind, self._app, absorbed))
        if keep is not None:
            found = (kept for row in found if (kept := keep(row)) is not None)
        first = next(found, None)
        stored = () if first is None else (self.put(kind, chain([first], found), spent),)
        replaced = [run_key(self._app, kind.name, run.id) for run in absorbed]
        return Runs((*stored, *files[len(absorbed) :]), replaced)

    def anew(self, kind: Kind[R], newest: Manifest, rows: Iterator[R]) -> Runs:
        """Put one run with `rows`, ascending, in place of all that there are."""
        first = next(rows, None)
        stored = () if first is None else (self.put(kind, chain([first], rows), 0),)
        files = newest.table(kind.name).runs
        return Runs(stored, [run_key(self._app, kind.name, run.id) for run in files])

    def put(self, kind: Kind[R], rows: Iterator[R], spent: int) -> StoredFile:
        """Put a run with `rows`, of which there are some, ascending; return what names it."""
        writer, firsts, count, dead = GroupWriter(kind.schema, ranges=False), [], 0, 0
        while group := list(islice(rows, self._group_rows)):
            writer.write(kind.to_table(group))
            user, name = kind.place(group[0])
            firsts.append((user or None, name))
            count += len(group)
            dead += sum(map(kind.is_dead, group))
        body = writer.close()
        run = self._env.new_token()
        key = run_key(self._app, kind.name, run)
        self.stored.add(key)
        self._env.put_new(key, body)
        places = zip(firsts, writer.groups, strict=True)
        groups = tuple(Group(first, it.start, it.length) for first, it in places)
        return StoredFile(
            run,
            len(body),
            footer_size(body),
            count,
            sha256(body).hexdigest(),
            dead,
            groups if len(body) >= self._whole_below else (),
            spent=spent,
        )


def _newest(kind: Kind[R], rows: Sequence[R], older: Iterable[R]) -> Iterator[R]:
    """Yield `rows` and those of `older` that none of them replaces, ascending."""
    both = merge(
        ((kind.place(row), 0, row) for row in rows),
        ((kind.place(row), 1, row) for row in older),
        key=lambda entry: entry[:2],
    )
    for _, same in groupby(both, key=lambda entry: entry[0]):
        yield next(same)[2]


def absorbed_by(
    files: Sequence[StoredFile], rows: int, whole_below: int = WHOLE_BELOW
) -> tuple[Sequence[StoredFile], int]:
    """Return which runs, from the newest on, a new one of `rows` rows is merged with.

    There are two at most, since each is a request of every look-up, and one as long as it is small.
    Of two the small one is written again each time, until as many rows were written for it as the
    large one has: then they become one. So a change of b rows in a lake of n writes about the root
    of 2 n b.

    Returns:
        The runs, and what is spent on the new one then.
    """
    merged, spent, count = rows, rows, 0
    for file in files:
        is_large = file.size >= whole_below and spent < file.rows
        if is_large and len(files) - count < _MOST_RUNS:
            break
        merged += file.rows
        spent = merged + file.spent
        count += 1
    return files[:count], 0 if count == len(files) else spent
