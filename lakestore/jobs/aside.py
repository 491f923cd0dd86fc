"""Publishing swaps of memories, and what rebuilds leave behind. Owns how long that stays."""

from __future__ import annotations

from dataclasses import replace

from lakestore.errors import ReadOnlyError
from lakestore.history.archive import PREVIOUS
from lakestore.history.needless import Age
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.swapping import Comparison, Pairing, Swap
from lakestore.lake import Lake
from lakestore.log.ids import check_id
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


def swapped(lake: Lake, swap: Swap, *, dry_run: bool) -> Comparison:
    """Publish a swap, or only see what would come of it; return how both sides differ.

    Raises:
        ConflictError: another one came between, or other jobs keep publishing.
        FormatError, StorageError: what is packed could not be read, or nothing was published.
    """
    archive, app_name = lake.sessions.archive, swap.base.app_name
    if dry_run:
        swap.check_rows()
        pairing = Pairing(archive, newest_of(lake, app_name), swap)
        for _ in pairing.kept():
            pass
        return pairing.comparison
    publisher = Publisher(lake.environment, archive, app_name)
    publisher.publish(Changes(swap=swap))
    return publisher.comparison


def check_writable(lake: Lake, app_name: str, user_id: str | None) -> None:
    """Refuse what names no app or user, and a lake that takes no memories.

    Raises:
        InputError: an id makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`.
    """
    check_id("app_name", app_name)
    if user_id is not None:
        check_id("user_id", user_id)
    if lake.read_only:
        raise ReadOnlyError("a lake that was opened with read_only=True remembers nothing new")
