"""What a job wants to publish, and how it becomes the next manifest.

Owns what of it counts, and how much of each pack is dead. A change of a session or artifact counts
only if what it was made from is still what the newest manifest says, so a job that lost the race
for a number keeps all that the winner has not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from lakestore.errors import ConflictError, LakeError, NotFoundError
from lakestore.history.archive import (
    ERASED,
    EVENTS,
    FOLDED,
    KEYED,
    Archive,
    Keyed,
    Place,
)
from lakestore.history.environment import Environment
from lakestore.history.erased import newest_of
from lakestore.history.logged import FILES, LOGGED, SESSIONS, Logged, LogRow, rows_at
from lakestore.history.runs import ARTIFACTS
from lakestore.jobs.erasure import Keep
from lakestore.jobs.new_rows import NewRows
from lakestore.jobs.origins import Predecessors
from lakestore.jobs.run_files import RUN_GROUP_ROWS, WHOLE_BELOW, Runs, RunWriter
from lakestore.jobs.swapping import Comparison, Pairing, Swap
from lakestore.log.keys import (
    app_manifests,
    app_packs,
    app_runs,
    log_digest,
    pack_key,
    run_key,
)
from lakestore.log.manifests import Manifest, StoredFile, TableFiles, publish
from lakestore.storage import StoredObject
from lakestore.tables.artifacts import ArtifactRow
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow

L = TypeVar("L", bound=LogRow)

_ATTEMPTS = 8
WORTH_FORGETTING = 512
"""How many names of entries that are not there any more are worth a manifest without them."""


@dataclass(frozen=True, slots=True)
class Change(Generic[L]):
    """What a job makes of one log, a session's or an artifact's."""

    before: L | None
    """What it was made from; None when nothing of the log was packed."""
    after: L
    """What is known of it then."""


@dataclass(slots=True)
class Changes:
    """What a job makes of an app; the packs it names are stored already."""

    sessions: dict[Place, Change[SessionRow]] = field(default_factory=dict)
    artifacts: dict[Place, Change[ArtifactRow]] = field(default_factory=dict)
    packs: list[StoredFile] = field(default_factory=list)
    keyed: dict[str, list[Any]] = field(default_factory=dict)
    """By table of keyed rows what is to be packed, in any order; what is known already may be among
    it."""
    pruned: dict[str, Callable[[Any], bool]] = field(default_factory=dict)
    """By table of keyed rows, which of those that are packed go."""
    erased: dict[str, ErasedRow] = field(default_factory=dict)
    """Sessions and artifacts that are to be known by the digests of their logs only; nothing of
    them is packed any more."""
    doomed: list[str] = field(default_factory=list)
    """Objects that nobody refers to and that may be deleted."""
    forgotten: dict[Place, SessionRow] = field(default_factory=dict)
    """Rows of deleted sessions that nobody needs any more, if they are still as they were."""
    folded: frozenset[str] = frozenset()
    """The names of the entries of which all is in `keyed`."""
    swept: frozenset[str] = frozenset()
    """The names of entries that were packed, and are not there any more."""
    swap: Swap | None = None
    """What a rebuild puts in place of what was remembered, or a restore brings back."""
    keeps_previous: bool = True
    """Whether what rebuilds have put aside can still be brought back."""
    looked: int | None = None
    """When a sweep has looked for such rows, see `Manifest`; None for none did."""

    def add(self, change: Change[SessionRow]) -> None:
        """Take one more session's."""
        self.sessions[EVENTS.place(change.after)] = change

    def of(self, logged: Logged[Any]) -> Mapping[Place, Change[Any]]:
        """Return those of one table."""
        return self.sessions if logged is SESSIONS else self.artifacts


_Kept = Mapping[Logged[Any], Mapping[Place, Change[Any]]]
"""By table the changes that count."""


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
        self._writer = RunWriter(environment, archive, app_name, whole_below, group_rows)
        self._predecessors = Predecessors(environment, archive)
        self.published: frozenset[Place] = frozenset()
        """Which sessions' changes counted, in what was published last."""
        self.published_rows: Mapping[str, frozenset[Place]] = {}
        """By table of keyed rows, which of them were new in it."""
        self.comparison = Comparison()
        """How both sides of a swap differed in it."""

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
            if changes.swap is not None:
                self._check_swap(changes.swap, newest)
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

    def _check_swap(self, swap: Swap, newest: Manifest) -> None:
        """Refuse one that was overtaken, and name what was put for it to be deleted.

        What it tells of may go by what has overtaken it: left without a name, it would look as if
        it were of a lost manifest.
        """
        try:
            swap.check(newest, self._archive.erased(newest))
        except ConflictError:
            lost = self._writer.stored.difference(key for key, _ in newest.files())
            if lost:
                with suppress(LakeError):
                    doomed = Changes(doomed=sorted(lost))
                    Publisher(self._env, self._archive, self._app).publish(doomed)
            raise

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
        kept = {logged: self._kept(logged, newest, changes.of(logged)) for logged in LOGGED}
        fresh = NewRows(self._archive, newest)
        rows = {kind: fresh.new(kind, changes.keyed.get(kind.name, [])) for kind in KEYED}
        self.published = frozenset(kept[SESSIONS])
        self.published_rows = {kind.name: frozenset(found) for kind, found in rows.items()}
        ends = {kind.name: fresh.ends(kind, found) for kind, found in rows.items()}
        forgotten = self._forgotten(newest, changes.forgotten)
        known = newest_of(self._archive.erased(newest), changes.erased)
        changes = replace(changes, erased={it: known[it] for it in changes.erased})
        keep = Keep(changes.erased, forgotten, changes.pruned, ends)
        looked = max(changes.looked or 0, newest.looked)
        named: tuple[object, ...] = (*kept.values(), *rows.values(), keep)
        named += (changes.doomed, changes.folded, changes.pruned, changes.swap)
        named += (not changes.keeps_previous, self._forgets(newest, changes))
        if not any(named) and looked == newest.looked:
            return None
        tables, doomed = self._files(newest, changes, (kept, rows, keep))
        following = newest.following(
            self._env.new_token(), int(self._env.clock.wall() * 1_000_000), tables
        )
        revived = newest.revived
        if revived:
            changed = {log_digest(SESSIONS.log(it.after)) for it in kept[SESSIONS].values()}
            revived = tuple(digest for digest in revived if digest not in changed)
        return replace(following, looked=looked, revived=revived).dooming(doomed)

    def _kept(
        self, logged: Logged[L], newest: Manifest, changes: Mapping[Place, Change[L]]
    ) -> Mapping[Place, Change[L]]:
        """Return the changes of logs that are still as they were."""
        before = rows_at(self._archive, logged, newest, changes)
        return {
            place: change for place, change in changes.items() if before.get(place) == change.before
        }

    def _files(
        self,
        newest: Manifest,
        changes: Changes,
        rows: tuple[_Kept, Mapping[Keyed[Any], Mapping[Place, Any]], Keep],
    ) -> tuple[dict[str, TableFiles], list[str]]:
        """Put runs with some rows; return what each table has then, and what is needless."""
        kept, keyed, keep = rows
        counted = [*kept[SESSIONS].values(), *self._dropped(newest, keep)]
        packs, empty = _packs(newest.table(EVENTS.name).packs, changes.packs, counted)
        sessions, artifacts = (_after(kept[logged]) for logged in (SESSIONS, FILES))
        gone = [changes.erased[digest] for digest in sorted(changes.erased)]
        session_runs = self._writer.runs(EVENTS, newest, sessions, keep.session if keep else None)
        others = self._keyed(newest, changes, keyed, keep)
        others[ARTIFACTS.name] = self._writer.runs(ARTIFACTS, newest, artifacts, keep.logged(FILES))
        others[ERASED.name] = self._writer.runs(ERASED, newest, gone)
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

    def _keyed(
        self,
        newest: Manifest,
        changes: Changes,
        rows: Mapping[Keyed[Any], Mapping[Place, Any]],
        keep: Keep,
    ) -> dict[str, Runs]:
        """Put runs with the new `rows` of tables of keyed rows; return what each has then."""
        found: dict[str, Runs] = {}
        for kind, new in rows.items():
            kept, beside = keep.keyed(kind), kind.beside
            found[kind.name] = self._writer.runs(
                kind, newest, [new[it] for it in sorted(new)], kept
            )
            if beside is not None:
                drop = kept if changes.keeps_previous else _nothing
                has_some = bool(newest.table(beside.name).runs)
                found[beside.name] = self._writer.runs(
                    beside, newest, (), drop if has_some else None
                )
        if changes.swap is not None:
            pairing = Pairing(self._archive, newest, changes.swap)
            found.update(pairing.put(self._writer))
            self.comparison = pairing.comparison
        return found

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

    def _folded(self, newest: Manifest, changes: Changes) -> Runs:
        """Put one run with the names of all packed entries that may still be there."""
        files = newest.table(FOLDED.name).runs
        if not changes.folded and not self._forgets(newest, changes):
            return Runs(files)
        names = changes.folded | (self._archive.folded(newest) - changes.swept)
        stored = [self._writer.put(FOLDED, iter(sorted(names)), 0)] if names else []
        return Runs(tuple(stored), [run_key(self._app, FOLDED.name, run.id) for run in files])

    def _forgets(self, newest: Manifest, changes: Changes) -> bool:
        """Tell whether so many names of entries are needless that a manifest is worth it."""
        if len(changes.swept) < WORTH_FORGETTING:
            return False
        named = self._archive.folded(newest)
        return 2 * len(changes.swept & named) >= max(len(named), WORTH_FORGETTING)

    def _dropped(self, newest: Manifest, keep: Keep) -> Iterator[Change[SessionRow]]:
        """Yield what becomes of the sessions that are packed and to be erased."""
        files = newest.table(EVENTS.name).runs if keep.erased else ()
        for row in self._archive.rows_in(EVENTS, self._app, files):
            if keep.session(row) is None:
                yield Change(row, replace(row, segments=()))


def _packs(
    packs: Sequence[StoredFile],
    new: Sequence[StoredFile],
    changes: Iterable[Change[SessionRow]],
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


def _after(changes: Mapping[Place, Change[L]]) -> list[L]:
    """Return what is known of logs after changes, in the order of runs."""
    return [changes[place].after for place in sorted(changes)]


def _nothing(_row: object) -> None:
    """Keep no row."""
