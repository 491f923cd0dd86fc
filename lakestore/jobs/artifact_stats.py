"""Figures of artifacts: what is listed of them, and what runs tell. Opens nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakestore.history.archive import Archive
from lakestore.history.logged import FILES, rows_of_logs
from lakestore.history.runs import ARTIFACTS
from lakestore.jobs.artifact_listings import ListedArtifact, list_artifacts, pieces_of
from lakestore.jobs.by_user import Figures
from lakestore.log.keys import ARTIFACT_LOGS, user_in
from lakestore.log.manifests import Manifest
from lakestore.storage import ObjectStore
from lakestore.tables.artifacts import ArtifactRow

Both = Callable[[str], Sequence[Figures]]
"""Returns the figures that what is a user's adds to."""


def count_packed(archive: Archive, manifest: Manifest, both: Both) -> None:
    """Count the artifacts that runs tell of.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    files = manifest.table(ARTIFACTS.name).runs
    for row in archive.rows_in(ARTIFACTS, manifest.app_name, files):
        for figures in both(row.user_id):
            figures.artifacts += bool(row.saves)


def count_listed(
    store: ObjectStore, archive: Archive, manifest: Manifest, app_name: str, both: Both
) -> Iterator[tuple[ListedArtifact, bool]]:
    """Count what is listed of artifacts; yield each, and whether some of it is not packed.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    below = FILES.logs(app_name).removeprefix(ARTIFACT_LOGS)
    for piece in pieces_of(list_artifacts(store, below)):
        rows = rows_of_logs(archive, FILES, manifest, [one.log for one in piece])
        for one in piece:
            row = rows.get(one.log)
            for figures in both(row.user_id if row and row.user_id else user_in(one.log)):
                _count(figures, one, row)
            yield one, one.last > (row.version if row else 0)


def _count(figures: Figures, one: ListedArtifact, row: ArtifactRow | None) -> None:
    packed = row.version if row else 0
    figures.artifacts += row is None and bool(one.commits)
    for version, stored in one.commits.items():
        figures.fresh_objects += version > packed
        figures.fresh_bytes += stored.size if version > packed else 0
        figures.covered_objects += version <= packed
        figures.covered_bytes += stored.size if version <= packed else 0
    for stored in one.payloads:
        figures.payloads += 1
        figures.payload_bytes += stored.size
