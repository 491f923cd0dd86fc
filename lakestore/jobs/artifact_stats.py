"""Figures of artifacts: what is listed of them, what runs tell, and newest commits.

Of an artifact that is not packed the newest commit alone tells what lives: it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lakestore.history.archive import Archive
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.environment import Environment
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
from lakestore.jobs.by_user import Figures
from lakestore.log.keys import ARTIFACT_LOGS, user_in
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject
from lakestore.tables.artifacts import ArtifactRow, Commit

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
    env: Environment, archive: Archive, manifest: Manifest, app_name: str, both: Both
) -> Iterator[tuple[ListedArtifact, bool]]:
    """Count what is listed of artifacts; yield each, and whether some of it is not packed.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    below = FILES.logs(app_name).removeprefix(ARTIFACT_LOGS)
    for piece in pieces_of(list_artifacts(env.store, below)):
        rows = rows_of_logs(archive, FILES, manifest, [one.log for one in piece])
        commits = dict(read_commits(env, [(it.log, it.last) for it in _fresh(piece, rows)]))
        for one in piece:
            row, commit = rows.get(one.log), commits.get((one.log, one.last))
            # What cannot be read may have anything.
            unknown = (one.log, one.last) in commits and not isinstance(commit, Commit)
            commit = commit if isinstance(commit, Commit) else None
            view = None if unknown else view_of(one, row, commit, 0.0)
            for figures in both(row.user_id if row and row.user_id else user_in(one.log)):
                _count(figures, one, row, view)
            yield one, one.last > packed_version(row)


def _fresh(
    piece: Sequence[ListedArtifact], rows: Mapping[str, ArtifactRow]
) -> Iterator[ListedArtifact]:
    return (one for one in piece if one.last > packed_version(rows.get(one.log)))


def _count(
    figures: Figures, one: ListedArtifact, row: ArtifactRow | None, view: ArtifactView | None
) -> None:
    packed = packed_version(row)
    alive = view.alive if view else bool(one.commits)
    figures.artifacts += alive - bool(row and row.saves)  # which is counted with what is packed
    for version, stored in one.commits.items():
        _add(figures, stored, needless=version <= packed or version < one.last)
    referred = {saved.payload for saved in view.saves} if view else None
    for stored in one.payloads:
        if referred is None or stored.key in referred:
            figures.payloads += 1
            figures.payload_bytes += stored.size
        else:
            figures.covered_objects += 1
            figures.covered_bytes += stored.size


def _add(figures: Figures, commit: StoredObject, *, needless: bool) -> None:
    figures.fresh_objects += not needless
    figures.fresh_bytes += 0 if needless else commit.size
    figures.covered_objects += needless
    figures.covered_bytes += commit.size if needless else 0
