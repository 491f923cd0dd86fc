"""What packing fresh artifacts makes of an app. Owns which of them are left unpacked."""

from __future__ import annotations

from collections.abc import Iterator

from lakestore.history.archive import Place
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.runs import ARTIFACTS
from lakestore.jobs.changes import Change
from lakestore.lake import Lake
from lakestore.log.keys import app_manifests, log_digest
from lakestore.tables.artifacts import ArtifactRow

_SAVES_AT_ONCE = 65_536
"""About as many versions are held and published together."""

Artifacts = dict[Place, Change[ArtifactRow]]
"""What a job makes of artifacts, by where their rows are."""


def fresh_artifacts(lake: Lake, app_name: str) -> Iterator[Artifacts]:
    """Yield what packing all artifacts with a fresh commit makes of them, in parts.

    The last part, which may be empty, is to be published with whatever comes next.

    Raises:
        FormatError: the newest manifest or a run is damaged.
        StorageError: the store failed.
    """
    made: Artifacts = {}
    held = 0
    for view, before in lake.artifacts.fresh(app_name):
        if _is_erased(lake, view):
            continue
        row = view.row()
        made[ARTIFACTS.place(row)] = Change(before, row)
        held += 1 + len(row.saves)
        if held >= _SAVES_AT_ONCE:
            yield made
            made, held = {}, 0
    yield made


def _is_erased(lake: Lake, view: ArtifactView) -> bool:
    """Tell whether an artifact is one of which only a digest is to be left.

    What names its payloads stays in its log until they are gone: a row would have its names again.
    """
    if view.alive:
        return False
    archive = lake.sessions.archive
    erased = archive.erased(archive.known(app_manifests(view.key.app_name)))
    return log_digest(view.key.log) in erased
