"""Loading artifacts: of a log the newest commit, and what is packed. Owns when that counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.history.archive import Archive
from lakestore.history.artifact_archive import ArtifactArchive
from lakestore.history.artifact_view import ArtifactView, UnpackedError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.log.commits import LogFiles, list_log, list_logs, probe
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    ArtifactKey,
    app_manifests,
    artifacts_of,
    artifacts_of_app,
    commit_key,
    parse_artifact,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables import artifacts
from lakestore.tables.artifacts import ArtifactRow, Commit

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_STEPS = 2
"""So many commits behind, a cached view asks for the next one; then all is listed."""
_LOGS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class _Listed:
    """An artifact, what is listed of its log, and what is packed of it."""

    key: ArtifactKey
    files: LogFiles
    row: ArtifactRow | None

    @property
    def newest(self) -> int | None:
        """The commit that says all that is not packed; None where all is."""
        newest = self.files.commits[-1] if self.files.commits else 0
        return newest if newest > (self.row.version if self.row else 0) else None


class ArtifactLoader:
    """Reads logs into views; a view is returned only if all it took was read while it was young."""

    def __init__(
        self, environment: Environment, archive: Archive, cache: ByteCache[str, ArtifactView]
    ) -> None:
        self._env = environment
        self._archive = archive
        self._packed = ArtifactArchive(archive)
        self._cache = cache
        self._reported: set[str] = set()

    def load(self, key: ArtifactKey) -> ArtifactView:
        """Return the artifact as it is now, by listing its log; version 0 when there is none.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed, or the log never held still.
        """
        manifests = app_manifests(key.app_name)
        ask = self._archive.recent
        before: tuple[LogFiles, int] | None = None
        for _ in self._attempts():
            started = self._env.clock.elapsed()
            look, ask = ask(manifests), self._archive.look
            files = list_log(self._env.store, key.log)
            manifest = look.result()
            try:
                row = self._packed.at(manifest, [key]).get(key)
                view = self._fold(_Listed(key, files, row), started)
            except NotFoundError:  # swept since it was listed
                continue
            except UnpackedError:
                if before == (files, manifest.number):
                    raise unpacked(key) from None
                before = files, manifest.number
                continue
            if self._is_young(started, key.app_name):
                return view
        raise StorageError(f"a log changed faster than it could be read. log={key.log!r}")

    def _fold(self, listed: _Listed, started: float) -> ArtifactView:
        """Return the view of what is listed.

        Raises:
            UnpackedError: a commit builds on more than what is packed by that manifest.
            NotFoundError: a commit was swept.
            FormatError: it is damaged.
        """
        if listed.files.unreadable is not None:
            raise listed.files.unreadable
        view = ArtifactView(listed.key, started)
        if listed.row is not None:
            view = view.on_packed(listed.row)
        if listed.newest is None:
            return view
        known = self._cache.get(listed.key.log)
        if known is not None and known.packed == listed.row and known.version == listed.newest:
            self._env.metrics.add("cache_hits")
            return known.confirmed(started)
        body = self._env.store.get(commit_key(listed.key.log, listed.newest))
        return view.on_commit(decode_commit(listed.key.log, listed.newest, body))

    def refresh(self, view: ArtifactView) -> ArtifactView | None:
        """Return a view as it is now, by asking for the next version: 1 GET where there is none.

        None if it must be loaded: it has grown old, or is far behind.

        Raises:
            FormatError: a commit is damaged.
            StorageError: the store failed.
        """
        for _ in range(_STEPS):
            started = self._env.clock.elapsed()
            body = probe(self._env.store, view.key.log, view.version + 1)
            # Nothing more being there proves something only while the view is young: later it may
            # be swept.
            if not self._env.is_young(view.seen):
                return None
            if body is None:
                return view.confirmed(started)
            try:
                view = follow(view, body)
            except UnpackedError:
                return None
        return None

    def load_scope(
        self, app_name: str, user_id: str, sessions: Sequence[str | None]
    ) -> list[ArtifactView]:
        """Return the artifacts of some sessions and (None) of the user's own, deleted ones too.

        One LIST for each, a manifest, and a GET for each artifact with a commit that is not packed.
        Damaged ones are passed over, with an error that is logged once.

        Raises:
            StorageError: the store failed.
        """
        manifests = app_manifests(app_name)
        ask = self._archive.recent
        store = self._env.store
        for _ in self._attempts():
            started = self._env.clock.elapsed()
            look, ask = ask(manifests), self._archive.look
            scopes = [artifacts_of(ARTIFACT_LOGS, app_name, user_id, each) for each in sessions]
            found = self._env.pool.map(
                lambda scope: dict(list_logs(store, scope)), scopes, near=store.near
            )
            logs = {log: files for each in found for log, files in each.items()}
            try:
                listed = self._with_packed(look.result(), user_id, sessions, logs)
            except NotFoundError:  # a run was merged, or a log swept
                continue
            views = list(self._load_some(listed, started))
            if self._is_young(started, app_name):
                return views
        raise StorageError(f"artifacts changed faster than they could be read. {manifests=}")

    def _with_packed(
        self,
        manifest: Manifest,
        user_id: str,
        sessions: Sequence[str | None],
        logs: dict[str, LogFiles],
    ) -> list[_Listed]:
        rows = self._packed.of(manifest, user_id, sessions)
        listed = [_Listed(key_of(row), logs.pop(key_of(row).log, LogFiles()), row) for row in rows]
        keys = self._keys(logs)
        if None in keys.values():
            raise NotFoundError("a log was swept since it was listed")
        fresh = {key: log for log, key in keys.items() if key is not None}
        erased = self._packed.erased(manifest, fresh)
        return listed + [_Listed(key, logs[log], erased.get(key)) for key, log in fresh.items()]

    def load_fresh(
        self, app_name: str, first: str, last: str
    ) -> Iterator[tuple[ArtifactView, ArtifactRow | None]]:
        """See `Artifacts.fresh`."""
        manifests = app_manifests(app_name)
        started = self._env.clock.elapsed()
        look = self._archive.look(manifests)
        prefix = artifacts_of_app(ARTIFACT_LOGS, app_name)
        logs = list(list_logs(self._env.store, prefix, first, last))
        for begin in range(0, len(logs), _LOGS_AT_ONCE):
            manifest = self._archive.newest(manifests) if begin else look.result()
            batch = dict(logs[begin : begin + _LOGS_AT_ONCE])
            listed = self._unpacked(manifests, manifest, batch)
            packed = {each.key: each.row for each in listed}
            for view in self._load_some(listed, started):
                # One that was loaded by itself may have met a newer manifest.
                before = view.packed or packed[view.key]
                if view.version > (before.version if before else 0):
                    yield view, before

    def _unpacked(
        self, manifests: str, manifest: Manifest, logs: dict[str, LogFiles]
    ) -> list[_Listed]:
        """Return those that have more than what is packed of them by now, with that."""
        # What was swept since it was listed is packed by now.
        keys = {key: log for log, key in self._keys(logs).items() if key is not None}
        for _ in self._attempts():
            try:
                rows = self._packed.at(manifest, keys)
            except NotFoundError:  # a run was merged, and swept
                manifest = self._archive.newest(manifests)
                continue
            listed = (_Listed(key, logs[log], rows.get(key)) for key, log in keys.items())
            return [each for each in listed if each.newest is not None]
        raise StorageError(f"runs changed faster than they could be read. {manifests=}")

    def _keys(self, logs: dict[str, LogFiles]) -> dict[str, ArtifactKey | None]:
        """Return whose logs they are, but of those that cannot be read; None for one swept."""
        store = self._env.store

        def key_in(log: str) -> ArtifactKey | LakeError | None:
            if logs[log].unreadable is not None:
                return logs[log].unreadable
            key, known = parse_artifact(log), self._cache.get(log)
            if key is not None or known is not None:
                return key or (known.key if known else None)
            # Of an id that was too long for a name only a digest is left in it.
            version = logs[log].commits[-1]
            try:
                return owner(decode_commit(log, version, store.get(commit_key(log, version))))
            except NotFoundError:
                return None
            except (FormatError, UnreadableError) as error:
                return error

        named = [log for log, files in logs.items() if files.commits or files.unreadable]
        found = self._env.pool.map(key_in, named, near=store.near)
        keys: dict[str, ArtifactKey | None] = {}
        for log, key in zip(named, found, strict=True):
            if isinstance(key, LakeError):
                self._report(log, key)
            else:
                keys[log] = key
        return keys

    def _load_some(self, listed: Sequence[_Listed], started: float) -> Iterator[ArtifactView]:
        """Yield the views of what is listed, but of those that cannot be read."""

        def load_one(each: _Listed) -> ArtifactView | LakeError | None:
            try:
                return self._fold(each, started)
            except (NotFoundError, UnpackedError):
                return None
            except (FormatError, UnreadableError) as error:
                return error

        for begin in range(0, len(listed), _LOGS_AT_ONCE):
            batch = listed[begin : begin + _LOGS_AT_ONCE]
            found = self._env.pool.map(load_one, batch, near=self._env.store.near)
            for each, view in zip(batch, found, strict=True):
                view = view or self._load_readable(each.key)
                if isinstance(view, LakeError):
                    self._report(each.key.log, view)
                else:
                    self._reported.discard(each.key.log)
                    yield view

    def _load_readable(self, key: ArtifactKey) -> ArtifactView | LakeError:
        try:
            return self.load(key)
        except (FormatError, UnreadableError) as error:
            return error

    def _report(self, log: str, error: LakeError) -> None:
        """Log, once until it is mended, why an artifact is passed over."""
        level = logging.DEBUG if log in self._reported else logging.ERROR
        self._reported.add(log)
        logger.log(level, "what cannot be read was passed over: %s", error)

    def _is_young(self, started: float, app_name: str) -> bool:
        return self._env.is_young(started) and self._archive.is_recent(app_manifests(app_name))

    def _attempts(self) -> Iterator[None]:
        yield
        for _ in range(1, _ATTEMPTS):
            self._env.metrics.add("retries")
            yield


def decode_commit(log: str, version: int, body: bytes) -> Commit:
    """Return a commit, sure that it belongs where it was read.

    Raises:
        FormatError: the bytes are damaged, or name another artifact or version than their key.
    """
    try:
        commit = artifacts.decode_commit(body)
        if owner(commit).log != log or commit.version != version:
            raise FormatError("the rows name another artifact or version than their key")
    except FormatError as error:
        raise FormatError(f"{error}. key={commit_key(log, version)!r}") from error
    return commit


def follow(view: ArtifactView, body: bytes) -> ArtifactView:
    """Return the view after the next commit, whose bytes are `body`, no younger than it was.

    Raises:
        UnpackedError: what it builds on was packed meanwhile.
        FormatError: it is damaged.
    """
    return view.on_commit(decode_commit(view.key.log, view.version + 1, body))


def key_of(row: ArtifactRow) -> ArtifactKey:
    """Return which artifact a row is of."""
    return ArtifactKey(row.app_name, row.user_id, row.session_id, row.filename)


def unpacked(key: ArtifactKey) -> FormatError:
    """Return the error for a log whose commits build on what no manifest has."""
    return FormatError(f"a log builds on what no manifest has packed. log={key.log!r}")


def owner(commit: Commit) -> ArtifactKey:
    """Return which artifact a commit is of."""
    return ArtifactKey(commit.app_name, commit.user_id, commit.session_id, commit.filename)
