"""Sweeping artifacts: commits that later ones or runs cover, and payloads to which nothing refers.

A payload is named in a commit of its artifact's log before it goes: whoever has stored it and is
about to refer to it meets that commit, and stores it again. What is not packed costs a read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakestore.errors import LakeError
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.logged import FILES, rows_of_logs
from lakestore.history.needless import Age
from lakestore.jobs.artifact_listings import (
    ListedArtifact,
    list_artifacts,
    packed_version,
    pieces_of,
    read_commits,
    view_of,
)
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.removing import Remover
from lakestore.lake import Lake
from lakestore.log.keys import ARTIFACT_LOGS, app_manifests, log_digest
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject
from lakestore.tables.artifacts import ArtifactRow, Commit
from lakestore.tables.erased import ErasedRow

_ATTEMPTS = 4

Rows = Mapping[str, ArtifactRow]


@dataclass(frozen=True, slots=True)
class _Orphans:
    """Payloads of an artifact to which nothing refers, and which no commit has named."""

    view: ArtifactView
    payloads: Sequence[StoredObject]
    known: Sequence[str]
    """Those that are named already, and still there."""


class ArtifactSweep:
    """Sweeps the artifacts of one app."""

    def __init__(
        self, lake: Lake, covering: Manifest, age: Age, remover: Remover, *, dry_run: bool
    ) -> None:
        """Take the newest manifest that is old enough; its number is 0 when there is none."""
        self._lake = lake
        self._env = lake.environment
        self._archive = lake.sessions.archive
        self._covering = covering
        self._app = covering.app_name
        self._age = age
        self._remover = remover
        self._dry_run = dry_run
        self._departed: dict[str, ErasedRow] = {}
        self.named = 0
        """How many payloads were named, or would be."""

    def run(self, *, with_payloads: bool) -> None:
        """Do all of it.

        Args:
            with_payloads: Whether payloads may go: not where a manifest was lost that has told
                what refers to them.

        Raises:
            NotFoundError: a manifest was superseded and what it names swept: begin again.
            ConflictError: other jobs keep publishing.
            FormatError: a run is damaged.
            StorageError: the store failed.
        """
        seen = self._env.clock.elapsed()
        below = FILES.logs(self._app).removeprefix(ARTIFACT_LOGS)
        for piece in pieces_of(list_artifacts(self._env.store, below)):
            logs = [one.log for one in piece]
            old = rows_of_logs(self._archive, FILES, self._covering, logs)
            self._sweep_commits(piece, old)
            if with_payloads:
                self._sweep_payloads(piece, old, seen)
        if self._departed and not self._dry_run:
            publisher = Publisher(self._env, self._archive, self._app)
            publisher.publish(Changes(erased=self._departed))

    def _sweep_commits(self, piece: Sequence[ListedArtifact], old: Rows) -> None:
        """Delete commits that the old manifest covers, or an old commit above them that is whole.

        Each commit holds all that is not packed: of what is below it nothing is read.
        """
        needless: list[StoredObject] = []
        below: dict[tuple[str, int], list[StoredObject]] = {}
        for one in piece:
            packed = old[one.log].version if one.log in old else 0
            needless += (stored for v, stored in one.commits.items() if v <= packed)
            last = self._last_old(one)
            earlier = [stored for v, stored in one.commits.items() if packed < v < last]
            if earlier:
                below[one.log, last] = earlier
        for place, commit in read_commits(self._env, list(below)):
            if isinstance(commit, Commit):
                needless += below[place]
        self._remover.remove("commits", needless)

    def _last_old(self, one: ListedArtifact) -> int:
        """Return the newest version that is old enough, 0 for none."""
        return max((v for v, it in one.commits.items() if self._age.reaches(it)), default=0)

    def _sweep_payloads(self, piece: Sequence[ListedArtifact], old: Rows, seen: float) -> None:
        """Delete payloads that were named long ago, and name those to which nothing refers."""
        newest = self._archive.newest(app_manifests(self._app))
        rows, erased = old, self._archive.erased(newest)
        if newest != self._covering:
            rows = rows_of_logs(self._archive, FILES, newest, [one.log for one in piece])
        chosen = [one for one in piece if self._is_worth_a_look(one, rows.get(one.log), erased)]
        fresh = [(it.log, it.last) for it in chosen if it.last > packed_version(rows.get(it.log))]
        commits = dict(read_commits(self._env, fresh))
        going: list[StoredObject] = []
        orphans: list[_Orphans] = []
        for one in chosen:
            commit = commits.get((one.log, one.last))
            if commit is None and (one.log, one.last) in commits:
                continue  # it is gone: the next sweep, then
            if commit is not None and not isinstance(commit, Commit):
                continue  # damaged: nobody knows what it refers to
            view = view_of(one, rows.get(one.log), commit, seen)
            if view is not None:
                going += self._named(one, view, packed_version(old.get(one.log)))
                orphans += self._orphans(one, view)
                if log_digest(one.log) in erased:
                    self._depart(one, view)
        self._remover.remove("payloads", [*going, *self._name(orphans)])

    def _is_worth_a_look(
        self, one: ListedArtifact, row: ArtifactRow | None, erased: Mapping[str, ErasedRow]
    ) -> bool:
        """Tell whether an artifact may have payloads that nothing refers to, or no use any more."""
        # Where all has ended of what was begun after an erasure, that is never packed.
        is_left = bool(erased) and one.last > packed_version(row) and log_digest(one.log) in erased
        packed = {saved.payload for saved in row.saves} if row and not is_left else set()
        if any(it.key not in packed and self._age.reaches(it) for it in one.payloads):
            return True
        return is_left and not one.payloads

    def _named(
        self, one: ListedArtifact, view: ArtifactView, covered: int
    ) -> Iterator[StoredObject]:
        """Yield the payloads that a commit has named that is old, swept, or covered."""
        named = view.named
        if named is not None and named.version <= max(self._last_old(one), covered):
            living = {saved.payload for saved in view.saves}
            gone = set(named.payloads) - living
            yield from (stored for stored in one.payloads if stored.key in gone)

    def _orphans(self, one: ListedArtifact, view: ArtifactView) -> Iterator[_Orphans]:
        """Yield the old payloads that nothing refers to, and nothing names."""
        named = set(view.named.payloads) if view.named else set()
        known = named | {saved.payload for saved in view.saves}
        found = [it for it in one.payloads if it.key not in known and self._age.reaches(it)]
        if found:
            there = [it.key for it in one.payloads if it.key in named]
            yield _Orphans(view, found, there)

    def _name(self, orphans: Sequence[_Orphans]) -> list[StoredObject]:
        """Name payloads, each artifact's in a commit; return those that may go at once."""
        if self._dry_run and self._age.reaches_all:
            return [stored for each in orphans for stored in each.payloads]
        named = orphans
        if not self._dry_run:
            calls = [self._lake.submit(partial(self._name_some, each)) for each in orphans]
            done = zip(orphans, [call.result() for call in calls], strict=True)
            named = [each for each, is_named in done if is_named]
        if self._age.reaches_all:
            return [stored for each in named for stored in each.payloads]
        self.named += sum(len(each.payloads) for each in named)
        return []

    def _name_some(self, orphans: _Orphans) -> bool:
        """Name the payloads of one artifact; tell whether nothing refers to them for good then."""
        artifacts, view = self._lake.artifacts, orphans.view
        keys = [stored.key for stored in orphans.payloads]
        try:
            for _ in range(_ATTEMPTS):
                if any(saved.payload in keys for saved in view.saves):
                    return False
                known = view.named.payloads if view.named else ()
                if view is orphans.view:
                    known = tuple(orphans.known)  # those that are gone need no name any more
                if artifacts.name(view, sorted({*known, *keys})):
                    return True
                view = artifacts.load(view.key)
        except LakeError as error:
            self._remover.note(error)
        return False

    def _depart(self, one: ListedArtifact, view: ArtifactView) -> None:
        """Let nothing but a digest be left of an erased artifact that has nothing any more.

        Its last commits have named what landed late, and have the names that were to go.
        """
        if not view.alive and not one.payloads and one.last == self._last_old(one):
            digest, now = log_digest(one.log), int(self._env.clock.wall() * 1_000_000)
            self._departed[digest] = ErasedRow(digest, view.version, view.token, now)
