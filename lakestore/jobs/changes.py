"""What a job wants to publish, and how it becomes the next manifest.

Owns how runs are merged and how much of each pack is dead. A change of a session counts only if
what it was made from is still what the newest manifest says, so a job that lost the race for a
number keeps all that the winner has not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar

from lakestore.errors import ConflictError, NotFoundError
from lakestore.history.archive import EVENTS, STATE, Archive, Kind, Place
from lakestore.history.environment import Environment
from lakestore.log.keys import app_manifests, app_packs, app_runs, pack_key, run_key
from lakestore.log.manifests import Group, Manifest, StoredFile, TableFiles, publish
from lakestore.tables.footers import footer_size
from lakestore.tables.parquet import GroupWriter
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow

R = TypeVar("R")

RUN_GROUP_ROWS = 1_024
WHOLE_BELOW = 256 * 1024
_MOST_RUNS = 2
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Change:
    """What a job makes of one session."""

    before: SessionRow | None
    """What it was made from; None when nothing of the session was packed."""
    after: SessionRow


@dataclass(slots=True)
class Changes:
    """What a job makes of an app; the packs it names are stored already."""

    sessions: dict[Place, Change] = field(default_factory=dict)
    packs: list[StoredFile] = field(default_factory=list)
    state: list[StateRow] = field(default_factory=list)
    """What was set in shared state, in any order; what is known already may be among it."""

    def add(self, change: Change) -> None:
        """Take one more session's."""
        self.sessions[EVENTS.place(change.after)] = change


class Publisher:
    """Publishes what one job makes of one app."""

    def __init__(
        self,
        environment: Environment,
        archive: Archive,
        app_name: str,
        whole_below: int = WHOLE_BELOW,
        group_rows: int = RUN_GROUP_ROWS,
    ) -> None:
        """Publish what one job makes of `app_name`.

        Args:
            environment: Of the lake.
            archive: The lake's.
            app_name: The app.
            whole_below: Runs of fewer bytes are read whole.
            group_rows: How many rows a row group of a run has.
        """
        self._env = environment
        self._archive = archive
        self._app = app_name
        self._whole_below = whole_below
        self._group_rows = group_rows

    def publish(self, changes: Changes) -> Manifest | None:
        """Make `changes` part of the newest manifest and create the next one.

        Returns:
            The manifest; None when nothing was left to say.

        Raises:
            ConflictError: others keep publishing, or have named an upload of this job for deletion.
            StorageError: nothing was published, or (`UnknownOutcomeError`) it may have been.
        """
        prefix = app_manifests(self._app)
        for _ in range(_ATTEMPTS):
            seen = self._env.clock.elapsed()
            newest = replace(self._archive.newest(prefix), app_name=self._app)
            newest = self._check_uploads(newest, changes)
            try:
                following = self._following(newest, changes)
                if following is None:
                    return None
                publish(
                    self._env.store,
                    following,
                    seen=seen,
                    limits=self._env.limits,
                    clock=self._env.clock,
                    metrics=self._env.metrics,
                )
            except (ConflictError, NotFoundError):  # by others, who may have swept what it names
                continue
            return self._archive.newest(prefix)
        raise ConflictError(f"other jobs keep publishing. key={prefix!r}")

    def _check_uploads(self, newest: Manifest, changes: Changes) -> Manifest:
        """Return `newest` without the names of what a sweep has deleted.

        A pack of this job that is named goes soon, and one that is not there was named before: a
        sweep took the job for dead.
        """
        ours = [pack_key(self._app, EVENTS.name, pack.id) for pack in changes.packs]
        if not ours and not newest.doomed:
            return newest
        prefixes = (app_packs(self._app), app_runs(self._app))
        there = {key for each in prefixes for key in self._env.store.names(each)}
        alive = there.difference(each.key for each in newest.doomed)
        lost = next((key for key in ours if key not in alive), None)
        if lost is not None:
            raise ConflictError(f"a sweep has taken a pack of this job for an orphan. key={lost!r}")
        return newest.keeping(there)

    def _following(self, newest: Manifest, changes: Changes) -> Manifest | None:
        packed = self._archive.sessions_at(newest, changes.sessions)
        rows = {place: each.row for place, each in packed.items()}
        kept = {
            place: change
            for place, change in changes.sessions.items()
            if rows.get(place) == change.before
        }
        sessions = {place: change.after for place, change in kept.items()}
        state = self._new_state(newest, changes.state)
        if not sessions and not state:
            return None
        packs, empty = _packs(newest.table(EVENTS.name).packs, changes.packs, kept.values())
        session_runs, old = self._runs(EVENTS, newest, [sessions[p] for p in sorted(sessions)])
        state_runs, old_too = self._runs(STATE, newest, [state[p] for p in sorted(state)])
        tables = {
            EVENTS.name: TableFiles(session_runs, packs),
            STATE.name: TableFiles(state_runs),
        }
        now = int(self._env.clock.wall() * 1_000_000)
        doomed = [
            *(run_key(self._app, EVENTS.name, run.id) for run in old),
            *(run_key(self._app, STATE.name, run.id) for run in old_too),
            *(pack_key(self._app, EVENTS.name, pack.id) for pack in empty),
        ]
        return newest.following(self._env.new_token(), now, tables).dooming(doomed)

    def _new_state(self, newest: Manifest, rows: Iterable[StateRow]) -> dict[Place, StateRow]:
        """Return those of `rows` that are later than what is packed of their keys, one a key."""
        found: dict[Place, StateRow] = {}
        for row in rows:
            place = STATE.place(row)
            if place not in found or found[place].precedes(row):
                found[place] = row
        for place, packed in self._archive.state_at(newest, found).items():
            if not packed.precedes(found[place]):
                del found[place]
        return found

    def _runs(
        self, kind: Kind[R], newest: Manifest, rows: Sequence[R]
    ) -> tuple[tuple[StoredFile, ...], Sequence[StoredFile]]:
        """Put a run with `rows` and return which runs there are then, and which it replaces."""
        files = newest.table(kind.name).runs
        if not rows:
            return files, ()
        absorbed, spent = absorbed_by(files, len(rows), self._whole_below)
        older = self._archive.rows_in(kind, self._app, absorbed)
        stored = self._put(kind, _newest(kind, rows, older), spent)
        return (stored, *files[len(absorbed) :]), absorbed

    def _put(self, kind: Kind[R], rows: Iterator[R], spent: int) -> StoredFile:
        writer, firsts, count = GroupWriter(kind.schema), [], 0
        while group := list(islice(rows, self._group_rows)):
            writer.write(kind.to_table(group))
            user, name = kind.place(group[0])
            firsts.append((user or None, name))
            count += len(group)
        body = writer.close()
        run = self._env.new_token()
        self._env.store.put_if_absent(run_key(self._app, kind.name, run), body)
        places = zip(firsts, writer.groups, strict=True)
        groups = tuple(Group(first, it.start, it.length) for first, it in places)
        return StoredFile(
            run,
            len(body),
            footer_size(body),
            count,
            sha256(body).hexdigest(),
            groups=groups if len(body) >= self._whole_below else (),
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


def _packs(
    packs: Sequence[StoredFile], new: Sequence[StoredFile], changes: Iterable[Change]
) -> tuple[tuple[StoredFile, ...], list[StoredFile]]:
    """Return the packs with rows that count, and those of which none does any more."""
    live = Counter({pack.id: pack.rows - pack.dead for pack in packs})
    live.update({pack.id: 0 for pack in new})
    for change in changes:
        for segment in change.before.segments if change.before else ():
            live[segment.pack] -= segment.rows
        for segment in change.after.segments:
            live[segment.pack] += segment.rows
    counted = [replace(pack, dead=pack.rows - live[pack.id]) for pack in (*packs, *new)]
    return tuple(it for it in counted if live[it.id]), [it for it in counted if not live[it.id]]
