"""Checks shared state: it must hold what every commit that is still known has set.

Owns what is missing and how it is completed: by an entry, or by a fold where a damaged entry has
the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.archive import STATE
from lakestore.history.entries import read_entry, shared_rows
from lakestore.history.sessions import Sessions
from lakestore.jobs.findings import Finding, Look, Severity
from lakestore.jobs.listings import grouped
from lakestore.log.entries import Entry, parse_entry, put_entry
from lakestore.log.keys import Scope, app_entries, app_manifests, run_key
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables import state
from lakestore.tables.events import EventRow
from lakestore.tables.state import StateRow

_ENTRIES_AT_ONCE = 256
_SCOPES_REMEMBERED = 1_024


class StateCheck:
    """Compares what commits have set with what entries and runs hold."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._entries: dict[Scope, dict[str, str]] = {}
        self._packed: dict[Scope, Mapping[str, str]] = {}
        self._expected: dict[Scope, dict[str, StateRow]] = {}
        self._damaged: dict[str, tuple[str, str]] = {}
        """By stamp: the key of an entry that cannot be read, and why."""
        self._known: set[str] = set()
        """Stamps of damaged entries whose commits were met."""

    def read_entries(self, manifest: Manifest | None) -> None:
        """Read all entries that there are; of each key the latest stamp is remembered.

        What erased sessions have set, by what `manifest` says, counts for nobody. None: not known.

        Raises:
            StorageError: the store failed.
        """
        keys: list[str] = []
        for _, listed in grouped(self._look.env.store.list(app_entries(self._look.app))):
            for one in listed:
                if parse_entry(one.key) is None:
                    self._look.findings.stray(one.key)
                    continue
                keys.append(one.key)
                if len(keys) >= _ENTRIES_AT_ONCE:
                    self._read_some(keys, manifest)
                    keys = []
        self._read_some(keys, manifest)

    def _read_some(self, keys: Sequence[str], manifest: Manifest | None) -> None:
        found = self._look.env.pool.map(self._read, keys, near=self._look.env.store.near)
        for rows in found:
            self._look.objects += 1
            for row in rows:
                if manifest is not None and self._look.archive.has_erased(manifest, row):
                    continue
                held = self._entries.setdefault(Scope(row.app_name, row.user_id), {})
                held[row.key] = max(row.stamp, held.get(row.key, ""))
        self._look.progress("shared state", self._look.objects, None)

    def _read(self, key: str) -> list[StateRow]:
        try:
            return read_entry(key, self._look.env.store.get(key))
        except NotFoundError:  # swept just now: what covers it is there
            return []
        except (FormatError, UnreadableError) as error:
            entry = parse_entry(key)
            assert entry is not None
            self._damaged[entry.stamp] = (key, str(error))
            return []

    def expect(self, rows: Iterable[EventRow]) -> None:
        """Note what the commits with `rows`, in commit order, have set."""
        for _, commit in groupby(rows, key=lambda row: row.version):
            for scope, found in shared_rows(list(commit)).items():
                expected = self._expected.setdefault(scope, {})
                for row in found:
                    if row.stamp in self._damaged:
                        self._known.add(row.stamp)
                    known = expected.get(row.key)
                    if known is None or known.precedes(row):
                        expected[row.key] = row

    def settle(self, manifest: Manifest) -> None:
        """Compare what was expected since the last call with what there is.

        Raises:
            StorageError: the store failed.
        """
        expected, self._expected = self._expected, {}
        if self._is_unknown(manifest):
            return
        unknown = [scope for scope in expected if scope not in self._packed]
        if unknown:
            if len(self._packed) > _SCOPES_REMEMBERED:
                self._packed.clear()
                unknown = list(expected)
            self._packed.update(self._read_packed(manifest, unknown))
        for scope, rows in expected.items():
            held = self._entries.get(scope, {})
            missing = [
                row
                for row in rows.values()
                if max(held.get(row.key, ""), self._packed[scope].get(row.key, "")) < row.stamp
            ]
            if missing:
                self._look_again(scope, missing)

    def _is_unknown(self, manifest: Manifest) -> bool:
        """Tell whether what is packed of shared state cannot be read."""
        runs = manifest.table(STATE.name).runs
        return any(
            run_key(self._look.app, STATE.name, run.id) in self._look.damaged for run in runs
        )

    def _read_packed(
        self, manifest: Manifest, scopes: Sequence[Scope]
    ) -> dict[Scope, dict[str, str]]:
        if not manifest.number:
            return {scope: {} for scope in scopes}
        try:
            found = self._look.archive.state(manifest, scopes)
        except NotFoundError:  # it was packed again meanwhile: what is missing is looked at again
            return {scope: {} for scope in scopes}
        return {scope: {row.key: row.stamp for row in rows} for scope, rows in found.items()}

    def _look_again(self, scope: Scope, missing: Sequence[StateRow]) -> None:
        """Tell what is missing now, as a process reads it that has read nothing before."""
        fold = Sessions(self._look.env).shared.read([scope])[scope]
        lost = [
            row for row in missing if row.key not in fold.rows or fold.rows[row.key].precedes(row)
        ]
        manifest = self._look.archive.newest(app_manifests(self._look.app))
        # Erased since its commit was read.
        lost = [row for row in lost if not self._look.archive.has_erased(manifest, row)]
        for stamp in sorted({row.stamp for row in lost}):
            self._tell(scope, stamp, [row for row in lost if row.stamp == stamp])

    def _tell(self, scope: Scope, stamp: str, rows: Sequence[StateRow]) -> None:
        if not self._look.repair and self._is_under_way(stamp):
            return
        self._look.findings.add(
            Finding(
                "mendable",
                "missing entry",
                scope.entries,
                f"what a commit has set is in no entry and in no run. {stamp=}",
                f"{len(rows)} keys of shared state show an older value, or none, until the session"
                " is opened",
                "check with repair, or open the session",
                repaired=self._look.repair and self._put(scope, stamp, rows),
            )
        )

    def _is_under_way(self, stamp: str) -> bool:
        """Tell whether its writer may be about to put the entry, as far as clocks can tell."""
        age = self._look.env.clock.wall() - int(stamp.partition("-")[0]) / 1e6
        return 0 <= age < self._look.env.limits.view_age

    def _put(self, scope: Scope, stamp: str, rows: Sequence[StateRow]) -> bool:
        is_taken = stamp in self._damaged
        name = f"{stamp[:-16]}{self._look.env.new_token()}" if is_taken else stamp
        body = state.encode(list(rows))
        try:
            env = self._look.env
            put_entry(
                env.store,
                scope.entries,
                name,
                body,
                fold=is_taken,
                clock=env.clock,
                metrics=env.metrics,
            )
        except StorageError:
            return False
        return True

    def finish(self, manifest: Manifest) -> None:
        """Tell which entries are damaged, when all commits have been met."""
        for stamp, (key, reason) in self._damaged.items():
            entry = parse_entry(key)
            assert entry is not None
            severity: Severity
            if self._is_packed(manifest, entry):
                severity, cost = "note", "nothing: a run holds what it held"
                remedy = "yours to delete"
            elif stamp in self._known:
                severity, cost = "note", "nothing: its commit is known, and its keys were compared"
                remedy = "yours to delete once the check finds nothing missing"
            else:
                severity, cost = "lost", "what it set in shared state may show an older value"
                remedy = "restore it from a copy of the store"
            self._look.findings.add(Finding(severity, "damaged entry", key, reason, cost, remedy))

    def _is_packed(self, manifest: Manifest, entry: Entry) -> bool:
        """Tell whether a run has the commit of a damaged entry, as far as that is known."""
        if self._is_unknown(manifest):
            return False
        if self._look.archive.has_folded(manifest, entry.key):
            return True
        folder = entry.key[: entry.key.rindex("/") + 1]
        scopes = [scope for scope in {*self._entries, *self._packed} if scope.entries == folder]
        packed = self._read_packed(manifest, scopes)
        return any(entry.stamp in held.values() for held in packed.values())
