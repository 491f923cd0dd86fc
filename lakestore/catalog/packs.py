"""What jobs have packed, for SQL: which packs count, and which of their rows.

Follows the newest manifest of each app. Packs are scanned where they lie; what runs say of each
session is kept in DuckDB, so that a query reads no run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa

from lakestore.catalog.database import Database
from lakestore.log.keys import MANIFESTS, SessionKey, log_digest, pack_key, parse_log, run_key
from lakestore.log.manifests import Manifest, newest_manifest
from lakestore.storage import ObjectStore
from lakestore.storage.files import SCHEME
from lakestore.tables import erased
from lakestore.tables.parquet import open_parquet, read_groups

_TABLE = "events"
_ERASED = "erased"


@dataclass(slots=True)
class Followed:
    """The manifests that a database shows."""

    manifests: dict[str, Manifest] = field(default_factory=dict)
    """By their prefix."""
    erased: dict[str, int] = field(default_factory=dict)
    """Up to which version sessions are erased, by the digests of their logs."""
    erased_runs: set[str] = field(default_factory=set)
    """The runs that say so, of those that were read."""


class Packs:
    """Brings a database up to what the newest manifests say."""

    def __init__(self, store: ObjectStore, database: Database, followed: Followed) -> None:
        self._store = store
        self._database = database
        self._known = followed.manifests
        self._gone = followed.erased
        self._read_runs = followed.erased_runs
        self._found: dict[str, Manifest] = {}

    def follow(self) -> None:
        """Ask for the newest manifests, by one listing, and show what they say.

        Raises:
            FormatError: a manifest is damaged.
            StorageError: the store failed.
        """
        changed = False
        for prefix in _prefixes(self._store.names(MANIFESTS)):
            known = self._found.get(prefix, self._known.get(prefix))
            newest = newest_manifest(self._store, prefix, known)
            changed |= newest is not known
            self._found[prefix] = newest
        if changed:
            self._database.show_packed(
                [run for manifest in self._found.values() for run in _runs(manifest)],
                [pack for manifest in self._found.values() for pack in _packs(manifest)],
            )
            if self._read_erased():
                gone = self._gone.get
                self._database.drop_fresh(lambda *ids: gone(log_digest(SessionKey(*ids).log)))

    def _read_erased(self) -> bool:
        """Read what the manifests say of erased sessions; tell whether there are any."""
        keys = [
            run_key(manifest.app_name, _ERASED, run.id)
            for manifest in self._found.values()
            for run in manifest.table(_ERASED).runs
        ]
        for key in keys:
            if key not in self._read_runs:
                file = open_parquet(self._store.get(key), erased.SCHEMA)
                for row in erased.from_table(read_groups(file)):
                    self._gone[row.digest] = max(row.version, self._gone.get(row.digest, 0))
                self._read_runs.add(key)
        # Runs are never changed, and what is erased stays so: those that were merged may stay.
        return bool(keys)

    def versions(self, logs: Sequence[str]) -> dict[str, int]:
        """Return up to which version each of `logs` is packed, without those that are not."""
        if not self._found or not logs:
            return {}
        keys = {key: log for log in logs if (key := parse_log(log)) is not None}
        found = self._database.packed_versions(
            pa.table(
                {
                    "app_name": pa.array([key.app_name for key in keys], pa.string()),
                    "user_id": pa.array([key.user_id for key in keys], pa.string()),
                    "session_id": pa.array([key.session_id for key in keys], pa.string()),
                }
            ),
            long_ids=len(keys) < len(logs),
        )
        wanted = set(logs)
        named = {SessionKey(*ids).log: version for *ids, version in found}
        versions = {log: version for log, version in named.items() if log in wanted}
        for log in wanted if self._gone else ():
            version = max(self._gone.get(log_digest(log), 0), versions.get(log, 0))
            if version:
                versions[log] = version
        return versions

    def settle(self) -> None:
        """Note that the database keeps what it shows now."""
        self._known.update(self._found)


def _prefixes(keys: Iterable[str]) -> list[str]:
    return [prefix for prefix, _ in groupby(key[: key.rindex("/") + 1] for key in keys)]


def _runs(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield where each run of sessions is, and its age: 0 for the newest."""
    for age, run in enumerate(manifest.table(_TABLE).runs):
        yield f"{SCHEME}://{run_key(manifest.app_name, _TABLE, run.id)}", age


def _packs(manifest: Manifest) -> Iterator[tuple[str, bool]]:
    """Yield where each pack of events is, and whether all of its rows count."""
    for pack in manifest.table(_TABLE).packs:
        yield f"{SCHEME}://{pack_key(manifest.app_name, _TABLE, pack.id)}", not pack.dead
