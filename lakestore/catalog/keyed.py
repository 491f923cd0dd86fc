"""Following entries and runs of tables of keyed rows, for SQL.

Owns that no row is missing while entries become runs and are swept, and what is read of them. That
none is shown twice is `lakestore.catalog.keyed_tables`'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa

from lakestore.catalog.database import Database
from lakestore.catalog.following import damage_of, paths_by_app, tell, until_shown
from lakestore.catalog.keyed_tables import SHOWN, Shown
from lakestore.catalog.packs import Packs
from lakestore.catalog.source import Source
from lakestore.errors import FormatError, LakeError
from lakestore.log.entries import is_fold, list_entries, name_of
from lakestore.log.keys import Scope, SessionKey, entry_key, is_stamp, log_digest, run_key
from lakestore.log.manifests import Manifest, StoredFile
from lakestore.storage import UnreadableError
from lakestore.tables import folded
from lakestore.tables.parquet import open_parquet, read_groups

_ENTRIES_AT_ONCE = 1_024
_FOLDED = "folded"


@dataclass(slots=True)
class FollowedRows:
    """What a database shows of these tables."""

    held: dict[str, frozenset[str]] = field(default_factory=dict)
    """By table, the keys of the entries whose rows are held."""
    runs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By table, the keys of the runs that are scanned."""
    folded: dict[str, frozenset[str]] = field(default_factory=dict)
    """By the key of a run, the names of the entries that it says are packed."""
    erased: int = 0
    """How many sessions were known to be erased."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By its key, why something cannot be read."""


class KeyedRows:
    """Brings a database up to what entries and the newest manifests say, in one pass.

    Entries are listed before the manifests are asked for: what is swept in between is in the runs
    of newer ones.
    """

    def __init__(self, source: Source, database: Database, known: FollowedRows) -> None:
        """Begin to list entries, of each table by one listing; `known` is what is shown now."""
        self._source = source
        self._store = source.store
        self._database = database
        self._tables = database.keyed
        self._known = known
        # As they are inside the change: a round that is begun again has made some of it.
        self._held = dict(known.held)
        self._scanned = dict(known.runs)
        self._has_new = False
        self._joined = {name: bool(known.runs[name] or known.held[name]) for name in known.runs}
        self._list()

    def _list(self) -> None:
        def keys(table: Shown) -> list[str]:
            return [entry.key for _, entry in list_entries(self._store, table.entries)]

        def listing(table: Shown) -> Future[list[str]]:
            return self._source.pool.start(lambda: keys(table), near=self._store.near)

        self._listings = {table.name: listing(table) for table in SHOWN}

    def follow(self, packs: Packs) -> FollowedRows:
        """Show what there is, inside `change`; return what is known once that has ended.

        What is damaged is named in an error that is logged once, and tried again each time.

        Args:
            packs: Has followed the manifests since this pass began.

        Raises:
            StorageError: the store failed, or jobs were faster.
        """

        def renew() -> None:
            self._list()
            packs.follow()

        shown = until_shown(self._source, lambda: self._show_all(packs), renew)
        tell(shown.damaged, self._known.damaged)
        return shown

    def _show_all(self, packs: Packs) -> FollowedRows:
        shown = FollowedRows(erased=len(packs.erased))
        for table in SHOWN:
            listed = [key for key in self._listings[table.name].result() if not packs.hides(key)]
            self._show_runs(table, packs.manifests, shown)
            packed = self._packed(table, packs.manifests, shown) if listed else frozenset()
            wanted = [key for key in listed if name_of(key) not in packed]
            self._show_entries(table, wanted, packed, packs.erased, shown)
            has_rows = bool(shown.runs[table.name] or shown.held[table.name])
            if self._joined.get(table.name, False) != has_rows:
                self._joined[table.name] = has_rows
                self._tables.join(table, has_rows)
        return shown

    def _show_runs(
        self, table: Shown, manifests: Mapping[str, Manifest], shown: FollowedRows
    ) -> None:
        """Scan the runs that the manifests name, without those that are damaged.

        Raises:
            NotFoundError: one was swept.
        """
        before = self._scanned.get(table.name, ())
        keys = []
        for key, run in _runs(table.name, manifests):
            damage = damage_of(self._source, self._database, key, run, before)
            if damage is None:
                keys.append(key)
            else:
                shown.damaged[key] = damage
        shown.runs[table.name] = self._scanned[table.name] = tuple(keys)
        if shown.runs[table.name] != before:
            self._tables.scan(table, paths_by_app(keys))

    def _packed(
        self, table: Shown, manifests: Mapping[str, Manifest], shown: FollowedRows
    ) -> frozenset[str]:
        """Return the names of the entries that are packed.

        Raises:
            NotFoundError: a run that says so was swept.
        """
        for key, _ in _runs(_FOLDED, manifests):
            names = self._known.folded.get(key)
            shown.folded[key] = self._names_in(key) if names is None else names
        return frozenset().union(*shown.folded.values())

    def _names_in(self, key: str) -> frozenset[str]:
        try:
            file = open_parquet(self._store.get(key), folded.SCHEMA)
            names = folded.from_table(read_groups(file))
        except (FormatError, UnreadableError):  # as if nothing was named
            return frozenset()
        ours = tuple(f"{table.name}/" for table in SHOWN)
        return frozenset(name for name in names if name.startswith(ours))

    def _show_entries(
        self,
        table: Shown,
        wanted: Sequence[str],
        packed: frozenset[str],
        erased: Mapping[str, int],
        shown: FollowedRows,
    ) -> None:
        """Hold the rows of the `wanted` entries, but of erased sessions, and no others.

        Of folds the rows of entries that are `packed` are left out: so they are read again when
        that has changed.

        Raises:
            NotFoundError: one was swept; some of the others are held.
        """
        before = held = self._held.get(table.name, frozenset())
        if shown.folded.keys() != self._known.folded.keys():
            held = frozenset(key for key in held if not is_fold(key))
        self._tables.drop(table, sorted(before.difference(held.intersection(wanted))))
        new = [key for key in wanted if key not in held]
        read = set(held.intersection(wanted))
        for first in range(0, len(new), _ENTRIES_AT_ONCE):
            some = new[first : first + _ENTRIES_AT_ONCE]
            found = self._source.pool.map(
                lambda key: self._read(table, key, packed), some, near=self._store.near
            )
            for key, rows in zip(some, found, strict=True):
                if isinstance(rows, pa.Table):
                    read.add(key)
                else:
                    shown.damaged[key] = str(rows)
            rows_of = {k: rows for k, rows in zip(some, found, strict=True) if k in read}
            self._tables.add(table, rows_of)
            self._held[table.name] = frozenset(read)
            self._has_new = True
        shown.held[table.name] = self._held[table.name] = frozenset(read)
        if erased and (self._has_new or len(erased) != self._known.erased):
            gone = erased.get
            self._tables.drop_erased(table, lambda *ids: gone(log_digest(SessionKey(*ids).log)))

    def _read(self, table: Shown, key: str, packed: frozenset[str]) -> pa.Table | LakeError:
        """Return the rows of an entry, or why it cannot be read.

        Raises:
            NotFoundError: it was swept.
        """
        try:
            rows = table.read(self._store.get(key))
            for app_name, user_id in set(_scopes(rows)):
                if not key.startswith(Scope(app_name, user_id).entries_in(table.entries)):
                    return FormatError("a row names another scope than its key")
            if not all(map(is_stamp, set(rows["stamp"].to_pylist()))):
                return FormatError("a stamp is damaged")
        except (FormatError, UnreadableError) as error:
            return error
        return _without(rows, key, packed) if is_fold(key) else rows


def _runs(table: str, manifests: Mapping[str, Manifest]) -> Iterator[tuple[str, StoredFile]]:
    for manifest in manifests.values():
        for run in manifest.table(table).runs:
            yield run_key(manifest.app_name, table, run.id), run


def _without(rows: pa.Table, fold: str, packed: frozenset[str]) -> pa.Table:
    """Return the rows of a fold but of those entries that are packed."""
    folder = f"{fold.rpartition('/')[0]}/"
    stamps = rows["stamp"].to_pylist()
    names = {stamp: name_of(entry_key(folder, stamp, fold=False)) for stamp in set(stamps)}
    return rows.filter(pa.array([names[stamp] not in packed for stamp in stamps], pa.bool_()))


def _scopes(rows: pa.Table) -> Iterator[tuple[str, str | None]]:
    return zip(rows["app_name"].to_pylist(), rows["user_id"].to_pylist(), strict=True)
