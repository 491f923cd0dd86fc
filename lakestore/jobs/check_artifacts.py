"""Checks artifacts: each commit its own, versions that follow each other, payloads there and whole.

Of a log the newest commit has all that is not packed, so that what is wrong below it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.archive import Archive
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.logged import FILES, rows_of_logs
from lakestore.history.runs import ARTIFACTS
from lakestore.jobs.artifact_listings import (
    ListedArtifact,
    list_artifacts,
    packed_version,
    pieces_of,
    read_commits,
    view_of,
)
from lakestore.jobs.check_payloads import problem_of
from lakestore.jobs.findings import COPY, Finding, Look, Severity
from lakestore.log.keys import ARTIFACT_LOGS, app_manifests, commit_key, log_digest
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.artifacts import ArtifactRow, Commit, Saved
from lakestore.tables.payloads import Content

_ATTEMPTS = 3
_BELOW = "nothing: what is above it holds all of the artifact", "a sweep deletes it in its time"

Read = Mapping[int, Commit | FormatError | UnreadableError | None]
"""By version the commits of a log, or why there is none."""


class ArtifactCheck:
    """Checks the artifacts of one app."""

    def __init__(self, look: Look, *, deep: bool) -> None:
        """Check that payloads are there; if `deep`, also that they hold what was stored."""
        self._look = look
        self._env = look.env
        self._archive: Archive = look.archive
        self._deep = deep
        self._met: set[bytes] = set()
        """Digests of the logs of which anything was listed, short ones: millions are held."""
        self._oldest = 0.0

    def run(self) -> None:
        """Check each artifact of which anything is listed, or packed.

        Raises:
            FormatError: a run is damaged.
            StorageError: the store failed.
        """
        strays: list[str] = []
        below = FILES.logs(self._look.app).removeprefix(ARTIFACT_LOGS)
        try:
            for piece in pieces_of(list_artifacts(self._env.store, below, strays)):
                self._check_piece(piece)
                self._look.progress("artifacts", self._look.artifacts, None)
        except UnreadableError as error:
            cost, remedy = "all that is in it", "open it"
            for key in error.keys:
                found = Finding("lost", "closed folder", key, str(error), cost, remedy)
                self._look.findings.add(found)
        for key in strays:
            self._look.findings.stray(key)
        self._check_unlisted()

    def _check_piece(self, piece: Sequence[ListedArtifact]) -> None:
        newest = max(it.modified for one in piece for it in (*one.commits.values(), *one.payloads))
        self._oldest = max(self._oldest, newest - self._env.limits.grace)
        rows = self._rows([one.log for one in piece])
        self._met.update(_short(one.log) for one in piece)
        for one, read in self._read(piece, rows):
            found = self._check(one, rows.get(one.log), read)
            if found:
                found = self._check_again(one, found)
            self._look.findings.add(*found)
            view = _view(one, rows.get(one.log), read)
            self._look.artifacts += view.alive if view else bool(one.commits)
            self._look.objects += one.objects

    def _rows(self, logs: Sequence[str]) -> dict[str, ArtifactRow]:
        """Return what is packed by now of logs that were listed before."""
        for _ in range(_ATTEMPTS):
            with suppress(NotFoundError):  # superseded since, and swept
                return rows_of_logs(self._archive, FILES, self._manifest(), logs)
        raise StorageError(f"runs changed faster than they could be read. app={self._look.app!r}")

    def _manifest(self) -> Manifest:
        return self._archive.newest(app_manifests(self._look.app))

    def _read(
        self, piece: Sequence[ListedArtifact], rows: Mapping[str, ArtifactRow]
    ) -> Iterator[tuple[ListedArtifact, Read]]:
        """Yield artifacts with the commits that are not packed."""
        wanted = [
            (one.log, version)
            for one in piece
            for version in one.commits
            if version > packed_version(rows.get(one.log))
        ]
        commits = read_commits(self._env, wanted)
        for one in piece:
            above = [v for v in one.commits if v > packed_version(rows.get(one.log))]
            yield one, {version: next(commits)[1] for version in above}

    def _check_again(self, one: ListedArtifact, found: list[Finding]) -> list[Finding]:
        """Return what is still wrong when it is looked at anew: others may have been at work."""
        below = one.log.removeprefix(ARTIFACT_LOGS)
        for _ in range(_ATTEMPTS):
            before = found
            listed = next(list_artifacts(self._env.store, below), ListedArtifact(one.log))
            rows = self._rows([one.log])
            ((_, read),) = self._read([listed], rows)
            found = self._check(listed, rows.get(one.log), read)
            if found == before or not found:
                break
        return found

    def _check(self, one: ListedArtifact, row: ArtifactRow | None, read: Read) -> list[Finding]:
        """Return what is wrong with one artifact."""
        found = [*_of_log(one, row, read)]
        view = _view(one, row, read)
        if view is None:
            return found
        numbers = [saved.artifact_version for saved in view.saves]
        if any(a + 1 != b for a, b in pairwise(numbers)):
            found.append(
                Finding(
                    "mendable",
                    "wrong versions",
                    one.log,
                    f"its versions do not follow each other: {numbers}",
                    "a version may be missing, or there twice",
                    "load what is wanted of it, and save that under another name",
                )
            )
        listed = {stored.key: stored for stored in one.payloads}
        return [*found, *self._of_payloads(view, listed), *self._orphans(view, listed)]

    def _of_payloads(
        self, view: ArtifactView, listed: Mapping[str, StoredObject]
    ) -> Iterator[Finding]:
        for saved in {it.payload: it for it in view.saves if it.payload}.values():
            problem = self._problem(saved, listed)
            if problem:
                having = [
                    str(it.artifact_version) for it in view.saves if it.payload == saved.payload
                ]
                versions = ("version " if len(having) == 1 else "versions ") + ", ".join(having)
                cost = f"it cannot be loaded as {view.key.filename!r}, {versions}"
                yield Finding("lost", "damaged payload", saved.payload or "", problem, cost, COPY)

    def _problem(self, saved: Saved, listed: Mapping[str, StoredObject]) -> str:
        content = Content(saved.payload or "", saved.sha256 or "", saved.size or 0)
        return problem_of(self._env, content, listed.get(content.key), deep=self._deep)

    def _orphans(self, view: ArtifactView, listed: Mapping[str, StoredObject]) -> Iterator[Finding]:
        """Yield the old payloads to which nothing refers, and which no commit has named."""
        known = {saved.payload for saved in view.saves}
        known.update(view.named.payloads if view.named else ())
        for key in listed.keys() - known:
            if listed[key].modified <= self._oldest:
                problem = "no version refers to it: its saver has died, or the version was dropped"
                cost, remedy = "its bytes", "sweeps delete it when its time comes"
                yield Finding("note", "orphan", key, problem, cost, remedy)

    def _check_unlisted(self) -> None:
        """Count packed artifacts of which nothing is listed, and tell of those that have payloads.

        What was saved and packed since it would have been listed is there when it is listed anew.
        """
        files = self._manifest().table(ARTIFACTS.name).runs
        for row in self._archive.rows_in(ARTIFACTS, self._look.app, files):
            if not row.saves or _short(log := FILES.log(row)) in self._met:
                continue
            self._look.artifacts += 1
            if any(saved.payload for saved in row.saves):
                self._look.findings.add(*self._check_again(ListedArtifact(log), []))


def _view(one: ListedArtifact, row: ArtifactRow | None, read: Read) -> ArtifactView | None:
    """Return an artifact as it is now, None where that cannot be told."""
    commit = read.get(one.last)
    if commit is not None and not isinstance(commit, Commit):
        return None
    return view_of(one, row, commit, 0.0)


def _of_log(one: ListedArtifact, row: ArtifactRow | None, read: Read) -> Iterator[Finding]:
    """Yield what is wrong with the commits of a log above what is packed."""
    for version, commit in read.items():
        if isinstance(commit, FormatError | UnreadableError):
            severity: Severity = "note"
            cost, remedy = _BELOW
            if version == one.last:
                severity, remedy = "lost", COPY
                cost = "the artifact cannot be loaded; no other one suffers"
            key = commit_key(one.log, version)
            yield Finding(severity, "damaged commit", key, str(commit), cost, remedy)
        elif isinstance(commit, Commit) and commit.base > packed_version(row):
            yield Finding(
                "lost",
                "unpacked commit",
                commit_key(one.log, version),
                "it builds on what no manifest has packed",
                "the artifact cannot be loaded; a newer manifest is lost",
                "restore the newest manifest from a copy of the store",
            )
    for version, following in pairwise(read):
        later, earlier = read[following], read[version]
        problem = "the version after it is missing" if following != version + 1 else ""
        if isinstance(later, Commit) and isinstance(earlier, Commit) and not problem:
            problem = "" if later.previous == earlier.token else "nothing was built on it"
        if problem:
            yield Finding("note", "stray commit", commit_key(one.log, version), problem, *_BELOW)


def _short(log: str) -> bytes:
    return bytes.fromhex(log_digest(log)[:16])
