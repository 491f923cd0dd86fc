"""What a job wants to publish, and how it becomes the next manifest.

Owns how runs are merged and how much of each pack is dead. A change of a session counts only if
what it was made from is still what the newest manifest says, so a job that lost the race for a
number keeps all that the winner has not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import merge
from itertools import chain, groupby, islice
from typing import TypeVar

from lakestore.errors import ConflictError, FormatError, NotFoundError
from lakestore.history.archive import ERASED, EVENTS, FOLDED, STATE, Archive, Kind, Place
from lakestore.history.environment import Environment
from lakestore.jobs.erasure import Keep, log_of_row
from lakestore.jobs.origins import Origins
from lakestore.log.keys import (
    app_manifests,
    app_packs,
    app_runs,
    log_digest,
    pack_key,
    run_key,
)
from lakestore.log.manifests import Group, Manifest, StoredFile, TableFiles, publish
from lakestore.tables.erased import ErasedRow
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
    """What is known of it then."""


@dataclass(slots=True)
class Changes:
    """What a job makes of an app; the packs it names are stored already."""

    sessions: dict[Place, Change] = field(default_factory=dict)
    packs: list[StoredFile] = field(default_factory=list)
    state: list[StateRow] = field(default_factory=list)
    """What was set in shared state, in any order; what is known already may be among it."""
    erased: dict[str, ErasedRow] = field(default_factory=dict)
    """Sessions that are to be known by the digests of their logs only; nothing of them is packed
    any more."""
    doomed: list[str] = field(default_factory=list)
    """Objects that nobody refers to and that may be deleted."""
    forgotten: dict[Place, SessionRow] = field(default_factory=dict)
    """Rows of deleted sessions that nobody needs any more, if they are still as they were."""
    folded: frozenset[str] = frozenset()
    """The names of the entries of which all is in `state`."""
    entries: frozenset[str] = frozenset()
    """The names of all entries that are there."""
    looked: int | None = None
    """When a sweep has looked for such rows, see `Manifest`; None for none did."""

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
        self.published: frozenset[Place] = frozenset()
        """Which sessions' changes counted, in what was published last."""
        self.published_state: frozenset[Place] = frozenset()
        """Which keys of shared state were new in it."""

    def publish(self, changes: Changes) -> Manifest | None:
        """Make `changes` part of the newest manifest and create the next one.

        Returns:
            The manifest; None when nothing was left to say.

        Raises:
            ConflictError: others keep publishing, or have named an upload of this job for deletion.
            FormatError: the newest manifest is damaged, or, of an app without one, lost.
            StorageError: nothing was published, or (`UnknownOutcomeError`) it may have been.
        """
        prefix = app_manifests(self._app)
        for _ in range(_ATTEMPTS):
            seen = self._env.clock.elapsed()
            newest = replace(self._archive.newest(prefix), app_name=self._app)
            newest = self._check_uploads(newest, changes)
            if not newest.number:
                self._check_first(newest)
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
            raise ConflictError(
                "this job stood still for so long that a sweep has taken its pack for an orphan;"
                f" run it again. key={lost!r}"
            )
        return newest.keeping(there)

    def _check_first(self, none: Manifest) -> None:
        """Refuse to begin anew where a manifest is lost: sweeps would go by the new one."""
        prefix = app_manifests(self._app)
        runs = self._env.store.names(app_runs(self._app))
        run = Origins(self._env, self._archive, none).without(runs)
        if run and not self._archive.newest(prefix).number:  # still
            raise FormatError(
                "the app's manifest is lost: there is none, and no log holds all that a run tells"
                " of. Restore the newest one from a copy of the store; if there is no copy, delete"
                " the app's packs and runs, and begin with what its logs hold."
                f" key={prefix!r} {run=}"
            )

    def _following(self, newest: Manifest, changes: Changes) -> Manifest | None:
        packed = self._archive.sessions_at(newest, changes.sessions)
        before = {place: each.row for place, each in packed.items()}
        kept = {
            place: change
            for place, change in changes.sessions.items()
            if before.get(place) == change.before
        }
        state = self._new_state(newest, changes.state)
        self.published, self.published_state = frozenset(kept), frozenset(state)
        forgotten = self._forgotten(newest, changes.forgotten)
        looked = max(changes.looked or 0, newest.looked)
        named = (kept, state, changes.erased, changes.doomed, changes.folded, forgotten)
        if not any(named) and looked == newest.looked:
            return None
        keep = Keep(changes.erased, forgotten)
        tables, doomed = self._files(newest, changes, (kept, state, keep))
        following = newest.following(
            self._env.new_token(), int(self._env.clock.wall() * 1_000_000), tables
        )
        revived = newest.revived
        if revived:
            changed = {log_digest(log_of_row(change.after)) for change in kept.values()}
            revived = tuple(digest for digest in revived if digest not in changed)
        return replace(following, looked=looked, revived=revived).dooming(doomed)

    def _files(
        self,
        newest: Manifest,
        changes: Changes,
        rows: tuple[Mapping[Place, Change], Mapping[Place, StateRow], Keep],
    ) -> tuple[dict[str, TableFiles], list[str]]:
        """Put runs with some rows; return what each table has then, and what is needless."""
        kept, state, keep = rows
        counted = [*kept.values(), *self._dropped(newest, keep)]
        packs, empty = _packs(newest.table(EVENTS.name).packs, changes.packs, counted)
        sessions = [kept[place].after for place in sorted(kept)]
        gone = [changes.erased[digest] for digest in sorted(changes.erased)]
        session_runs = self._runs(EVENTS, newest, sessions, keep.session if keep else None)
        keys = [state[place] for place in sorted(state)]
        state_runs = self._runs(STATE, newest, keys, keep.state if gone else None)
        erased_runs = self._runs(ERASED, newest, gone)
        tables = {
            EVENTS.name: TableFiles(session_runs.files, packs),
            STATE.name: TableFiles(state_runs.files),
        }
        if erased_runs.files:
            tables[ERASED.name] = TableFiles(erased_runs.files)
        folded_runs = self._folded(newest, changes)
        if folded_runs.files:
            tables[FOLDED.name] = TableFiles(folded_runs.files)
        doomed = [
            *session_runs.replaced,
            *state_runs.replaced,
            *erased_runs.replaced,
            *folded_runs.replaced,
            *(pack_key(self._app, EVENTS.name, pack.id) for pack in empty),
            *changes.doomed,
        ]
        return tables, doomed

    def _forgotten(
        self, newest: Manifest, rows: Mapping[Place, SessionRow]
    ) -> dict[Place, SessionRow]:
        """Return those of `rows` that are still as they were, and that nobody wants to build on."""
        packed = self._archive.sessions_at(newest, rows)
        return {
            place: row
            for place, row in rows.items()
            if place in packed
            and packed[place].row == row
            and log_digest(packed[place].key.log) not in newest.revived
        }

    def _folded(self, newest: Manifest, changes: Changes) -> _Runs:
        """Put one run with the names of all packed entries that are still there."""
        files = newest.table(FOLDED.name).runs
        if not changes.folded:
            return _Runs(files)
        names = changes.folded | (self._archive.folded(newest) & changes.entries)
        stored = self._put(FOLDED, iter(sorted(names)), 0)
        return _Runs((stored,), [run_key(self._app, FOLDED.name, run.id) for run in files])

    def _dropped(self, newest: Manifest, keep: Keep) -> Iterator[Change]:
        """Yield what becomes of the sessions that are packed and to be erased."""
        files = newest.table(EVENTS.name).runs if keep.erased else ()
        for row in self._archive.rows_in(EVENTS, self._app, files):
            if keep.session(row) is None:
                yield Change(row, replace(row, segments=()))

    def _new_state(self, newest: Manifest, rows: Iterable[StateRow]) -> dict[Place, StateRow]:
        """Return those of `rows` that are later than what is packed of their keys, one a key."""
        found: dict[Place, StateRow] = {}
        for row in rows:
            place = STATE.place(row)
            if self._archive.has_erased(newest, row):
                continue
            if place not in found or found[place].precedes(row):
                found[place] = row
        for place, packed in self._archive.state_at(newest, found).items():
            if not packed.precedes(found[place]):
                del found[place]
        return found

    def _runs(
        self,
        kind: Kind[R],
        newest: Manifest,
        rows: Sequence[R],
        keep: Callable[[R], R | None] | None = None,
    ) -> _Runs:
        """Put a run with `rows`; with `keep`, one run of all there are as it makes of each row."""
        files = newest.table(kind.name).runs
        if not rows and keep is None:
            return _Runs(files)
        absorbed, spent = absorbed_by(files, len(rows), self._whole_below)
        if keep is not None:
            absorbed, spent = files, 0
        found = _newest(kind, rows, self._archive.rows_in(kind, self._app, absorbed))
        if keep is not None:
            found = (kept for row in found if (kept := keep(row)) is not None)
        first = next(found, None)
        stored = () if first is None else (self._put(kind, chain([first], found), spent),)
        replaced = [run_key(self._app, kind.name, run.id) for run in absorbed]
        return _Runs((*stored, *files[len(absorbed) :]), replaced)

    def _put(self, kind: Kind[R], rows: Iterator[R], spent: int) -> StoredFile:
        writer, firsts, count, dead = GroupWriter(kind.schema), [], 0, 0
        while group := list(islice(rows, self._group_rows)):
            writer.write(kind.to_table(group))
            user, name = kind.place(group[0])
            firsts.append((user or None, name))
            count += len(group)
            dead += sum(map(kind.is_dead, group))
        body = writer.close()
        run = self._env.new_token()
        self._env.put_new(run_key(self._app, kind.name, run), body)
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


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs that a table has then."""

    files: tuple[StoredFile, ...]
    replaced: Sequence[str] = ()
    """The keys of those that it has no more."""


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
