"""Pruning: forgetting what retention allows. Nothing is pruned unless it is asked for.

Owns the public calls and what their reports mean; `lakestore.jobs.pruning` does it. What is pruned
is gone for every reader at once, and leaves the store later: `compact` packs without it, `sweep`
deletes the objects.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal, TypedDict

from lakestore.checks import check_choice, check_flag, check_number, check_time
from lakestore.errors import InputError, ReadOnlyError
from lakestore.jobs.apps import chosen_apps, for_each
from lakestore.jobs.artifact_pruning import Keeping, check_keeping, old_artifacts
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.pruning import (
    Pruned,
    Wanted,
    idle_sessions,
    idle_state,
    old_events,
    old_memory,
    old_telemetry,
)
from lakestore.jobs.running import Running, check_lake
from lakestore.lake import Lake
from lakestore.log.ids import check_id

_DAY = 86_400 * 1_000_000


class PruneReport(TypedDict):
    """What was pruned, or would be."""

    table: str
    """`sessions`, `events`, `state`, `telemetry`, `memory` or `artifacts`."""
    deleted_count: int
    """How many of what the function names: sessions, events, keys, rows, memories; of artifacts
    versions."""
    deleted_bytes: int
    """Bytes of their JSON, of a row's values, or of payloads. The store is smaller by what that
    takes there, compressed, once `compact` and `sweep` have followed."""
    deleted_objects: int
    """Objects that the call itself deleted: none, since readers may still need them."""
    elapsed_ms: int
    dry_run: bool


def prune_sessions(
    lake: Lake,
    *,
    idle_days: int = 30,
    app_name: str | None = None,
    user_id: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    keep_last: int = 0,
    progress: Watch | None = None,
) -> PruneReport:
    """Delete sessions whose last commit is `idle_days` old or older, whatever created them when.

    Each is deleted at the version that was judged: one that is appended to meanwhile stays, and
    does not count. Blocking, as all of these calls; in async code: `asyncio.to_thread`.

    Args:
        lake: The lake, open for writing.
        idle_days: How old the last commit is, by the clock of its writer. A writer whose clock is
            ahead keeps its sessions longer.
        app_name: Only this app; None for all.
        user_id: Only this user of that app; None for all.
        dry_run: Change nothing, and report what would be.
        now: What ages count to; None for this machine's clock. Where that is ahead, things go as
            much earlier: pass a time that you trust.
        keep_last: Of each user never the last this many sessions, by their last commits.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`, and this is no dry run.
        StorageError: the store failed; run it again.
    """
    before = instant("idle_days", idle_days, now, lake)
    check_number("keep_last", keep_last)
    prune = partial(idle_sessions, keep_last=keep_last, watch=progress or unwatched)
    return run_step(lake, "sessions", prune, Asked(before, app_name, user_id, dry_run))


def prune_events(
    lake: Lake,
    *,
    older_than_days: int = 90,
    app_name: str | None = None,
    user_id: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> PruneReport:
    """Cut old events out of living sessions; the sessions, their state and later events stay.

    Whole invocations go of which all events are `older_than_days` old or older, by their writers'
    clocks, but for those with a function call that waits for an answer. What goes leaves one event
    without content, of the author `lakestore` and with `lakestore_pruned` in its `custom_metadata`,
    that sets what was set of the session's state and artifacts: going back to an invocation that
    stays restores what it did before. Going back to one that went raises ADK's
    `InvocationNotFoundError`. A process that holds a session in its cache may show what was cut
    until it loads it anew.

    What is not packed yet is packed first, in `executor`, as `compact` does; a `ConflictError` says
    that other jobs keep publishing. All else is as in `prune_sessions`.
    """
    before = instant("older_than_days", older_than_days, now, lake)
    prune = partial(old_events, running=Running(executor, progress or unwatched))
    return run_step(lake, "events", prune, Asked(before, app_name, user_id, dry_run))


def prune_user_state(
    lake: Lake,
    *,
    idle_days: int = 180,
    app_name: str | None = None,
    user_id: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> PruneReport:
    """Forget the `user:` keys that nobody has set for `idle_days`; later writes bring them back.

    How long ago that was is told by the stamp of the write. What was set before never comes back,
    whenever it lands. Other processes notice within the lake's view age limit. All else is as in
    `prune_events`.
    """
    before = instant("idle_days", idle_days, now, lake)
    prune = partial(idle_state, running=Running(executor, progress or unwatched))
    return run_step(lake, "state", prune, Asked(before, app_name, user_id, dry_run))


def prune_telemetry(
    lake: Lake,
    *,
    older_than_days: int = 90,
    app_name: str | None = None,
    user_id: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> PruneReport:
    """Forget what `LakeTelemetryPlugin` has measured of calls and runs that began long ago.

    That is `older_than_days`, by the clock of who made them. All else is as in `prune_events`.
    """
    before = instant("older_than_days", older_than_days, now, lake)
    prune = partial(old_telemetry, running=Running(executor, progress or unwatched))
    return run_step(lake, "telemetry", prune, Asked(before, app_name, user_id, dry_run))


def prune_memory(
    lake: Lake,
    *,
    older_than_days: int = 90,
    scope: Literal["user", "app", "all"] = "user",
    app_name: str | None = None,
    user_id: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> PruneReport:
    """Drop memories of what happened long ago; of what has no time, what was added long ago.

    They are not forgotten by name: adding their session again adds them again. What a rebuild has
    put aside is pruned alike. Packs what is not packed yet first, as `compact` does. Other
    processes notice within the lake's view age limit. Blocking.

    Args:
        lake: The lake, open for writing.
        older_than_days: How long ago it happened.
        scope: `user`: what is remembered of single users. `app`: what all users of an app share.
        app_name: Only this app; None for all.
        user_id: Only this user of that app; None for all.
        dry_run: Change nothing, and report what would be.
        now: What ages count to; None for this machine's clock, see `prune_sessions`.
        executor: Where to pack what is not packed yet, see `compact`.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`, and this is no dry run.
        ConflictError: other jobs keep publishing.
        StorageError: the store failed; run it again.
    """
    before = instant("older_than_days", older_than_days, now, lake)
    check_choice("scope", scope, ("user", "app", "all"))
    if user_id is not None and scope == "app":
        raise InputError('scope="app" is what all users share: it goes without a user_id')
    prune = partial(old_memory, running=Running(executor, progress or unwatched), scope=scope)
    return run_step(lake, "memory", prune, Asked(before, app_name, user_id, dry_run))


def prune_artifacts(
    lake: Lake,
    *,
    older_than_days: int = 90,
    keep_last: int = 1,
    app_name: str | None = None,
    user_id: str | None = None,
    session_id: str | None = None,
    latest: bool = False,
    dry_run: bool = False,
    now: datetime | None = None,
    progress: Watch | None = None,
) -> PruneReport:
    """Drop versions of artifacts that were saved long ago; never the latest unless asked.

    Of each artifact the oldest versions go, up to the first that is not old: numbers of those that
    stay do not change. Each is pruned at the version that was judged: what is saved meanwhile
    stays. Payloads to which nothing refers then are deleted by later sweeps. All else is as in
    `prune_sessions`.

    Args:
        lake: The lake, open for writing.
        older_than_days: How long ago they were saved.
        keep_last: Of each artifact never the last this many versions.
        app_name: Only this app; None for all.
        user_id: Only this user of that app; None for all.
        session_id: Only artifacts of this session of that user; None for all.
        latest: Delete artifacts of which every version is old; not together with `keep_last`.
        dry_run: Change nothing, and report what would be.
        now: What ages count to; None for this machine's clock, see `prune_sessions`.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`, and this is no dry run.
        StorageError: the store failed; run it again.
    """
    before = instant("older_than_days", older_than_days, now, lake)
    check_keeping(keep_last, latest)
    if session_id is not None and user_id is None:
        raise InputError("session_id names a session of a user: user_id is needed too")
    if session_id is not None:
        check_id("session_id", session_id)
    keeping = Keeping(keep_last, latest, session_id)
    prune = partial(old_artifacts, keeping=keeping, watch=progress or unwatched)
    return run_step(lake, "artifacts", prune, Asked(before, app_name, user_id, dry_run))


def instant(name: str, days: int, now: datetime | None, lake: Lake) -> int:
    """Return the instant of `days` ago, in microseconds since 1970 UTC."""
    check_lake(lake)
    check_number(name, days, least=1)
    if now is not None and not isinstance(now, datetime):
        raise InputError(f"now is a datetime with a time zone. type={type(now).__name__}")
    seconds = check_time("now", now)
    return int((lake.clock.wall() if seconds is None else seconds) * 1_000_000) - days * _DAY


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller wants to be pruned."""

    before: int
    """See `instant`."""
    app_name: str | None = None
    user_id: str | None = None
    dry_run: bool = False


def run_step(
    lake: Lake, table: str, prune: Callable[[Lake, Wanted], Pruned], asked: Asked
) -> PruneReport:
    """Prune one thing, app by app, and report it.

    Raises:
        InputError: the scope makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`, and this is no dry run.
        LakeError: as `prune` does.
    """
    dry_run = check_flag("dry_run", asked.dry_run)
    if asked.user_id is not None and asked.app_name is None:
        raise InputError("user_id names a user of an app: app_name is needed too")
    if asked.user_id is not None:
        check_id("user_id", asked.user_id)
    if asked.app_name is not None:
        check_id("app_name", asked.app_name)
    if lake.read_only and not dry_run:
        raise ReadOnlyError("a lake that was opened with read_only=True cannot be pruned")
    started = lake.clock.elapsed()
    done = for_each(
        chosen_apps(lake, asked.app_name),
        lambda app: prune(lake, Wanted(app, asked.user_id, asked.before, dry_run)),
    )
    return PruneReport(
        table=table,
        deleted_count=sum(each.count for each in done),
        deleted_bytes=sum(each.nbytes for each in done),
        deleted_objects=0,
        elapsed_ms=int((lake.clock.elapsed() - started) * 1_000),
        dry_run=dry_run,
    )
