"""The artifacts of a user who is erased: ended, their payloads named, and what is left of them.

Owns which payloads may be deleted. Each was named in its artifact's log after all versions had
ended: whoever has stored it and is about to refer to it meets that commit, and stores it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.artifact_loading import decode_commit, key_of, owner
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.erased import newest_of
from lakestore.history.runs import ARTIFACTS, LAST
from lakestore.jobs.artifact_listings import ListedArtifact, list_artifacts
from lakestore.lake import Lake
from lakestore.log.keys import (
    ArtifactKey,
    app_manifests,
    artifacts_of_user,
    commit_key,
    log_digest,
    parse_artifact,
)
from lakestore.storage import UnreadableError
from lakestore.tables.erased import ErasedRow

_ATTEMPTS = 8


class ArtifactEraser:
    """Erases the artifacts of one user of one app."""

    def __init__(
        self, lake: Lake, app_name: str, user_id: str, gone: Iterable[ErasedRow] = ()
    ) -> None:
        """Take the user, and what is known to be ended already."""
        self._lake = lake
        self._app = app_name
        self._user = user_id
        self._below = artifacts_of_user("", app_name, user_id)
        self.gone = {row.digest: row for row in gone}
        """By the digests of their logs, which were ended."""
        self._named: set[str] = set()
        self._unnamed: dict[str, list[str]] = {}
        """Payloads by log where nothing tells whose they are, so that no commit can name them."""

    def end(self) -> None:
        """End every artifact of the user, damaged ones too, by a `delete` commit.

        Raises:
            StorageError: the store failed, or others keep writing one of them.
        """
        listed = {one.log: one for one in self._listed()}
        packed = {key.log: key for key in self._packed()}
        keys = {log: self._key(one) or packed.get(log) for log, one in listed.items()}
        for log, artifact in {**packed, **keys}.items():
            if artifact is None:
                self._note(log, listed[log].last, "")
                self._unnamed[log] = [stored.key for stored in listed[log].payloads]
            else:
                self._end(artifact)

    def name_late(self) -> None:
        """Name what has landed of erased artifacts since they were ended.

        Raises:
            StorageError: the store failed, or others keep writing one of them.
        """
        for one, key in self._left():
            payloads = [stored.key for stored in one.payloads]
            if key is None:
                self._unnamed[one.log] = payloads
            else:
                self._name(key, payloads)

    def removable(self) -> list[str]:
        """Return the payloads that may be deleted, in the order of keys.

        Those that were named, and those that nothing can name, but of what was begun since.
        """
        begun = {one.log for one in (self._listed() if self._unnamed else ()) if self._key(one)}
        unnamed = (some for log, some in self._unnamed.items() if log not in begun)
        return sorted(self._named.union(*unnamed))

    def found(self) -> Iterator[str]:
        """Yield the payloads of erased artifacts, but those of what was begun since."""
        for one, _ in self._left():
            yield from (stored.key for stored in one.payloads)

    def _listed(self) -> Iterator[ListedArtifact]:
        return list_artifacts(self._lake.environment.store, self._below)

    def _packed(self) -> Iterator[ArtifactKey]:
        archive = self._lake.sessions.archive
        runs = archive.newest(app_manifests(self._app)).table(ARTIFACTS.name).runs
        span = (self._user, ""), (self._user, LAST[1])
        return map(key_of, archive.rows_in(ARTIFACTS, self._app, runs, *span))

    def _left(self) -> Iterator[tuple[ListedArtifact, ArtifactKey | None]]:
        """Yield erased artifacts with the payloads to which nothing refers that lives."""
        erased = self._erased()
        listed = self._listed() if erased else ()
        some = [one for one in listed if one.payloads and log_digest(one.log) in erased]
        keys = {one.log: self._key(one) for one in some}
        if None in keys.values():  # begun anew, packed and swept
            keys |= {key.log: key for key in self._packed() if keys.get(key.log, key) is None}
        for one in some:
            view = self._view(keys[one.log])
            living = {saved.payload for saved in view.saves} if view else set()
            one.payloads = [stored for stored in one.payloads if stored.key not in living]
            if one.payloads:
                yield one, keys[one.log]

    def _erased(self) -> Mapping[str, ErasedRow]:
        archive = self._lake.sessions.archive
        known = archive.erased(archive.newest(app_manifests(self._app)))
        return newest_of(known, self.gone)

    def _key(self, one: ListedArtifact) -> ArtifactKey | None:
        """Return which artifact is listed; None where only a row tells, or a damaged commit."""
        key = parse_artifact(one.log)
        if key is None and one.last:
            try:
                body = self._lake.environment.store.get(commit_key(one.log, one.last))
                return owner(decode_commit(one.log, one.last, body))
            except (FormatError, NotFoundError, UnreadableError):
                return None
        return key

    def _view(self, key: ArtifactKey | None) -> ArtifactView | None:
        """Return an artifact as it is now; None where it cannot be read."""
        try:
            return self._lake.artifacts.load(key) if key else None
        except (FormatError, UnreadableError):
            return None

    def _end(self, key: ArtifactKey) -> None:
        for _ in range(_ATTEMPTS):
            view = self._view(key)
            if view is None:
                self._end_unread(key)
                return
            if not view.alive or self._lake.artifacts.end(view):
                self._name(key, self._payloads(key))
                return
        raise _contended(key)

    def _name(self, key: ArtifactKey, payloads: Sequence[str]) -> None:
        """Name payloads to which nothing refers, and note up to where all has ended."""
        for _ in range(_ATTEMPTS):
            view = self._lake.artifacts.load(key)
            living = {saved.payload for saved in view.saves}
            needless = [payload for payload in payloads if payload not in living]
            if needless and not self._lake.artifacts.name(view, needless):
                continue
            self._named.update(needless)
            if not view.alive:  # else it was begun anew meanwhile
                now = self._lake.artifacts.read(key)
                if now.alive:
                    continue
                self._note(key.log, now.version, now.token)
            return
        raise _contended(key)

    def _end_unread(self, key: ArtifactKey) -> None:
        """End an artifact that cannot be read, after whatever is the last of its log."""
        artifacts, clock = self._lake.artifacts, self._lake.clock
        payloads = self._payloads(key)
        for _ in range(_ATTEMPTS):
            listed = next((one for one in self._listed() if one.log == key.log), None)
            last = listed.last if listed else 0
            try:
                is_ended = artifacts.end(ArtifactView(key, clock.elapsed(), last))
                ended = ArtifactView(key, clock.elapsed(), last + 1)
                if is_ended and (not payloads or artifacts.name(ended, payloads)):
                    self._named.update(payloads)
                    self._note(key.log, last + 1 + bool(payloads), "")
                    return
            except FormatError:  # another writer's commit, as damaged as the rest
                continue
        raise _contended(key)

    def _payloads(self, key: ArtifactKey) -> list[str]:
        return list(self._lake.environment.store.names(key.objects))

    def _note(self, log: str, version: int, token: str) -> None:
        if version:
            digest, now = log_digest(log), int(self._lake.clock.wall() * 1_000_000)
            self.gone[digest] = ErasedRow(digest, version, token, now)


def _contended(key: ArtifactKey) -> StorageError:
    return StorageError(f"others keep writing this artifact. log={key.log!r}")
