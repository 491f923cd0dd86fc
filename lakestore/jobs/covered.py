"""What an old manifest, or old rollups and folds, cover of an app's logs and entries: it goes.

Works through listings piece by piece, so that memory is bounded by a piece. What a pack covers goes
only after the pack was read and found to be what its manifest says: then nothing else holds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lakestore.errors import NotFoundError
from lakestore.history.archive import ERASED, EVENTS, KEYED, STATE, Archive, Keyed
from lakestore.history.entries import decode_entry
from lakestore.history.environment import Environment
from lakestore.history.logged import SESSIONS, rows_of_logs
from lakestore.history.needless import Age, is_held, needless_by_pack, needless_by_rollup
from lakestore.jobs.listings import OBJECTS_AT_ONCE, grouped, logs_in, pieces
from lakestore.jobs.removing import Remover
from lakestore.log.entries import name_of, parse_entry
from lakestore.log.keys import (
    Scope,
    app_entries,
    app_logs,
    pack_key,
    parse_log_name,
    run_key,
)
from lakestore.log.manifests import Manifest, StoredFile
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow, latest

_ENTRIES_AT_ONCE = 1_024
_READ_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class _OldPart:
    """Entries of one scope that something old may hold."""

    entries: Mapping[str, StoredObject]
    """By key."""
    fold: str
    """The newest old fold, "" when there is none."""


class Covered:
    """Sweeps the logs and entries of one app."""

    def __init__(
        self,
        environment: Environment,
        archive: Archive,
        manifest: Manifest,
        created: float,
        age: Age,
        remover: Remover,
    ) -> None:
        """Take the newest `manifest` that is old enough, created at `created` (the store's time).

        Its number is 0 when there is none.
        """
        self._env = environment
        self._archive = archive
        self._manifest = manifest
        self._created = created
        self._age = age
        self._remover = remover
        self._proven: dict[str, bool] = {}

    def sweep_logs(self) -> None:
        """Delete commits and rollups that the manifest, or a newer and old rollup, covers.

        What is at or below an erased version is covered, whenever it lands.

        Raises:
            NotFoundError: the manifest was superseded and what it names swept: begin again.
            FormatError: a run is damaged.
            StorageError: the store failed.
        """
        listed = self._env.store.list(app_logs(self._manifest.app_name))
        for piece in pieces(logs_in(listed), OBJECTS_AT_ONCE):
            rows = rows_of_logs(self._archive, SESSIONS, self._manifest, [log for log, _ in piece])
            needless = [one for log, listed in piece for one in self._needless(log, listed, rows)]
            for kind, is_rollup in (("commits", False), ("rollups", True)):
                chosen = [one for one in needless if _is_rollup(one) == is_rollup]
                self._remover.remove(kind, chosen)

    def _needless(
        self, log: str, listed: Sequence[StoredObject], rows: Mapping[str, SessionRow]
    ) -> Iterable[StoredObject]:
        found = {one.key: one for one in needless_by_rollup(log, listed, self._age)}
        row = rows.get(log)
        # What lands in a log that was seen empty stays until a manifest says that it is not: the
        # row may be gone by now, and this be a session that began anew.
        covers = row is not None and row.emptied_at is None
        packed = needless_by_pack(log, listed, row.version) if row and covers else []
        if row and packed and self._holds(row, log, packed):
            found.update({one.key: one for one in packed})
        return found.values()

    def _holds(self, row: SessionRow, log: str, packed: Sequence[StoredObject]) -> bool:
        """Tell whether the packs that hold what is about to go are whole."""
        versions = [
            parsed[0] for one in packed if (parsed := parse_log_name(one.key.removeprefix(log)))
        ]
        needed = {
            segment.pack
            for segment in row.segments
            if segment.last_version >= min(versions) and segment.first_version <= max(versions)
        }
        return all(self._is_whole(pack) for pack in sorted(needed))

    def _is_whole(self, pack_id: str) -> bool:
        if pack_id not in self._proven:
            pack = self._manifest.table(EVENTS.name).pack(pack_id)
            key = pack_key(self._manifest.app_name, EVENTS.name, pack_id)
            whole = digest_of(self._env, key, pack.size) == pack.digest
            if not whole:
                self._remover.note(f"a pack is damaged; what it was made of stays. {key=}")
            self._proven[pack_id] = whole
        return self._proven[pack_id]

    def sweep_entries(self) -> None:
        """Delete entries that the manifest, or an old fold, makes needless.

        What an erased session has set is needless, whenever it lands.

        Raises:
            NotFoundError, FormatError, StorageError: see `sweep_logs`.
        """
        scopes = grouped(self._env.store.list(app_entries(self._manifest.app_name)))
        for piece in pieces(scopes, _ENTRIES_AT_ONCE):
            self._sweep_scopes([self._old_part(listed) for _, listed in piece])
        for kind in KEYED:
            if kind.is_final:
                self._sweep_named(kind)

    def _sweep_named(self, kind: Keyed[Any]) -> None:
        """Delete entries that the manifest names: they are not read, their newest run is."""
        runs = self._manifest.table(kind.name).runs
        named: frozenset[str] | None = None
        prefix = kind.prefix(self._manifest.app_name)
        for piece in pieces(grouped(self._env.store.list(prefix)), _ENTRIES_AT_ONCE):
            if named is None:
                named = self._archive.folded(self._manifest)
            listed = [one for _, some in piece for one in some if parse_entry(one.key)]
            needless = [one for one in listed if name_of(one.key) in named]
            if needless and not all(self._is_whole_run(kind, run) for run in runs[:1]):
                self._remover.note(f"a run is damaged; what it was made of stays. key={prefix!r}")
                return
            self._remover.remove("entries", needless)

    def _is_whole_run(self, kind: Keyed[Any], run: StoredFile) -> bool:
        key = run_key(self._manifest.app_name, kind.name, run.id)
        if key not in self._proven:
            self._proven[key] = digest_of(self._env, key, run.size) == run.digest
        return self._proven[key]

    def _old_part(self, listed: Sequence[StoredObject]) -> _OldPart:
        """Return what of a scope's entries is old enough to be looked at."""
        entries = {entry: one for one in listed if (entry := parse_entry(one.key)) is not None}
        folds = [
            entry for entry, one in entries.items() if entry.is_fold and self._age.reaches(one)
        ]
        has_run = bool(self._manifest.table(STATE.name).runs)
        # What came after both is in neither, or need not be looked at today.
        until = max([self._created if has_run else 0.0, *(entries[f].modified for f in folds[-1:])])
        if self._manifest.table(ERASED.name).runs:
            until = math.inf  # what an erased session has set may still land
        old = {entry.key: one for entry, one in entries.items() if one.modified <= until}
        return _OldPart(old, folds[-1].key if folds else "")

    def _sweep_scopes(self, parts: Sequence[_OldPart]) -> None:
        keys = [key for part in parts for key in part.entries]
        found = self._env.pool.map(self._read_entry, keys, near=self._env.store.near)
        read = dict(zip(keys, map(self._counting, found), strict=True))
        void = {key for key, rows in zip(keys, found, strict=True) if rows and not read[key]}
        scopes = {Scope(rows[0].app_name, rows[0].user_id) for rows in read.values() if rows}
        packed = self._archive.state(self._manifest, sorted(scopes, key=repr))
        for part in parts:
            scope = next((_scope(read[key]) for key in part.entries if read[key]), None)
            by_run = latest(packed[scope]) if scope else {}
            by_both = latest([*by_run.values(), *read.get(part.fold, ())])
            # The fold cannot vouch for itself.
            needless = [
                one
                for key, one in part.entries.items()
                if key in void or is_held(read[key], by_run if key == part.fold else by_both)
            ]
            self._remover.remove("entries", needless)

    def _counting(self, rows: Sequence[StateRow]) -> list[StateRow]:
        """Return those of `rows` that no erased session has set: others count for nobody."""
        return [row for row in rows if not self._archive.has_erased(self._manifest, row)]

    def _read_entry(self, key: str) -> list[StateRow]:
        try:
            return decode_entry(key, self._env.store.get(key))
        except (NotFoundError, UnreadableError):  # swept already; or it may hold anything
            return []


def digest_of(environment: Environment, key: str, size: int) -> str:
    """Return the SHA-256 of an object; "" if it is not there, closed to us, or too short."""
    try:
        return read_digest(environment, key, size)
    except (NotFoundError, UnreadableError):
        return ""


def read_digest(environment: Environment, key: str, size: int) -> str:
    """Return the SHA-256 of an object, read in pieces; "" if it is too short.

    Raises:
        NotFoundError: it is not there.
        StorageError: the store failed, or (`UnreadableError`) it is closed to us.
    """
    digest = sha256()
    for start in range(0, size, _READ_BYTES):
        length = min(_READ_BYTES, size - start)
        body = environment.store.get_range(key, start, length)
        if len(body) < length:
            return ""
        digest.update(body)
    return digest.hexdigest()


def _is_rollup(stored: StoredObject) -> bool:
    parsed = parse_log_name(stored.key.rpartition("/")[2])
    return parsed is not None and parsed[1]


def _scope(rows: Sequence[StateRow]) -> Scope:
    return Scope(rows[0].app_name, rows[0].user_id)
