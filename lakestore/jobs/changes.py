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
from typing import Any, TypeVar

from lakestore.errors import ConflictError, NotFoundError
from lakestore.history.archive import ERASED, EVENTS, FOLDED, KEYED, Archive, Keyed, Kind, Place
from lakestore.history.environment import Environment
from lakestore.history.keyed import KeyedRow
from lakestore.jobs.erasure import Keep, log_of_row
from lakestore.jobs.origins import Predecessors
from lakestore.log.keys import (
    app_manifests,
    app_packs,
    app_runs,
    log_digest,
    pack_key,
    run_key,
)
from lakestore.log.manifests import Group, Manifest, StoredFile, TableFiles, publish
from lakestore.storage import StoredObject
from lakestore.tables.erased import ErasedRow
from lakestore.tables.footers import footer_size
from lakestore.tables.parquet import GroupWriter
from lakestore.tables.runs import SessionRow

K = TypeVar("K", bound=KeyedRow)
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
    keyed: dict[str, list[Any]] = field(default_factory=dict)
    """By table of keyed rows what is to be packed, in any order; what is known already may be among
    it."""
    pruned: dict[str, Callable[[Any], bool]] = field(default_factory=dict)
    """By table of keyed rows, which of those that are packed go."""
    erased: dict[str, ErasedRow] = field(default_factory=dict)
    """Sessions that are to be known by the digests of their logs only; nothing of them is packed
    any more."""
    doomed: list[str] = field(default_factory=list)
    """Objects that nobody refers to and that may be deleted."""
    forgotten: dict[Place, SessionRow] = field(default_factory=dict)
    """Rows of deleted sessions that nobody needs any more, if they are still as they were."""
    folded: frozenset[str] = frozenset()
    """The names of the entries of which all is in `keyed`."""
    swept: frozenset[str] = frozenset()
    """The names of entries that were packed, and are not there any more."""
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
        self._predecessors = Predecessors(environment, archive)
        self.published: frozenset[Place] = frozenset()
        """Which sessions' changes counted, in what was published last."""
        self.published_rows: Mapping[str, frozenset[Place]] = {}
        """By table of keyed rows, which of them were new in it."""

    def publish(self, changes: Changes) -> Manifest | None:
        """Make `changes` part of the newest manifest and create the next one.

        Returns:
            The manifest; None when nothing was left to say.

        Raises:
            ConflictError: others keep publishing, or have named an upload of this job for deletion.
            FormatError: the newest manifest is damaged, or lost.
            StorageError: nothing was published, or (`UnknownOutcomeError`) it may have been.
        """
        prefix = app_manifests(self._app)
        for _ in range(_ATTEMPTS):
            seen = self._env.clock.elapsed()
            newest = replace(self._archive.newest(prefix), app_name=self._app)
            runs = list(self._env.store.list(app_runs(self._app)))
            newest = self._check_uploads(newest, changes, runs)
            try:
                self._predecessors.check(newest, runs)
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

    def _check_uploads(
        self, newest: Manifest, changes: Changes, runs: Sequence[StoredObject]
    ) -> Manifest:
        """Return `newest` without the names of what a sweep has deleted.

        A pack of this job that is named goes soon, and one that is not there was named before: a
        sweep took the job for dead.
        """
        ours = [pack_key(self._app, EVENTS.name, pack.id) for pack in changes.packs]
        if not ours and not newest.doomed:
            return newest
        there = {*self._env.store.names(app_packs(self._app)), *(each.key for each in runs)}
        alive = there.difference(each.key for each in newest.doomed)
        lost = next((key for key in ours if key not in alive), None)
        if lost is not None:
            raise ConflictError(
                "this job stood still for so long that a sweep has taken its pack for an orphan;"
                f" run it again. key={lost!r}"
            )
        return newest.keeping(there)

    def _following(self, newest: Manifest, changes: Changes) -> Manifest | None:
        packed = self._archive.sessions_at(newest, changes.sessions)
        before = {place: each.row for place, each in packed.items()}
        kept = {
            place: change
            for place, change in changes.sessions.items()
            if before.get(place) == change.before
        }
        rows = {kind: self._new_rows(kind, newest, changes) for kind in KEYED}
        self.published = frozenset(kept)
        self.published_rows = {kind.name: frozenset(found) for kind, found in rows.items()}
        keep = Keep(changes.erased, self._forgotten(newest, changes.forgotten), changes.pruned)
        looked = max(changes.looked or 0, newest.looked)
        named = (kept, *rows.values(), changes.doomed, changes.folded, changes.pruned, keep)
        if not any(named) and looked == newest.looked:
            return None
        tables, doomed = self._files(newest, changes, (kept, rows, keep))
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
        rows: tuple[Mapping[Place, Change], Mapping[Keyed[Any], Mapping[Place, Any]], Keep],
    ) -> tuple[dict[str, TableFiles], list[str]]:
        """Put runs with some rows; return what each table has then, and what is needless."""
        kept, keyed, keep = rows
        counted = [*kept.values(), *self._dropped(newest, keep)]
        packs, empty = _packs(newest.table(EVENTS.name).packs, changes.packs, counted)
        sessions = [kept[place].after for place in sorted(kept)]
        gone = [changes.erased[digest] for digest in sorted(changes.erased)]
        session_runs = self._runs(EVENTS, newest, sessions, keep.session if keep else None)
        others = {}
        for kind, found in keyed.items():
            new = [found[place] for place in sorted(found)]
            others[kind.name] = self._runs(kind, newest, new, keep.keyed(kind))
        others[ERASED.name] = self._runs(ERASED, newest, gone)
        others[FOLDED.name] = self._folded(newest, changes)
        tables = {
            EVENTS.name: TableFiles(session_runs.files, packs),
            **{
                name: TableFiles(runs.files)
                for name, runs in others.items()
                if runs.files or runs.replaced
            },
        }
        doomed = [
            *(key for runs in (session_runs, *others.values()) for key in runs.replaced),
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
        """Put one run with the names of all packed entries that may still be there."""
        files = newest.table(FOLDED.name).runs
        if not changes.folded:
            return _Runs(files)
        names = changes.folded | (self._archive.folded(newest) - changes.swept)
        stored = self._put(FOLDED, iter(sorted(names)), 0)
        return _Runs((stored,), [run_key(self._app, FOLDED.name, run.id) for run in files])

    def _dropped(self, newest: Manifest, keep: Keep) -> Iterator[Change]:
        """Yield what becomes of the sessions that are packed and to be erased."""
        files = newest.table(EVENTS.name).runs if keep.erased else ()
        for row in self._archive.rows_in(EVENTS, self._app, files):
            if keep.session(row) is None:
                yield Change(row, replace(row, segments=()))

    def _new_rows(self, kind: Keyed[K], newest: Manifest, changes: Changes) -> dict[Place, K]:
        """Return those rows that are later than what is packed of their keys, one a key."""
        rows: list[K] = changes.keyed.get(kind.name, [])
        # Another job may have packed their entries first, and pruned what it had packed.
        packed = self._archive.folded(newest) if kind.is_final and rows else frozenset()
        found: dict[Place, K] = {}
        for row in rows:
            place = kind.place(row)
            if self._archive.has_erased(newest, row) or kind.name_of(row) in packed:
                continue
            if place not in found or kind.precedes(found[place], row):
                found[place] = row
        for place, known in self._archive.rows_at(kind, newest, found).items():
            if not kind.precedes(known, found[place]):
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
