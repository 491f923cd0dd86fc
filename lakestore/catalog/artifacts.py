"""Following logs and runs of artifacts, for SQL.

Owns what is read of them: of a log the newest commit, if runs do not tell of it. Which versions
live by then is `lakestore.catalog.artifact_tables`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from lakestore.catalog.artifact_tables import Held, Place
from lakestore.catalog.database import Database
from lakestore.catalog.following import damage_of, paths_by_app, tell, until_shown
from lakestore.catalog.packs import Packs
from lakestore.catalog.source import Source
from lakestore.errors import FormatError, LakeError
from lakestore.log.commits import LogFiles, list_logs
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    ArtifactKey,
    artifacts_of_app,
    commit_key,
    log_digest,
    parse_artifact,
    run_key,
)
from lakestore.storage import UnreadableError
from lakestore.tables.artifacts import Commit, decode_commit, place_of

_COMMITS_AT_ONCE = 1_024
_TABLE = "artifacts"


@dataclass(slots=True)
class FollowedArtifacts:
    """What a database shows of artifacts."""

    versions: dict[str, int] = field(default_factory=dict)
    """By log, up to which version it shows them."""
    runs: tuple[str, ...] = ()
    """The keys of the runs that are scanned."""
    erased: int = 0
    """How many logs were known to be erased."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By its key, why something cannot be read."""


class ArtifactLogs:
    """Brings a database up to what logs of artifacts and the newest manifests say, in one pass.

    Logs are listed before the manifests are asked for: what is swept in between is in the runs of
    newer ones, and so is what a commit builds on.
    """

    def __init__(self, source: Source, database: Database, known: FollowedArtifacts) -> None:
        """Begin to list logs, by one listing; `known` is what is shown now."""
        self._source = source
        self._store = source.store
        self._database = database
        self._tables = database.artifacts
        self._known = known
        # As they are inside the change: a round that is begun again has made some of it.
        self._scanned, self._erased = known.runs, known.erased
        self._list()

    def _list(self) -> None:
        self._listing: Future[dict[str, LogFiles]] = self._source.pool.start(
            lambda: dict(list_logs(self._store, ARTIFACT_LOGS)), near=self._store.near
        )

    def follow(self, packs: Packs) -> FollowedArtifacts:
        """Show what there is, inside `change`; return what is known once that has ended.

        An artifact of which the newest commit is damaged is not shown; nor is any of an app with a
        damaged run. That is logged once, and tried again each time.

        Args:
            packs: Has followed the manifests since this pass began.

        Raises:
            StorageError: the store failed, or jobs were faster.
        """

        def renew() -> None:
            self._list()
            packs.follow()

        shown = until_shown(self._source, lambda: self._show(packs), renew)
        tell(shown.damaged, self._known.damaged)
        return shown

    def _show(self, packs: Packs) -> FollowedArtifacts:
        """Bring all up to date.

        Raises:
            NotFoundError: a commit or run was swept; some of the others are shown.
        """
        shown = FollowedArtifacts(erased=len(packs.erased))
        hidden = self._show_runs(packs, shown)
        newest: dict[str, int] = {}
        for log, files in self._listing.result().items():
            if files.unreadable is not None:
                shown.damaged[log] = str(files.unreadable)
            elif files.commits and not packs.hides(log) and not log.startswith(hidden):
                newest[log] = files.commits[-1]
        held = self._tables.held()
        self._tables.drop([log for log in held if log not in newest])
        if (shown.runs, shown.erased) != (self._scanned, self._erased):
            self._tables.note_packed(self._packed(held, packs))
            self._scanned, self._erased = shown.runs, shown.erased
        known = self._known.versions
        shown.versions = {log: v for log, v in newest.items() if known.get(log) == v}
        self._read_new({log: v for log, v in newest.items() if known.get(log) != v}, packs, shown)
        return shown

    def _show_runs(self, packs: Packs, shown: FollowedArtifacts) -> tuple[str, ...]:
        """Scan the runs that the manifests name; return where logs are of apps with a damaged one.

        Raises:
            NotFoundError: one was swept.
        """
        keys: list[str] = []
        hidden: list[str] = []
        for manifest in packs.manifests.values():
            runs = {
                run_key(manifest.app_name, _TABLE, it.id): it for it in manifest.table(_TABLE).runs
            }
            known = self._known.runs
            damaged = {
                key: why
                for key, run in runs.items()
                if (why := damage_of(self._source, self._database, key, run, known)) is not None
            }
            shown.damaged.update(damaged)
            if damaged:
                hidden.append(artifacts_of_app(ARTIFACT_LOGS, manifest.app_name))
            else:
                keys += runs
        shown.runs = tuple(keys)
        if shown.runs != self._scanned:
            self._tables.scan(paths_by_app(keys))
        return tuple(hidden)

    def _packed(self, places: Mapping[str, Place], packs: Packs) -> dict[str, int]:
        """Return up to which version some artifacts are packed or erased, if they are."""
        found = self._tables.versions(places)
        for log in places if packs.erased else ():
            version = max(packs.erased.get(log_digest(log), 0), found.get(log, 0))
            if version:
                found[log] = version
        return found

    def _read_new(self, wanted: Mapping[str, int], packs: Packs, shown: FollowedArtifacts) -> None:
        """Hold the newest commits of logs, by their versions, unless they are packed.

        Raises:
            NotFoundError: one was swept.
        """
        keys = {log: key for log in wanted if (key := parse_artifact(log))}
        packed = self._packed({log: _place(key) for log, key in keys.items()}, packs)
        fresh = [log for log, version in wanted.items() if version > packed.get(log, 0)]
        shown.versions.update((log, wanted[log]) for log in wanted.keys() - set(fresh))
        for first in range(0, len(fresh), _COMMITS_AT_ONCE):
            some = fresh[first : first + _COMMITS_AT_ONCE]
            read = self._source.pool.map(
                lambda log: self._read(log, wanted[log]), some, near=self._store.near
            )
            found = dict(zip(some, read, strict=True))
            # Of ids that are too long for a key only commits tell, or rows.
            long = {log: it for log, it in found.items() if log not in keys}
            own = {log: _owner(it) for log, it in long.items() if isinstance(it, Commit)}
            own |= self._tables.packed_keys(long.keys() - own.keys())
            packed |= self._packed({log: _place(key) for log, key in own.items()}, packs)
            keys |= own
            self._hold(found, keys, wanted, packed, shown)

    def _hold(
        self,
        found: Mapping[str, Commit | LakeError],
        keys: Mapping[str, ArtifactKey],
        wanted: Mapping[str, int],
        packed: Mapping[str, int],
        shown: FollowedArtifacts,
    ) -> None:
        held = []
        for log, commit in found.items():
            known = packed.get(log, 0)
            if isinstance(commit, Commit) and commit.base > known and commit.version > known:
                commit = FormatError("a commit builds on what no manifest has packed")
            if isinstance(commit, Commit):
                shown.versions[log] = commit.version
                if commit.version > known:
                    held.append(Held(log, commit, known))
                continue
            if wanted[log] <= known:
                shown.versions[log] = wanted[log]
                continue
            shown.damaged[commit_key(log, wanted[log])] = str(commit)
            if log in keys:  # what is packed may not live any more
                held.append(Held(log, _hiding(keys[log], wanted[log]), known))
        self._tables.hold(held)

    def _read(self, log: str, version: int) -> Commit | LakeError:
        """Return a commit, or why it cannot be read.

        Raises:
            NotFoundError: it was swept.
        """
        try:
            commit = decode_commit(self._store.get(commit_key(log, version)))
        except (FormatError, UnreadableError) as error:
            return error
        if _owner(commit).log != log or commit.version != version:
            return FormatError("a commit names another artifact or version than its key")
        return commit


def _owner(commit: Commit) -> ArtifactKey:
    return ArtifactKey(commit.app_name, commit.user_id, commit.session_id, commit.filename)


def _place(key: ArtifactKey) -> Place:
    return key.app_name, key.user_id, place_of(key.session_id, key.filename)


def _hiding(key: ArtifactKey, version: int) -> Commit:
    """Return a commit after which nothing of an artifact is shown."""
    ids = (key.app_name, key.user_id, key.session_id, key.filename)
    return Commit(*ids, version, "delete", "", "", 0, base=0, first=version + 1)
