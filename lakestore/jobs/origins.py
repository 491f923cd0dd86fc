"""Whether runs that no manifest names tell of anything that nothing else holds.

Where a job has died they do not: its logs and entries are there still. Where one does, the manifest
that has named it is lost: sweeps had deleted what was packed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import (
    ERASED,
    EVENTS,
    FOLDED,
    KEYED,
    PREVIOUS,
    Archive,
    Keyed,
    Kind,
    Packed,
    Place,
)
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_rollup, plan_of
from lakestore.history.keyed import KeyedRow
from lakestore.history.logged import FILES, LOGGED, SESSIONS, rows_at
from lakestore.history.runs import ARTIFACTS
from lakestore.log.commits import LogFiles, list_logs
from lakestore.log.entries import Entry, list_entries
from lakestore.log.keys import (
    Scope,
    app_logs,
    app_manifests,
    app_runs,
    commit_key,
    log_digest,
    manifest_key,
    rollup_key,
    table_of,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables import artifacts
from lakestore.tables.artifacts import ArtifactRow
from lakestore.tables.erased import ErasedRow
from lakestore.tables.parquet import open_parquet, read_groups
from lakestore.tables.runs import SessionRow

K = TypeVar("K", bound=KeyedRow)
R = TypeVar("R")


class Origins:
    """What a manifest of an app, and its logs and entries, hold."""

    def __init__(self, environment: Environment, archive: Archive, manifest: Manifest) -> None:
        """Take the newest manifest; its number is 0 where there is none."""
        self._env = environment
        self._store = environment.store
        self._archive = archive
        self._manifest = manifest
        self._app = manifest.app_name

    def without(self, keys: Iterable[str]) -> str:
        """Return the first run among `keys` that tells of what they do not hold; "" for none.

        Packs without a run never counted: a job puts its runs after them. Of an app without a
        manifest a run that cannot be read may tell of anything.

        Raises:
            NotFoundError, FormatError, StorageError: see `Archive.session`.
        """
        runs = (key for key in keys if key.startswith(app_runs(self._app)))
        return next((key for key in runs if not (self._has_origin(key) or self._precedes(key))), "")

    def _precedes(self, run: str) -> bool:
        """Tell whether a run was there before the newest manifest: no later one has named it.

        What it tells of and nothing else holds has gone since: it was forgotten, pruned or swapped.
        Of a manifest that was copied back its own time tells, of one by a clock ahead the store's.
        """
        if not self._manifest.number:
            return False
        key = manifest_key(self._app, self._manifest.number)
        manifest = next((one for one in self._store.list(key) if one.key == key), None)
        stored = next((one for one in self._store.list(run) if one.key == run), None)
        if manifest is None or stored is None:
            return False
        return stored.modified < min(manifest.modified, self._manifest.created_at / 1_000_000)

    def _has_origin(self, run: str) -> bool:
        table = table_of(run)
        if table == EVENTS.name:
            return self._hold(EVENTS, run, self._hold_sessions)
        if table == ARTIFACTS.name:
            return self._hold(ARTIFACTS, run, self._hold_artifacts)
        if table == ERASED.name:
            return self._hold(ERASED, run, self._hold_erased)
        for keyed in KEYED:
            if table == keyed.name:
                return self._hold(keyed, run, partial(self._hold_keyed, keyed))
        # What only saves work, or was put aside to be brought back.
        return table in (FOLDED.name, PREVIOUS.name)

    def _hold(self, kind: Kind[R], run: str, hold: Callable[[list[R]], bool]) -> bool:
        for rows in self._groups(kind, run):
            if rows is None:
                return bool(self._manifest.number)
            if not hold(rows):
                return False
        return True

    def _groups(self, kind: Kind[R], run: str) -> Iterator[list[R] | None]:
        """Yield the rows of each row group of a run, None for one that cannot be read."""
        try:
            file = open_parquet(self._store.get(run), kind.schema)
            for group in range(file.num_row_groups):
                yield kind.from_table(read_groups(file, [group]))
        except NotFoundError:  # swept just now
            return
        except (FormatError, UnreadableError):
            yield None

    def _hold_sessions(self, rows: Sequence[SessionRow]) -> bool:
        packed = self._archive.sessions_at(self._manifest, map(EVENTS.place, rows))
        erased = self._archive.erased(self._manifest)
        missing = {}
        for row in rows:
            log, below = SESSIONS.log(row), packed.get(EVENTS.place(row))
            gone = erased.get(log_digest(log)) if erased else None
            known = max(below.row.version if below else 0, gone.version if gone else 0)
            if known < row.version:
                missing[log] = (row.version, below)
        logs = self._logs(app_logs(self._app), missing)
        return all(
            self._reaches(log, logs.get(log, LogFiles()), *wanted)
            for log, wanted in missing.items()
        )

    def _hold_artifacts(self, rows: Sequence[ArtifactRow]) -> bool:
        packed = rows_at(self._archive, FILES, self._manifest, map(ARTIFACTS.place, rows))
        known = {FILES.log(row): row.version for row in packed.values()}
        missing = {
            log: row.version for row in rows if known.get(log := FILES.log(row), 0) < row.version
        }
        logs = self._logs(FILES.logs(self._app), missing)

        def tells(log: str) -> bool:
            """Whether the newest commit is there, and builds on nothing more than is known."""
            newest = max(logs.get(log, LogFiles()).commits, default=0)
            if newest < missing[log]:
                return False
            try:
                body = self._store.get(commit_key(log, newest))
            except NotFoundError:  # there is a newer one
                return True
            return artifacts.decode_commit(body).base <= known.get(log, 0)

        return all(self._env.pool.map(tells, list(missing), near=self._store.near))

    def _logs(self, prefix: str, wanted: Collection[str]) -> dict[str, LogFiles]:
        """Return what is listed of some logs that mostly lie side by side."""
        if not wanted:
            return {}
        listed = list_logs(self._store, prefix, min(wanted), max(wanted))
        return {log: files for log, files in listed if log in wanted}

    def _reaches(self, log: str, files: LogFiles, version: int, packed: Packed | None) -> bool:
        """Tell whether a log goes on above what is packed of it up to a version."""
        plan = plan_of(log, files, packed)
        if plan.newest < version:
            return False
        if plan.rollup is None:
            return True
        try:
            body = self._store.get(rollup_key(log, plan.rollup))
        except NotFoundError:  # there is a newer one
            return True
        rollup = decode_rollup(log, plan.rollup, body)
        return rollup.follows(packed.row.version if packed else 0)

    def _hold_keyed(self, kind: Keyed[K], rows: Sequence[K]) -> bool:
        missing: dict[str, list[K]] = {}
        for row in self._unheld(kind, rows):
            if not self._archive.has_erased(self._manifest, row):
                scope = Scope(self._app, row.user_id).entries_in(kind.entries)
                missing.setdefault(scope, []).append(row)
        entries = self._entries(kind, missing)
        return all(
            self._has_set(kind, row, entries.get(scope, ()))
            or self._archive.has_erased(self._manifest, row)
            for scope, some in missing.items()
            for row in some
        )

    def _unheld(self, kind: Keyed[K], rows: Sequence[K]) -> list[K]:
        """Return those that the manifest names no such row of, nor can be derived again."""
        left = [row for row in rows if not kind.is_derived(row)]
        for each in (kind, kind.beside):
            if each is not None:
                packed = self._archive.rows_at(each, self._manifest, map(kind.place, left))
                left = [row for row in left if not _is_held(kind, packed, row)]
        return left

    def _entries(self, kind: Keyed[Any], wanted: Collection[str]) -> dict[str, list[Entry]]:
        """Return what is listed of some scopes that mostly lie side by side."""
        if not wanted:
            return {}
        found: dict[str, list[Entry]] = {}
        last = max(wanted)
        for scope, entry in list_entries(self._store, kind.prefix(self._app), min(wanted)):
            if scope > last:
                break
            if scope in wanted:
                found.setdefault(scope, []).append(entry)
        return found

    def _has_set(self, kind: Keyed[K], row: K, entries: Sequence[Entry]) -> bool:
        """Tell whether an entry is the one that `row` is from, or a fold has a later value."""
        if any(entry.stamp == row.stamp and not entry.is_fold for entry in entries):
            return True
        place = kind.place(row)
        for entry in entries:
            if entry.is_fold:
                with suppress(NotFoundError):  # there is a newer one
                    for other in kind.read(entry.key, self._store.get(entry.key)):
                        if kind.place(other) == place and other.stamp >= row.stamp:
                            return True
        return False

    def _hold_erased(self, rows: Sequence[ErasedRow]) -> bool:
        """Tell whether sessions and artifacts have ended that were to be erased.

        What was remembered of their user ends with them, by a time that no log tells: an eraser
        that has died before it had published leaves it as well.
        """
        known = self._archive.erased(self._manifest)
        missing = {
            row.digest: row.version
            for row in rows
            if not row.is_of_time
            and (row.digest not in known or known[row.digest].version < row.version)
        }
        for logged in LOGGED if missing else ():
            for log, files in list_logs(self._store, logged.logs(self._app)):
                if max(files.commits, default=0) >= missing.get(log_digest(log), 0):
                    missing.pop(log_digest(log), None)
        return not missing


def _is_held(kind: Keyed[K], packed: Mapping[Place, K], row: K) -> bool:
    """Tell whether what is packed at the place of a row is that, or later.

    Of a key that a dead job has pruned the value is still there, with its stamp.
    """
    held = packed.get(kind.place(row))
    return held is not None and held.stamp >= row.stamp


class Predecessors:
    """Refuses to build on a manifest where a later one is lost: sweeps would go by what comes."""

    def __init__(self, environment: Environment, archive: Archive) -> None:
        """Look for one job."""
        self._env = environment
        self._archive = archive
        self._held: set[str] = set()
        """Runs that no manifest names and that tell of nothing else."""

    def check(self, newest: Manifest, runs: Iterable[StoredObject]) -> None:
        """Look at the runs that the newest manifest does not name.

        Beside a manifest only old ones count: what younger ones tell of is in logs and entries
        still, from which nothing may be deleted for what a young manifest says. Which is old is
        told by this machine's clock: where that is wrong, one is looked at too early or too late.

        Args:
            newest: The newest manifest; its number is 0 where there is none.
            runs: All runs of its app, listed after it was found.

        Raises:
            FormatError: a later one is lost.
            NotFoundError: others publish and sweep.
        """
        known = {key for key, _ in newest.files()} | {each.key for each in newest.doomed}
        old = self._env.clock.wall() - self._env.limits.grace
        counted = (one for one in runs if not newest.number or one.modified < old)
        unnamed = {one.key for one in counted} - known - self._held
        run = Origins(self._env, self._archive, newest).without(sorted(unnamed)) if unnamed else ""
        prefix = app_manifests(newest.app_name)
        if run and self._archive.newest(prefix).number == newest.number:  # still
            raise FormatError(
                "the newest manifest of the app is lost: no older one, and no log, holds all that a"
                " run tells of. Restore it from a copy of the store; if there is no copy, delete"
                " the packs and runs that no manifest names, and go on with what is left."
                f" key={prefix!r} {run=}"
            )
        self._held |= unnamed
