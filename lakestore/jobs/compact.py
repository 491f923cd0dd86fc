"""Compaction: fresh commits and entries into packs and runs, published by the next manifest.

No answer changes by it, at any instant. What it reads is what any reader would see, so it takes the
same care: logs are folded by `lakestore.history`, and the manifest alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestore.checks import check_number
from lakestore.errors import InputError, NotFoundError
from lakestore.history.shared import decode_entry
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.packing import Packer, PackTask
from lakestore.lake import Lake
from lakestore.log.entries import list_entries
from lakestore.log.keys import app_entries, app_logs, check_id
from lakestore.tables.state import StateRow

if TYPE_CHECKING:
    from lakestore.jobs.prune import PruneReport
    from lakestore.jobs.retention import RetentionPolicy

PACK_BYTES = 128 * 2**20
_ENTRIES_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did."""

    sessions: int
    """How many sessions it packed something of."""
    events: int
    """How many event rows it packed."""
    packed_bytes: int
    """Bytes of the packs that it wrote."""
    elapsed_ms: int
    pruned: tuple[PruneReport, ...] = ()
    """What the policy has pruned before."""


def compact(
    lake: Lake,
    *,
    app_name: str | None = None,
    policy: RetentionPolicy | None = None,
    executor: Executor | None = None,
    pack_bytes: int = PACK_BYTES,
) -> CompactReport:
    """Pack what was committed since the last compaction; no answer changes.

    Safe to run at any time, from any number of processes, and to stop at any time.

    Args:
        lake: The lake, open for writing.
        app_name: Only this app; None for all.
        policy: What is to be pruned first; None for nothing.
        executor: Where to run the work; None for this thread.
        pack_bytes: About how large a pack becomes.

    Raises:
        InputError: an argument makes no sense, or the lake is read-only.
        ConflictError: other jobs keep publishing.
        StorageError: the store failed; run it again.
    """
    if lake.read_only:
        raise InputError("a lake that was opened with read_only=True cannot be compacted")
    check_number("pack_bytes", pack_bytes, least=1)
    if policy is not None and not callable(getattr(policy, "apply", None)):
        raise InputError(f"policy is a RetentionPolicy(...). type={type(policy).__name__}")
    pruned = policy.apply(lake, app_name) if policy is not None else ()
    apps = lake.sessions.apps() if app_name is None else [check_id("app_name", app_name)]
    started = lake.clock.elapsed()
    done = [_compact_app(lake, app, pack_bytes) for app in apps]
    return CompactReport(
        sum(len(each.sessions) for each in done),
        sum(pack.rows for each in done for pack in each.packs),
        sum(pack.size for each in done for pack in each.packs),
        int((lake.clock.elapsed() - started) * 1_000),
        pruned,
    )


def _compact_app(lake: Lake, app_name: str, pack_bytes: int) -> Changes:
    prefix = app_logs(app_name)
    task = PackTask(app_name, prefix, prefix + "\x7f", pack_bytes)
    changes = Packer(lake.environment, lake.sessions, task).run()
    changes.state += entry_rows(lake, app_entries(app_name))
    Publisher(lake.environment, lake.sessions.archive, app_name).publish(changes)
    return changes


def entry_rows(lake: Lake, prefix: str) -> Iterator[StateRow]:
    """Yield the rows of all entries of shared state under `prefix` that are there."""
    store, pool = lake.environment.store, lake.environment.pool

    def read(key: str) -> list[StateRow]:
        try:
            return decode_entry(key, store.get(key))
        except NotFoundError:  # swept: what covers it is listed too, or packed
            return []

    keys = [entry.key for _, entry in list_entries(store, prefix)]
    for first in range(0, len(keys), _ENTRIES_AT_ONCE):
        for rows in pool.map(read, keys[first : first + _ENTRIES_AT_ONCE], near=store.near):
            yield from rows
