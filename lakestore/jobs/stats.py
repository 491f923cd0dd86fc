"""Figures of a lake: what is in it, how much is packed, what compaction and a sweep would gain.

Counts by listings and runs alone; no commit, entry or pack is opened, but the newest commit of each
artifact that is not packed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakestore.checks import check_number
from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.archive import EVENTS, KEYED, STATE, Keyed
from lakestore.history.logged import SESSIONS, rows_of_logs
from lakestore.jobs.apps import chosen_apps
from lakestore.jobs.artifact_stats import count_listed, count_packed
from lakestore.jobs.by_user import Figures, Users
from lakestore.jobs.listings import OBJECTS_AT_ONCE, grouped, logs_in, pieces
from lakestore.jobs.progress import Progress, Watch, unwatched
from lakestore.jobs.running import check_lake
from lakestore.lake import Lake
from lakestore.log.commits import LogFiles
from lakestore.log.entries import name_of, parse_entry
from lakestore.log.keys import (
    app_logs,
    app_manifests,
    app_objects,
    app_packs,
    app_runs,
    log_of_object,
    manifest_key,
    parse_log,
    parse_log_name,
    user_in,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.runs import SessionRow

_ATTEMPTS = 8
_TOLD_EVERY = 1_000
_LISTS = 4
"""Requests that a cold open begins with: the log, two scopes, manifests."""
_PACKED_GETS = 3
"""Requests for what is packed: manifest, run, pack; as measured up to 20,000 sessions."""
_SQL_LISTS = 2
"""About an app's share: its manifests, and of four listings that all apps have in common."""


@dataclass(slots=True)
class AppStats:
    """What one app has."""

    app_name: str
    damaged: str = ""
    """Why nothing of it is counted; "" where all is."""
    total: Figures = field(default_factory=Figures)
    user_count: int = 0
    """How many users it has."""
    users: dict[str, Figures] = field(default_factory=dict)
    """The largest of them, by user id; the part of the key that stands for it, where the id is too
    long for one."""
    objects: int = 0
    """All objects: those of users, packs, runs and manifests."""
    bytes: int = 0
    packs: int = 0
    """Those that the newest manifest names; so it is with `runs` and `manifests`."""
    runs: int = 0
    manifests: int = 0
    rows: int = 0
    """Rows in packs."""
    dead_rows: int = 0
    """How many of them do not count any more."""
    fresh_sessions: int = 0
    """Sessions with something that is not packed."""
    read_now: int = 0
    """Objects that opening each of these once reads of their logs."""
    entries: int = 0
    """Entries of shared state that are not packed."""
    app_entries: int = 0
    """Those of them that all users share."""
    other_entries: int = 0
    """Those of memory and telemetry; opening a session reads none of them, and SQL each."""
    fresh_artifacts: int = 0
    """Artifacts with something that is not packed; SQL reads a commit of each."""

    @property
    def requests_now(self) -> int:
        """Requests to open a session in a new process, on average over those not all packed."""
        if not self.fresh_sessions:
            return self.requests_packed
        scopes = max(1, self.user_count)
        packed = _PACKED_GETS if self.runs else 0
        log = -(-self.read_now // self.fresh_sessions)
        users = -(-(self.entries - self.app_entries) // scopes)
        return _LISTS + packed + log + self.app_entries + users

    @property
    def requests_packed(self) -> int:
        """About as many once all is packed and swept."""
        return _LISTS + _PACKED_GETS

    @property
    def sql_now(self) -> int:
        """Requests of the first query of a new process, at most: one an object that is fresh."""
        packed = _PACKED_GETS if self.runs else 0
        fresh = self.total.fresh_commits + self.other_entries + self.fresh_artifacts
        return _SQL_LISTS + packed + fresh

    @property
    def sql_packed(self) -> int:
        """About as many once all is packed and swept."""
        return _SQL_LISTS + _PACKED_GETS

    @property
    def objects_packed(self) -> int:
        """About how many objects there are then."""
        return self._without_payloads + self.total.payloads

    @property
    def _without_payloads(self) -> int:
        # Entries have a run of their rows, and one of which entries these were.
        runs = max(self.runs, 1 + 2 * bool(self.entries or self.other_entries))
        return self.packs + self._has_fresh + runs + 1 if self.objects else 0

    @property
    def is_due(self) -> bool:
        """Whether compaction would at least halve the requests, or leave a tenth of the objects."""
        if not self._has_fresh:
            return False
        return (
            self.requests_now >= 2 * self.requests_packed
            or self.total.fresh_objects >= 10 * self._without_payloads
        )

    @property
    def _has_fresh(self) -> bool:
        """Whether compaction would find anything to pack."""
        fresh = self.fresh_sessions or self.fresh_artifacts
        return bool(fresh or self.entries or self.other_entries)


@dataclass(frozen=True, slots=True)
class LakeStats:
    """What a lake has, app by app."""

    apps: Sequence[AppStats]
    requests: Mapping[str, int]
    """What counting asked of the store, by kind of request."""

    @property
    def objects(self) -> int:
        """All objects of all apps."""
        return sum(app.objects for app in self.apps)

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return sum(app.bytes for app in self.apps)


def stats(
    lake: Lake,
    *,
    app_name: str | None = None,
    users: int = 10,
    progress: Watch | None = None,
) -> LakeStats:
    """Count what a lake has. A few requests, and more by the thousand objects.

    One more is made for each artifact that is not packed: what of it lives is told by nothing else.
    Of an app with a damaged manifest or run nothing is counted, and why is said.

    Args:
        lake: The lake; read-only will do.
        app_name: Only this app; None for all.
        users: Of how many users of each app figures are returned, the largest ones. All are
            counted; memory does not grow with them, but with this.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense.
        StorageError: the store failed.
    """
    check_lake(lake)
    check_number("users", users)
    before = lake.metrics.requests
    watch = progress or unwatched
    apps = [_count(lake, app, users, watch) for app in chosen_apps(lake, app_name)]
    return LakeStats(apps, lake.metrics.requests_since(before))


def _count(lake: Lake, app: str, users: int, watch: Watch) -> AppStats:
    for _ in range(_ATTEMPTS):
        by_user = Users()
        try:
            return _Counting(lake, app, by_user, watch).run(users)
        except NotFoundError:  # a newer manifest came, and what this one names was swept
            continue
        except (FormatError, UnreadableError) as error:
            return AppStats(app, str(error))
        finally:
            by_user.close()
    key = app_manifests(app)
    raise StorageError(f"runs changed faster than they could be read. {key=}")


class _Counting:
    """Counts one app."""

    def __init__(self, lake: Lake, app: str, users: Users, watch: Watch) -> None:
        self._users = users
        self._watch = watch
        self._env = lake.environment
        self._store = lake.environment.store
        self._archive = lake.sessions.archive
        self._stats = AppStats(app)

    def run(self, users: int) -> AppStats:
        """Return its figures, and those of so many users."""
        found, app = self._stats, self._stats.app_name
        manifest = self._archive.newest(app_manifests(app))
        named = {key for key, _ in manifest.files()} | {manifest_key(app, manifest.number)}
        for prefix in (app_manifests(app), app_packs(app), app_runs(app)):
            for one in self._store.list(prefix):
                self._add(one)
                if one.key not in named:
                    found.total.covered_objects += 1
                    found.total.covered_bytes += one.size
                    continue
                found.packs += prefix == app_packs(app)
                found.runs += prefix == app_runs(app)
                found.manifests += prefix == app_manifests(app)
        if manifest.number:
            self._count_packed(manifest)
        self._count_logs(manifest)
        self._count_entries(manifest)
        self._count_payloads()
        self._count_artifacts(manifest)
        found.user_count, found.users = self._users.count(), self._users.largest(users)
        return found

    def _add(self, one: StoredObject) -> None:
        found = self._stats
        found.objects += 1
        found.bytes += one.size
        if found.objects % _TOLD_EVERY == 0:
            self._watch(Progress("counting", found.app_name, found.objects, None, "object"))

    def _both(self, user: str) -> tuple[Figures, Figures]:
        return self._stats.total, self._users.of(user)

    def _count_packed(self, manifest: Manifest) -> None:
        packs = {pack.id: pack for pack in manifest.table(EVENTS.name).packs}
        self._stats.rows = sum(pack.rows for pack in packs.values())
        self._stats.dead_rows = sum(pack.dead for pack in packs.values())
        for packed in self._archive.sessions(manifest):
            row = packed.row
            for figures in self._both(row.user_id):
                figures.sessions += row.alive
                figures.events += row.events if row.alive else 0
                for segment in row.segments:
                    pack = packs[segment.pack]
                    figures.packed_bytes += pack.size * segment.rows // pack.rows

    def _count_logs(self, manifest: Manifest) -> None:
        listed = self._store.list(app_logs(self._stats.app_name))
        for piece in pieces(logs_in(listed), OBJECTS_AT_ONCE):
            rows = rows_of_logs(self._archive, SESSIONS, manifest, [log for log, _ in piece])
            for log, objects in piece:
                self._count_log(log, objects, rows.get(log))

    def _count_log(self, log: str, objects: Sequence[StoredObject], row: SessionRow | None) -> None:
        key = parse_log(log)
        user = key.user_id if key else (row and row.user_id) or user_in(log)
        base, files = row.version if row else 0, LogFiles()
        both = self._both(user)
        for one in objects:
            self._add(one)
            version, is_rollup = parse_log_name(one.key.removeprefix(log)) or (0, False)
            (files.rollups if is_rollup else files.commits).append(version)
            for figures in both:
                figures.fresh_commits += version > base and not is_rollup
                figures.fresh_objects += version > base
                figures.fresh_bytes += one.size if version > base else 0
                figures.covered_objects += version <= base
                figures.covered_bytes += one.size if version <= base else 0
        if files.commits and files.commits[-1] > base:
            self._stats.fresh_sessions += 1
            above = LogFiles(
                [v for v in files.commits if v > base], [v for v in files.rollups if v > base]
            )
            start = above.newest_rollup or base
            self._stats.read_now += len(above.above(start)[0]) + (start > base)
            for figures in both:
                figures.sessions += row is None

    def _count_entries(self, manifest: Manifest) -> None:
        packed = self._archive.folded(manifest) if manifest.number else frozenset()
        for kind in KEYED:
            for folder, objects in grouped(self._store.list(kind.prefix(self._stats.app_name))):
                user = user_in(folder)
                both = self._both(user) if user else (self._stats.total,)
                for one in objects:
                    self._add(one)
                    if parse_entry(one.key) is not None:
                        self._count_entry(kind, one, name_of(one.key) not in packed, both)

    def _count_payloads(self) -> None:
        for one in self._store.list(app_objects(self._stats.app_name)):
            self._add(one)
            log = log_of_object(one.key)
            for figures in self._both(user_in(log)) if log else ():
                figures.payloads += 1
                figures.payload_bytes += one.size

    def _count_artifacts(self, manifest: Manifest) -> None:
        count_packed(self._archive, manifest, self._both)
        counted = (self._env, self._archive, manifest, self._stats.app_name, self._both)
        for one, is_fresh in count_listed(*counted):
            self._stats.fresh_artifacts += is_fresh
            for stored in (*one.commits.values(), *one.payloads):
                self._add(stored)

    def _count_entry(
        self, kind: Keyed[Any], one: StoredObject, fresh: bool, both: Sequence[Figures]
    ) -> None:
        self._stats.entries += fresh and kind is STATE
        self._stats.app_entries += fresh and kind is STATE and len(both) == 1
        self._stats.other_entries += fresh and kind is not STATE
        for figures in both:
            figures.fresh_objects += fresh
            figures.fresh_bytes += one.size if fresh else 0
            figures.covered_objects += not fresh
            figures.covered_bytes += 0 if fresh else one.size
