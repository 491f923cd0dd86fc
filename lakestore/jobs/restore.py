"""Bringing back the memories that a rebuild has put aside. Owns the public call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from lakestore.errors import (
    NotFoundError,
)
from lakestore.history.archive import PREVIOUS
from lakestore.jobs.aside import check_writable, newest_of, swapped
from lakestore.jobs.compact import pack_fresh
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.running import Running, check_lake
from lakestore.jobs.swapping import Comparison, Swap
from lakestore.lake import Lake
from lakestore.log.stamps import stamp_text
from lakestore.tables.memory import MemoryRow

_RESTORED = "restored"
"""The id of a marker of a user of whom nothing is put aside, though of others of the app it is."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did."""

    app_name: str
    comparison: Comparison
    """What is remembered again beside what a rebuild had made."""
    elapsed_ms: int


def restore_memory(
    lake: Lake,
    app_name: str,
    user_id: str | None = None,
    *,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> RestoreReport:
    """Bring back the memories that the last rebuild has put aside. Blocking.

    What the rebuild had made goes, and what was added since stays; what was forgotten, pruned or
    erased since does not come back. Sweeps drop what was put aside 30 days after the rebuild.

    Args:
        lake: The lake, open for writing.
        app_name: The app.
        user_id: Only this user's; None: of all that the last rebuilds of the app have replaced.
        executor: Where to pack what is not packed yet, see `compact`.
        progress: Is called now and then.

    Raises:
        InputError: an id makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`.
        NotFoundError: there is nothing to bring back.
        ConflictError: a rebuild or another restore came between, or other jobs keep publishing.
        FormatError, StorageError: see `rebuild_memory`.
    """
    check_lake(lake)
    check_writable(lake, app_name, user_id)
    started = lake.clock.elapsed()
    pack_fresh(lake, app_name, Running(executor, progress or unwatched))
    base, archive = newest_of(lake, app_name), lake.sessions.archive
    aside = partial(archive.rows_in, PREVIOUS, app_name, base.table(PREVIOUS.name).runs)
    markers = {row.user_id: row for row in aside() if row.kind == "swap"}
    if all(row.id == _RESTORED for row in _chosen(markers, user_id)):
        raise NotFoundError(
            "no rebuild has put memories aside, or they were brought back, or swept."
            f" app_name={app_name!r}"
        )

    def rows() -> Iterator[MemoryRow]:
        wanted = (row for row in aside() if row.kind == "add")
        return (row for row in wanted if user_id in (None, row.user_id))

    def replaces(row: MemoryRow) -> bool:
        marker = markers.get(row.user_id, markers.get(None))
        return row.extracted and marker is not None and row.stamp == marker.stamp

    now = max(0, int(lake.clock.wall() * 1_000_000))
    restored = None
    if user_id is not None and None in markers:  # which is no longer about this user
        restored = replace(markers[None], user_id=user_id, source_user_id=user_id, id=_RESTORED)
        restored = replace(restored, stamp=stamp_text(now, 0, lake.environment.new_token()))
    erased = archive.erased(base)
    swap = Swap(base, user_id, rows, replaces, restored, puts_aside=False, erased=erased)
    comparison = swapped(lake, swap, dry_run=False)
    elapsed = int((lake.clock.elapsed() - started) * 1_000)
    return RestoreReport(app_name, comparison, elapsed)


def _chosen(markers: Mapping[str | None, MemoryRow], user_id: str | None) -> Iterable[MemoryRow]:
    """Return what stands for the rebuilds that a restore would undo."""
    if user_id is None:
        return markers.values()
    found = markers.get(user_id, markers.get(None))
    return () if found is None else (found,)
