"""What jobs have packed, for SQL: which packs count, and which of their rows.

Follows the newest manifest of each app. Packs are scanned where they lie; what runs say of each
session is kept in DuckDB, so that a query reads no run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa

from lakestore.catalog.database import Database, Scanned
from lakestore.catalog.inspection import Inspected, inspect, is_small, rescue
from lakestore.catalog.source import Source
from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.log.keys import (
    MANIFESTS,
    RUNS,
    SessionKey,
    app_manifests,
    log_digest,
    manifests_beside,
    pack_key,
    parse_log,
    run_key,
)
from lakestore.log.manifests import Manifest, StoredFile, newest_manifest
from lakestore.storage import UnreadableError
from lakestore.storage.files import SCHEME
from lakestore.storage.range_file import Span
from lakestore.tables import erased, events
from lakestore.tables.parquet import open_parquet, read_groups

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_TABLE = "events"
_ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Part:
    """What is shown of a damaged pack."""

    path: str
    """The file with the row groups that can be read; empty where there are none."""
    has_payloads: bool
    """Whether it has the column for bytes beside events."""
    met: Span | None
    """What a query had met of the damage by then."""


@dataclass(slots=True)
class Followed:
    """The manifests that a database shows."""

    manifests: dict[str, Manifest] = field(default_factory=dict)
    """By their prefix."""
    erased: dict[str, int] = field(default_factory=dict)
    """Up to which version sessions are erased, by the digests of their logs."""
    erased_runs: set[str] = field(default_factory=set)
    """The runs that say so, of those that were read."""
    whole: set[str] = field(default_factory=set)
    """The packs and runs that were looked at and found whole."""
    with_payloads: set[str] = field(default_factory=set)
    """Those of them that have the column for bytes beside events."""
    damaged: dict[str, str] = field(default_factory=dict)
    """The packs that are not, and why."""
    parts: dict[str, Part] = field(default_factory=dict)
    """What is shown of these."""
    hidden: dict[str, str] = field(default_factory=dict)
    """By the prefix of their manifests the apps of which nothing is shown, and why."""


class Packs:
    """Brings a database up to what the newest manifests say, in one pass."""

    def __init__(self, source: Source, database: Database, followed: Followed) -> None:
        self._source = source
        self._store = source.store
        self._database = database
        self._unread = database.files.unread.spans
        self._followed = followed
        self._whole = followed.whole
        self._harmed: Mapping[str, str] = followed.damaged
        self._parts: Mapping[str, Part] = followed.parts
        self._gone = followed.erased
        self._read_runs = followed.erased_runs
        self._shown: Mapping[str, Manifest] = followed.manifests
        self._found: dict[str, Manifest] = {}
        self._named: set[str] = set()
        self.hidden: dict[str, str] = {}
        """The apps whose newest manifest, or a run of it, cannot be read, and why. Nobody knows
        what is packed of them, and so which of their rows count; they stay hidden for the pass."""

    @property
    def manifests(self) -> Mapping[str, Manifest]:
        """The newest manifests that were found, by their prefix."""
        return self._found

    @property
    def erased(self) -> Mapping[str, int]:
        """Up to which version sessions are erased, by the digests of their logs."""
        return self._gone

    def follow(self) -> None:
        """Ask for the newest manifests, by one listing, and show what they say.

        Of a pack that is damaged the row groups that can be read are shown; of an app with a
        damaged manifest or run nothing is. Which it is is logged once, as an error. It is tried
        again in each pass.

        Raises:
            StorageError: the store failed, or jobs were faster.
        """
        self._ask()
        for _ in range(_ATTEMPTS):
            damaged = self._inspect()
            if damaged is not None:
                break
        else:
            raise StorageError("packs changed faster than they could be read")
        news = [key for key in damaged if not self._has_part(key)]
        httpfs = self._database.httpfs
        if news or self._found != self._shown or damaged.keys() != self._harmed.keys():
            self._tell(damaged)
            self._harmed = damaged
            self._show()
            self._shown = dict(self._found)
        elif httpfs is not None and httpfs.is_old:
            self._show_packs()
        if self.hidden:
            self._database.drop_apps(lambda app_name: app_manifests(app_name) in self.hidden)

    def _has_part(self, key: str) -> bool:
        """Tell whether all is known of a damaged pack that queries have met of its damage."""
        part = self._parts.get(key)
        return part is not None and part.met == self._unread.get(key)

    def hides(self, key: str) -> bool:
        """Tell whether nothing is shown of the app that a log or an entry belongs to."""
        return bool(self.hidden) and manifests_beside(key) in self.hidden

    def _ask(self) -> bool:
        """Find the newest manifests; tell whether any is another one than before."""
        before = dict(self._found)
        for prefix in _prefixes(self._store.names(MANIFESTS)):
            if prefix not in self.hidden:
                known = self._found.get(prefix, self._shown.get(prefix))
                try:
                    self._found[prefix] = newest_manifest(self._store, prefix, known)
                except (FormatError, UnreadableError) as error:
                    self._hide(prefix, error)
        return self._found != before

    def _hide(self, prefix: str, error: LakeError) -> None:
        self._found.pop(prefix, None)
        self.hidden[prefix] = str(error)
        if self._followed.hidden.get(prefix) != str(error):
            logger.error(
                "an app cannot be read; nothing of it is shown, see `lakestore check`: %s", error
            )

    def _inspect(self) -> dict[str, str] | None:
        """Look at packs and runs that were not looked at; return what packs are damaged, and why.

        None if one is not there that a newer manifest may not name. Where a run is damaged its
        app is hidden.
        """
        files = {
            key: (prefix, file)
            for prefix, manifest in self._found.items()
            for key, file in _scanned(manifest)
        }
        self._named |= files.keys()
        new = [key for key in files if key not in self._whole or key in self._unread]
        near = self._store.near
        ends = self._source.pool.map(lambda key: self._end_of(key, files[key][1]), new, near=near)
        damaged = {}
        for key, end in zip(new, ends, strict=True):
            prefix, file = files[key]
            self._whole.discard(key)
            if isinstance(end, Inspected):
                end.note(self._database.files, key, file)
                self._whole.add(key)
                if end.has_payloads:
                    self._followed.with_payloads.add(key)
            elif isinstance(end, NotFoundError) and self._ask():
                return None
            elif key.startswith(RUNS):
                self._hide(prefix, end)
            else:
                damaged[key] = str(end)
        return {key: why for key, why in damaged.items() if files[key][0] not in self.hidden}

    def _end_of(
        self, key: str, file: StoredFile
    ) -> Inspected | NotFoundError | FormatError | UnreadableError:
        met = self._unread.get(key)
        try:
            # Of a run all is read in any case, as soon as it is shown.
            return inspect(self._store, key, file, wholly=key.startswith(RUNS), met=met)
        except (NotFoundError, FormatError, UnreadableError) as error:
            return error

    def _show(self) -> None:
        manifests = self._found.values()
        self._database.show_runs([run for manifest in manifests for run in _runs(manifest)])
        self._show_packs()
        if self._read_erased():
            gone = self._gone.get
            self._database.drop_fresh(lambda *ids: gone(log_digest(SessionKey(*ids).log)))

    def _show_packs(self) -> None:
        if self._database.httpfs:
            self._database.httpfs.renew()
        packs, parts = [], {}
        for manifest in self._found.values():
            for pack in manifest.table(_TABLE).packs:
                key = pack_key(manifest.app_name, _TABLE, pack.id)
                path, has_payloads = self._path(key, pack), key in self._followed.with_payloads
                if key in self._harmed:
                    part = parts[key] = self._part_of(key, pack.id)
                    path, has_payloads = part.path, part.has_payloads
                packs.append(Scanned(path, not pack.dead, has_payloads))
        self._parts = parts
        self._database.show_packs([pack for pack in packs if pack.path])

    def _path(self, key: str, pack: StoredFile) -> str:
        """Return where a query reads a pack; what is known of it whole needs no request."""
        httpfs = self._database.httpfs
        return f"{SCHEME}://{key}" if not httpfs or is_small(pack) else httpfs.address(key)

    def _part_of(self, key: str, pack: str) -> Part:
        if self._has_part(key):
            return self._parts[key]
        database = self._database
        met, ranges = self._unread.get(key), database.ranges_of(pack)
        return Part(*rescue(self._store, database.files, key, ranges, events.SCHEMA), met)

    def _tell(self, damaged: Mapping[str, str]) -> None:
        for key, reason in damaged.items():
            if key not in self._harmed:
                logger.error("a pack is damaged; what it has lost is not shown: %s", reason)

    def _read_erased(self) -> bool:
        """Read what the manifests say of erased sessions; tell whether there are any."""
        keys = [
            run_key(manifest.app_name, _ERASED, run.id)
            for manifest in self._found.values()
            for run in manifest.table(_ERASED).runs
        ]
        for key in keys:
            if key not in self._read_runs:
                with self._database.files.open(f"{SCHEME}://{key}") as file:
                    body = file.read()
                for row in erased.from_table(read_groups(open_parquet(body, erased.SCHEMA))):
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
        known = self._followed
        known.manifests.clear()
        known.manifests.update(self._found)
        known.hidden = self.hidden
        known.damaged, known.parts = dict(self._harmed), dict(self._parts)
        self._whole &= self._named
        known.with_payloads &= self._named


def _prefixes(keys: Iterable[str]) -> list[str]:
    return [prefix for prefix, _ in groupby(key[: key.rindex("/") + 1] for key in keys)]


def _runs(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield where each run of sessions is, and its age: 0 for the newest."""
    for age, run in enumerate(manifest.table(_TABLE).runs):
        yield f"{SCHEME}://{run_key(manifest.app_name, _TABLE, run.id)}", age


def _scanned(manifest: Manifest) -> Iterator[tuple[str, StoredFile]]:
    """Yield the key of each run of sessions and pack of events, and what is said of it."""
    for name in (_TABLE, _ERASED):
        runs = manifest.table(name).runs
        yield from ((run_key(manifest.app_name, name, run.id), run) for run in runs)
    packs = manifest.table(_TABLE).packs
    yield from ((pack_key(manifest.app_name, _TABLE, pack.id), pack) for pack in packs)
