"""Artifacts: save, read, delete. Owns what a refusal means and when a view is confirmed.

Each commit holds all that lives, so what a refused writer finds in its place is all it must know.
What was read long ago is confirmed before it is decided on, and a commit that took long is
confirmed after it, by a load that must contain it: what a stalled process takes for a free name may
be one that was swept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256

from lakestore.errors import FormatError, NotFoundError, UnknownOutcomeError
from lakestore.history.archive import Archive
from lakestore.history.artifact_loading import ArtifactLoader, decode_commit, follow
from lakestore.history.artifact_uploads import Draft, Upload
from lakestore.history.artifact_view import ArtifactView, UnpackedError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.refusals import contended
from lakestore.log.commits import put_commit, standing
from lakestore.log.keys import ArtifactKey, commit_key
from lakestore.tables.artifacts import ArtifactRow, Commit, Kind, Saved, encode_commit

_ATTEMPTS = 256
_FORESEEN_BYTES = 8 * 2**20
_WALKED = 8
"""Refused so often, a writer lists what there is."""


@dataclass(frozen=True, slots=True)
class _Landed:
    """What came of a commit that was sent."""

    view: ArtifactView | None
    """The artifact after what stands there; None where only a load can tell."""
    is_ours: bool


class Artifacts:
    """All artifacts of a lake; safe to use from many threads."""

    def __init__(self, environment: Environment, archive: Archive) -> None:
        self._env = environment
        self._cache: ByteCache[str, ArtifactView] = ByteCache(environment.cache_bytes)
        self._loader = ArtifactLoader(environment, archive, self._cache)

    def load(self, key: ArtifactKey) -> ArtifactView:
        """Return the artifact as it is now, whatever is cached; version 0 when it never was.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        return self._keep(self._loader.load(key))

    def read(self, key: ArtifactKey) -> ArtifactView:
        """Return the artifact as it is now. Warm: 1 GET.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        cached = self._young(key)
        view = None if cached is None else self._loader.refresh(cached)
        return self.load(key) if view is None else self._keep(view)

    def find(self, key: ArtifactKey, version: int | None) -> Saved | None:
        """Return a version, the latest for None; None when it does not live. Warm: 1 GET.

        Raises:
            FormatError, StorageError: see `read`.
        """
        return self.read(key).find(version)

    def uri(self, saved: Saved) -> str:
        """Return where the payload of a version is, as fsspec opens it, or what it points at."""
        if saved.payload is None:
            return saved.file_uri or ""
        return self._env.store.uri(saved.payload)

    def read_payload(self, key: ArtifactKey, version: int | None) -> tuple[Saved, bytes] | None:
        """Return a version, the latest for None, and its payload, empty where it has none.

        Warm: 2 GET, side by side.

        Raises:
            FormatError: the payload is gone or damaged, or one of the log's objects is.
            StorageError: the store failed.
        """
        asked = self._ask_payload(key, version)
        view, missing = self.read(key), ""
        while (saved := view.find(version)) is not None:
            if saved.payload is None:
                return saved, b""
            if saved.payload == missing:
                raise FormatError(f"a payload is gone that is still referred to. key={missing!r}")
            try:
                answer = asked.pop(saved.payload, None)
                body = self._env.store.get(saved.payload) if answer is None else answer.result()
            except NotFoundError:  # deleted since, and swept
                missing, view = saved.payload, self.load(key)
                continue
            if len(body) != saved.size or sha256(body).hexdigest() != saved.sha256:
                raise FormatError(f"a payload is not what was saved. key={saved.payload!r}")
            return saved, body
        return None

    def _ask_payload(self, key: ArtifactKey, version: int | None) -> dict[str, Future[bytes]]:
        """Begin to read the payload, by its key, of what was the version when it was last looked.

        Under that key are never other bytes, so it is the right one if it is still the version's. A
        large one is not asked for when the latest may be another by now.
        """
        store, cached = self._env.store, self._cache.get(key.log)
        saved = cached.find(version) if cached else None
        payload = saved.payload if saved else None
        if saved is None or payload is None or store.near:
            return {}
        if version is None and (saved.size or 0) > _FORESEEN_BYTES:
            return {}
        return {payload: self._env.pool.submit(lambda: store.get(payload))}

    def views(self, app_name: str, user_id: str, session_id: str | None) -> list[ArtifactView]:
        """Return the living artifacts of a session and those its user's sessions share, by name.

        Only the latter where `session_id` is None. Costs 1 LIST for each and at most one for a
        manifest, side by side, what is packed, and a GET for each artifact with a commit that is
        neither packed nor cached. Damaged ones are passed over, with an error that is logged.

        Raises:
            StorageError: the store failed.
        """
        sessions = [None] if session_id is None else [session_id, None]
        views = self._loader.load_scope(app_name, user_id, sessions)
        return sorted(
            (self._keep(view) for view in views if view.alive),
            key=lambda view: view.key.filename,
        )

    def fresh(
        self, app_name: str, first: str = "", last: str = ""
    ) -> Iterator[tuple[ArtifactView, ArtifactRow | None]]:
        """Yield the artifacts that have something to pack, deleted ones too, in the order of keys.

        Args:
            app_name: The app.
            first: Only of logs with this prefix or a later one, in the order of keys.
            last: Only of logs with this prefix or an earlier one.

        Yields:
            The artifact, and its row in the runs that it was read with, None when there is none.

        Raises:
            StorageError: the store failed.
        """
        return self._loader.load_fresh(app_name, first, last)

    def forget(self) -> None:
        """Know nothing of what was read: something may have been swept before its time."""
        self._cache.clear()

    def save(
        self, key: ArtifactKey, draft: Draft, payload: bytes | Iterable[bytes] | None = None
    ) -> Saved:
        """Save the next version; when this returns, it is durable. 2 PUT where the name was seen.

        A payload that a living version has, and that is still there, is not stored again: 1 HEAD in
        place of a PUT.

        Args:
            key: Names the artifact.
            draft: What the version says.
            payload: Its bytes, or parts that are read once, as they are stored.

        Raises:
            StorageError: it was not saved, or (`UnknownOutcomeError`) it may have been.
            Exception: what `payload` raised; nothing was saved.
        """
        view = self._young(key) or self.load(key)
        upload = None if payload is None else Upload(self._env, key, draft, payload)
        refused = 0
        for _ in range(_ATTEMPTS):
            placed = None if upload is None else upload.place(view)
            if not self._env.is_young(view.seen) or refused > _WALKED:
                known, view, refused = view.version, self.load(key), 0
                if upload is not None:
                    upload.look(anew=view.packed_version > known)
                continue
            token, now = self._env.new_token(), self._now()
            saved = _saved(view, token, now, draft, upload, placed)
            landed = self._put(view, view.commit("save", token, now, saved=saved))
            if landed.is_ours:
                if upload is not None:
                    upload.drop_unused(placed)
                return saved
            refused = refused + 1 if landed.view else _WALKED + 1
            view = landed.view or view
        raise contended(key)

    def delete(self, key: ArtifactKey) -> None:
        """End all versions of an artifact; nothing happens when there is none.

        Raises:
            StorageError: it was not deleted, or (`UnknownOutcomeError`) it may have been.
        """
        for _ in range(_ATTEMPTS):
            view = self.read(key)
            if not view.alive or self.end(view):
                return
        raise contended(key)

    def end(self, view: ArtifactView) -> bool:
        """End all versions of an artifact if `view` is still all of it; tell whether it was.

        Raises:
            StorageError: it was not ended, or (`UnknownOutcomeError`) it may have been.
        """
        return self.prune(view, ())

    def prune(self, view: ArtifactView, kept: Sequence[Saved]) -> bool:
        """End the oldest versions of an artifact if `view` is still all of it; tell whether it was.

        Args:
            view: The artifact.
            kept: The newest of its versions, which go on living; where none does, it is deleted.

        Raises:
            StorageError: they were not ended, or (`UnknownOutcomeError`) they may have been.
        """
        kind: Kind = "prune" if kept else "delete"
        return self._once(view, lambda now, *said: now.commit(kind, *said, kept=kept))

    def name(self, view: ArtifactView, payloads: Sequence[str]) -> bool:
        """Say which payloads may go, if `view` is still all of it; tell whether it was.

        Args:
            view: The artifact.
            payloads: The keys of all that its versions do not refer to and that are to go: what
                was named before and is still there is among them.

        Raises:
            StorageError: it was not said, or (`UnknownOutcomeError`) it may have been.
        """
        return self._once(view, lambda now, *said: now.commit("name", *said, payloads=payloads))

    def _once(self, view: ArtifactView, make: Callable[[ArtifactView, str, int], Commit]) -> bool:
        """Create the commit that `make` makes after `view`, if that is still all there is."""
        if not self._env.is_young(view.seen):
            now = self.load(view.key)
            if (now.version, now.token) != (view.version, view.token):
                return False
            view = now
        commit = make(view, self._env.new_token(), self._now())
        return self._put(view, commit).is_ours

    def _put(self, view: ArtifactView, commit: Commit) -> _Landed:
        """Create the next commit.

        Raises:
            FormatError: what stands there is damaged.
            StorageError: nothing was stored, or (`UnknownOutcomeError`) it may have been.
        """
        log, version = view.key.log, commit.version
        started = self._env.clock.elapsed()
        taken = put_commit(
            self._env.store,
            commit_key(log, version),
            encode_commit(commit),
            is_ours=lambda body: decode_commit(log, version, body).token == commit.token,
            clock=self._env.clock,
            metrics=self._env.metrics,
        )
        if taken is not None:
            try:
                return _Landed(follow(view, taken), is_ours=False)
            except UnpackedError:
                return _Landed(None, is_ours=False)
        if self._env.is_young(min(started, view.seen)):
            return _Landed(self._keep(view.on_commit(commit).confirmed(started)), is_ours=True)
        with standing(commit_key(log, version)):
            return _Landed(self._confirm(view.key, commit), is_ours=True)

    def _confirm(self, key: ArtifactKey, commit: Commit) -> ArtifactView:
        """Make sure, by loading, that readers see a commit that took long.

        Raises:
            UnknownOutcomeError: they do not, or it cannot be told any more.
            StorageError: the store failed.
        """
        view = self.load(key)
        if not _holds(view, commit):
            raise UnknownOutcomeError(
                "the commit took longer than the view age limit and cannot be found any more:"
                f" load the artifact. key={commit_key(key.log, commit.version)!r}"
            )
        return view

    def _young(self, key: ArtifactKey) -> ArtifactView | None:
        view = self._cache.get(key.log)
        young = view is not None and self._env.is_young(view.seen)
        self._env.metrics.add("cache_hits" if young else "cache_misses")
        return view if young else None

    def _keep(self, view: ArtifactView) -> ArtifactView:
        if view.version:
            self._cache.put(view.key.log, view)
        return view

    def _now(self) -> int:
        return int(self._env.clock.wall() * 1_000_000)


def _saved(
    view: ArtifactView,
    token: str,
    now: int,
    draft: Draft,
    upload: Upload | None,
    payload: str | None,
) -> Saved:
    return Saved(
        version=view.version + 1,
        token=token,
        committed_at=now,
        artifact_version=view.next_version,
        part=draft.part,
        payload=payload,
        file_uri=draft.file_uri,
        mime_type=draft.mime_type,
        display_name=draft.display_name,
        size=upload.size if upload else None,
        sha256=upload.sha256 if upload else None,
        custom_metadata=draft.custom_metadata,
    )


def _holds(view: ArtifactView, commit: Commit) -> bool:
    """Tell whether what a commit did is part of the artifact as `view` shows it."""
    if view.version <= commit.version:
        return (view.version, view.token) == (commit.version, commit.token)
    if commit.kind == "save":
        return any(saved.token == commit.token for saved in view.saves)
    if commit.kind == "name":
        return view.named is not None and view.named.token == commit.token
    return all(saved.version >= commit.first for saved in view.saves)
