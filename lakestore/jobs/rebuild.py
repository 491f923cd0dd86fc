"""Rebuilding memory from history, and bringing back what was there before. Owns the public calls.

All memories of the scope that came from events, or from an earlier rebuild, are made anew by an
extractor, in one scan of what is packed; what was added by hand stays. The new ones take the place
of the old ones with one manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from lakestore.adk.extracting import Extraction, Extractor, Failure, Per
from lakestore.checks import check_choice, check_flag, check_number, check_time
from lakestore.errors import (
    InputError,
    StorageError,
)
from lakestore.history.archive import MEMORY, PREVIOUS
from lakestore.history.recollecting import Taste
from lakestore.jobs.aside import check_writable, newest_of, swapped
from lakestore.jobs.compact import pack_fresh
from lakestore.jobs.extraction import (
    Drafted,
    ExtractTask,
    check_drafts,
    drafted_rows,
    is_after,
    plan_extraction,
)
from lakestore.jobs.progress import Steps, Watch, unwatched
from lakestore.jobs.running import Running, check_lake, run_all
from lakestore.jobs.swapping import Comparison, Seen, Swap
from lakestore.lake import Lake
from lakestore.log.manifests import Manifest
from lakestore.log.stamps import stamp_text
from lakestore.search.embedding import Embedder, check_embedder
from lakestore.tables.memory import MemoryRow

TASK_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did, or would do."""

    app_name: str
    sessions: int
    """How many sessions were looked at."""
    events: int
    """How many events they have."""
    comparison: Comparison
    """What the new memories are beside those that they take the place of."""
    failed: int
    """Of how many sessions (users, where it is given all of a user) nothing was made."""
    failures: tuple[Failure, ...] = field(repr=False)
    """These, with what was raised; they keep the memories that they had."""
    elapsed_ms: int
    dry_run: bool


def rebuild_memory(
    lake: Lake,
    app_name: str,
    user_id: str | None = None,
    *,
    extractor: Extractor | None = None,
    per: Per = "session",
    batch_size: int | None = None,
    since: datetime | float | None = None,
    embedder: Embedder | None = None,
    thoughts: bool = False,
    tools: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    executor: Executor | None = None,
    progress: Watch | None = None,
    task_events: int = TASK_EVENTS,
) -> RebuildReport:
    """Make the memories of an app, or of one user, anew from all history. Blocking.

    Readers see the old memories or the new ones, and never a mix; other processes notice within the
    lake's view age limit. What was forgotten stays forgotten, what was added by hand
    (`add_memory`) stays, and so does the app's own memory. What is added while it runs stays, too.
    What came from sessions or events that were deleted or pruned since goes: no history is left to
    make it of.
    Packs what is not packed yet first, as `compact` does. What it replaces is put aside:
    `restore_memory` brings it back, until the next rebuild that changes anything.

    Args:
        lake: The lake, open for writing.
        app_name: The app.
        user_id: Only this user; None for all.
        extractor: A function, sync or async, from a `History` to a list of ADK's `MemoryEntry`.
            An entry with the id of an event is the memory of that event; one without an id is
            named by what it says, and happened when the last event did unless it has a timestamp.
            None: each event with text is one, as `add_session_to_memory` makes it. With an executor
            of processes it must be a function that they can import.
        per: Whether it is given one session at a time, or all of a user.
        batch_size: It is called with a list of so many, and returns a list for each; None: with
            one. An async one is called for sixteen at once.
        since: Only events after this time are looked at, and only memories of what happened after
            it replaced.
        embedder: Gives each new memory its vector, for the ranking `hybrid`; without one, new
            memories have none.
        thoughts: Whether the model's thoughts are searched, too, see `LakeMemoryService`.
        tools: Whether names, arguments and results of tools are.
        dry_run: Make and compare them, and change nothing of what is remembered.
        resume: Go on where a rebuild that did not end has stopped: what the same extractor, by
            its name, has made of sessions that are as they were is not made again.
        executor: Where to run the extractor, threads or processes anywhere; None: in this thread.
        progress: Is called now and then.
        task_events: About how many events are looked at in a step.

    Returns:
        What was made, and how it differs from what was there.

    Raises:
        InputError: an argument makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`.
        ConflictError: another rebuild or restore of the app came between, or other jobs keep
            publishing; run it again with `resume=True`.
        FormatError: what is packed of the app is damaged.
        StorageError: the store failed; run it again with `resume=True`.
        Exception: what the embedder raises goes through, and nothing was changed.
    """
    check_lake(lake)
    check_writable(lake, app_name, user_id)
    check_number("task_events", task_events, least=1)
    extraction = _extraction(extractor, per, batch_size, embedder)
    extraction = replace(
        extraction, taste=Taste(check_flag("thoughts", thoughts), check_flag("tools", tools))
    )
    running = Running(executor, progress or unwatched)
    task = ExtractTask(
        app_name,
        ("", ""),
        ("", ""),
        extraction,
        check_time("since", since),
        check_flag("resume", resume),
    )
    rebuild = _Rebuild(lake, task, user_id, running)
    return rebuild.run(task_events, dry_run=check_flag("dry_run", dry_run))


def _extraction(extractor: object, per: object, batch_size: object, embedder: object) -> Extraction:
    if extractor is not None and not callable(extractor):
        raise InputError(f"extractor is a function. type={type(extractor).__name__}")
    check_embedder(embedder)
    size = None if batch_size is None else check_number("batch_size", batch_size, least=1)
    if size is not None and extractor is None:
        raise InputError("batch_size is for an extractor, and none is given")
    chosen: Per = "user" if check_choice("per", per, ("session", "user")) == "user" else "session"
    return Extraction(extractor, chosen, size, embedder)  # type: ignore[arg-type]


class _Rebuild:
    """Rebuilds the memories of one app, or of one of its users."""

    def __init__(
        self, lake: Lake, task: ExtractTask, user_id: str | None, running: Running
    ) -> None:
        self._lake = lake
        self._env = lake.environment
        self._archive = lake.sessions.archive
        self._task = task
        self._app = task.app_name
        self._user = user_id
        self._running = running

    def run(self, task_events: int, *, dry_run: bool) -> RebuildReport:
        started = self._lake.clock.elapsed()
        pack_fresh(self._lake, self._app, self._running)
        base = newest_of(self._lake, self._app)
        now = max(0, int(self._lake.clock.wall() * 1_000_000))
        # Later than all that it replaces, whose writers' clocks may be ahead.
        seen, latest = self._look(base)
        stamp = stamp_text(max(now, latest) + 1, 0, self._env.new_token())
        drafts = self._draft(base, task_events)
        failures = tuple(failure for one in drafts for failure in one.failures)
        swap = self._swap(base, seen, drafts, failures, stamp, now)
        comparison = Comparison()
        # One that changes nothing shall not put an earlier one out of reach of a restore.
        # Where there is no session at all, the history is somewhere else.
        has_history = any(one.sessions for one in drafts)
        if has_history and (any(one.key for one in drafts) or self._replaces_any(swap)):
            comparison = swapped(self._lake, swap, dry_run=dry_run)
        self._drop(drafts)
        return RebuildReport(
            self._app,
            sum(one.sessions for one in drafts),
            sum(one.events for one in drafts),
            comparison,
            len(failures),
            failures,
            int((self._lake.clock.elapsed() - started) * 1_000),
            dry_run,
        )

    def _look(self, base: Manifest) -> tuple[Seen, int]:
        """Return what is remembered, and the latest time in it and in what was erased of it."""
        latest = max((row.version for row in self._archive.erased(base).values()), default=0)

        def rows() -> Iterator[MemoryRow]:
            nonlocal latest
            files = base.table(MEMORY.name).runs
            for row in self._archive.rows_in(MEMORY, self._app, files):
                latest = max(latest, int(row.stamp[:17]))
                yield row

        seen = Seen(rows())
        if self._user is not None:  # what is put aside of others is to be kept: it must be whole
            for _ in self._archive.rows_in(PREVIOUS, self._app, base.table(PREVIOUS.name).runs):
                pass
        return seen, latest

    def _draft(self, base: Manifest, task_events: int) -> list[Drafted]:
        """Let the extractor work, and return what it has made."""
        tasks = plan_extraction(self._archive, base, self._user, self._task, task_events)
        watch = self._running.watch
        steps = Steps("remembering", self._app, sum(task.size for task in tasks), "event")

        def tell(more: int) -> None:
            watch(steps.part(more))

        tell(0)
        drafts = []
        for size, drafted in run_all(self._lake, tasks, self._running.executor, tell):
            drafts.append(drafted)
            watch(steps.whole(size))
        return drafts

    def _swap(
        self,
        base: Manifest,
        seen: Seen,
        drafts: Sequence[Drafted],
        failures: Sequence[Failure],
        stamp: str,
        now: int,
    ) -> Swap:
        failed = {(one.user_id, one.session_id) for one in failures}
        rows = partial(drafted_rows, self._env, drafts, stamp, now)

        def replaces(row: MemoryRow) -> bool:
            if row.user_id is None or row.is_by_hand:
                return False
            if failed & {(row.user_id, row.session_id), (row.user_id, None)}:
                return False
            return is_after(row.event_time, self._task.since)

        marker = _marker(self._app, self._user, stamp, now)
        erased = self._archive.erased(base)
        return Swap(
            base,
            self._user,
            rows,
            replaces,
            marker,
            puts_aside=True,
            erased=erased,
            was_there=seen.has,
            check_rows=partial(check_drafts, self._env, drafts),
        )

    def _replaces_any(self, swap: Swap) -> bool:
        rows = self._archive.rows_in(MEMORY, self._app, swap.base.table(MEMORY.name).runs)
        return any(row.kind == "add" and swap.is_of(row) and swap.replaces(row) for row in rows)

    def _drop(self, drafts: Iterable[Drafted]) -> None:
        """Delete what was drafted, and nothing of others': a sweep does it if this does not."""
        for drafted in drafts:
            if drafted.key:
                with suppress(StorageError):
                    self._env.store.delete(drafted.key)


def _marker(app_name: str, user_id: str | None, stamp: str, now: int) -> MemoryRow:
    return MemoryRow(
        app_name=app_name,
        user_id=user_id,
        id="",
        kind="swap",
        stamp=stamp,
        ordinal=0,
        place=None,
        inserted_at=now,
        source_user_id=user_id,
    )
