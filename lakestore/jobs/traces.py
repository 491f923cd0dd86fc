"""What the objects of an app still hold of what was erased. Reads, and changes nothing.

A row counts as a trace when it is at or below the erased version of its session: what the user
began since then is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS, KEYED, MEMORY, Keyed, Kind
from lakestore.history.erased import Sourced, is_erased
from lakestore.history.logged import LOGGED, Logged
from lakestore.log.entries import list_entries
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    EVENT_LOGS,
    Scope,
    SessionKey,
    app_drafts,
    app_manifests,
    app_packs,
    app_runs,
    artifacts_of_user,
    log_digest,
    log_of,
    manifest_key,
    parse_log_name,
    table_of,
)
from lakestore.log.manifests import Manifest, decode, list_manifests
from lakestore.storage import ObjectStore
from lakestore.tables.erased import ErasedRow

R = TypeVar("R")

_IDS = ["app_name", "user_id", "session_id", "version"]


@dataclass(frozen=True, slots=True)
class Traces:
    """Looks for what is left of one user."""

    store: ObjectStore
    app_name: str
    user_id: str
    erased: Mapping[str, ErasedRow]
    clean: set[str]
    """Packs and runs that were looked at and hold none: objects never change."""

    def logs(self) -> Iterator[str]:
        """Yield the commits and rollups that count for nobody any more."""
        for root in (EVENT_LOGS, ARTIFACT_LOGS):
            for key in self.store.names(artifacts_of_user(root, self.app_name, self.user_id)):
                log = log_of(key)
                parsed = parse_log_name(key.rpartition("/")[2])
                gone = self.erased.get(log_digest(log)) if log else None
                if gone and parsed and parsed[0] <= gone.version:
                    yield key

    def entries(self) -> Iterator[tuple[Keyed[Any], str, list[Any]]]:
        """Yield the entries of the user and of the app with a trace, and what else they hold."""
        scopes = (Scope(self.app_name, self.user_id), Scope(self.app_name, None))
        for kind, scope in product(KEYED, scopes):
            for _, entry in list(list_entries(self.store, scope.entries_in(kind.entries))):
                rows = self._read(entry.key, partial(self._rows_of, kind)) or []
                others = [row for row in rows if not self._is_source(row)]
                if len(others) < len(rows):
                    yield kind, entry.key, others

    def _rows_of(self, kind: Keyed[Any], entry: str) -> list[Any]:
        return kind.read(entry, self.store.get(entry))

    def drafts(self) -> Iterator[str]:
        """Yield the drafts of rebuilds that have such rows."""
        for key in self.store.names(app_drafts(self.app_name)):
            if any(map(self._is_source, self._rows(MEMORY, key))):
                yield key

    def packs(self, besides: Collection[str] = ()) -> Iterator[str]:
        """Yield the packs that have such rows, whether a manifest names them or not.

        Args:
            besides: Packs that need not be looked at.
        """
        for key in self.store.names(app_packs(self.app_name)):
            if table_of(key) != EVENTS.name or key in besides or key in self.clean:
                continue
            table = self._read(key, self._users_rows)
            if table is not None and self._holds(table):
                yield key
            else:
                self.clean.add(key)

    def runs(self) -> Iterator[str]:
        """Yield the runs that have rows of what was erased, or name a session as a source."""
        for key in self.store.names(app_runs(self.app_name)):
            if key in self.clean:
                continue
            table = table_of(key)
            if self._has_gone(table, key) or any(
                table in (kind.name, kind.beside and kind.beside.name)
                and self._names_source(kind, key)
                for kind in KEYED
            ):
                yield key
            else:
                self.clean.add(key)

    def _has_gone(self, table: str | None, key: str) -> bool:
        """Tell whether a run has rows of such logs themselves."""
        for logged in LOGGED:
            if table == logged.kind.name:
                return any(self._is_gone(logged, row) for row in self._rows(logged.kind, key))
        return False

    def _names_source(self, kind: Keyed[Any], key: str) -> bool:
        """Tell whether a run has rows from such sessions."""

        def sources(key: str) -> Iterator[Any]:
            file = pq.ParquetFile(pa.BufferReader(self.store.get(key)))
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                ours = pc.equal(table[kind.source_user], self.user_id)
                yield from kind.from_table(table.filter(ours))

        return self._read(key, lambda key: any(map(self._is_source, sources(key)))) or False

    def manifests(self, newest: Manifest) -> Iterator[str]:
        """Yield the manifests before `newest` that name the user."""
        for number in list_manifests(self.store, app_manifests(self.app_name)):
            key = manifest_key(self.app_name, number)
            if number < newest.number:
                found = self._read(key, lambda key: decode(key, self.store.get(key)))
                if found is not None and self._named_in(found):
                    yield key

    def _read(self, key: str, read: Callable[[str], R]) -> R | None:
        """Return what is there; None when it is gone, or no reader could make sense of it."""
        try:
            return read(key)
        except (NotFoundError, FormatError, pa.ArrowException):
            return None

    def _rows(self, kind: Kind[R], key: str) -> list[R]:
        def read(key: str) -> list[R]:
            return kind.from_table(pq.read_table(pa.BufferReader(self.store.get(key))))

        return self._read(key, read) or []

    def _is_source(self, row: Sourced) -> bool:
        return row.source_user_id == self.user_id and is_erased(self.erased, row)

    def _is_gone(self, logged: Logged[Any], row: Any) -> bool:
        if row.user_id != self.user_id:
            return False
        gone = self.erased.get(log_digest(logged.log(row)))
        return gone is not None and row.version <= gone.version

    def _users_rows(self, key: str) -> pa.Table | None:
        """Return ids and versions of the row groups of a pack that may have rows of the user."""
        file = pq.ParquetFile(pa.BufferReader(self.store.get(key)))
        column = file.schema_arrow.names.index("user_id")
        groups = []
        for number in range(file.num_row_groups):
            found = file.metadata.row_group(number).column(column).statistics
            exact = found is not None and found.has_min_max
            if not exact or found.min <= self.user_id <= found.max:
                groups.append(number)
        return file.read_row_groups(groups, columns=_IDS) if groups else None

    def _holds(self, table: pa.Table) -> bool:
        firsts = table.group_by(_IDS[:3]).aggregate([("version", "min")])
        for *ids, version in zip(
            *(firsts[name].to_pylist() for name in (*_IDS[:3], "version_min")), strict=True
        ):
            gone = self.erased.get(log_digest(SessionKey(*ids).log))
            if ids[1] == self.user_id and gone is not None and version <= gone.version:
                return True
        return False

    def _named_in(self, manifest: Manifest) -> bool:
        return any(
            group.first[0] == self.user_id
            for table in manifest.tables.values()
            for run in table.runs
            for group in run.groups
        )
