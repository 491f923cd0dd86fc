"""What rebuilds leave behind: drafts, and what they have put aside. Owns how long it stays."""

from __future__ import annotations

from dataclasses import replace

from lakestore.history.archive import PREVIOUS
from lakestore.history.needless import Age
from lakestore.jobs.changes import Changes, Publisher
from lakestore.lake import Lake
from lakestore.log.keys import app_manifests
from lakestore.log.manifests import Manifest

_DAY = 86_400.0
DRAFTS_KEPT = 7 * _DAY
"""How long, besides the grace, sweeps leave what a rebuild that did not end has made: seconds."""
ASIDE_KEPT = 30 * _DAY
"""How long, besides the grace, sweeps leave what a rebuild has put aside, in seconds."""


def newest_of(lake: Lake, app_name: str) -> Manifest:
    """Return the newest manifest of an app, which bears its name."""
    newest = lake.sessions.archive.newest(app_manifests(app_name))
    return replace(newest, app_name=app_name)


def drop_put_aside(lake: Lake, app_name: str, age: Age) -> None:
    """Let go what rebuilds of an app have put aside, once all of it is old enough.

    Raises:
        ConflictError: other jobs keep publishing.
        FormatError: the newest manifest, or what was put aside, is damaged.
        StorageError: the store failed.
    """
    newest, archive = newest_of(lake, app_name), lake.sessions.archive
    files = newest.table(PREVIOUS.name).runs
    if files:
        rows = archive.rows_in(PREVIOUS, app_name, files)
        times = (row.inserted_at / 1_000_000 for row in rows if row.kind == "swap")
        if max(times, default=0.0) <= age.before:
            publisher = Publisher(lake.environment, archive, app_name)
            publisher.publish(Changes(keeps_previous=False))
