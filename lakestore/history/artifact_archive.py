"""What jobs have packed of artifacts. Owns which rows of runs are asked for, and the erased."""

from __future__ import annotations

from collections.abc import Iterable

from lakestore.history.archive import Archive
from lakestore.history.erased import artifact_stand_in
from lakestore.history.runs import ARTIFACTS, artifact_place, artifacts_between
from lakestore.log.keys import ArtifactKey, log_digest
from lakestore.log.manifests import Manifest
from lakestore.tables.artifacts import ArtifactRow


class ArtifactArchive:
    """Finds rows of artifacts in what an `Archive` reads.

    All of it raises `NotFoundError` when an object was swept: begin with a newer manifest then;
    `FormatError` when one is damaged; `StorageError` when the store failed.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def at(self, manifest: Manifest, keys: Iterable[ArtifactKey]) -> dict[ArtifactKey, ArtifactRow]:
        """Return what is packed of some artifacts, each row group of a run read once."""
        wanted = {artifact_place(key): key for key in keys}
        rows = self._archive.rows_at(ARTIFACTS, manifest, wanted)
        found = {wanted[place]: row for place, row in rows.items()}
        return {**self.erased(manifest, wanted.values()), **found}

    def erased(
        self, manifest: Manifest, keys: Iterable[ArtifactKey]
    ) -> dict[ArtifactKey, ArtifactRow]:
        """Return what stands for those of some artifacts that were erased."""
        erased = self._archive.erased(manifest)
        gone = ((key, erased.get(log_digest(key.log))) for key in keys if erased)
        return {key: artifact_stand_in(key, row) for key, row in gone if row is not None}

    def of(
        self, manifest: Manifest, user_id: str, sessions: Iterable[str | None]
    ) -> list[ArtifactRow]:
        """Return what is packed of some sessions' artifacts, or (None) of those the user shares."""
        spans = [artifacts_between(user_id, session_id) for session_id in sessions]
        return list(self._archive.rows_between(ARTIFACTS, manifest, spans).values())
