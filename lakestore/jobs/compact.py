"""Compaction: fresh commits and entries into packs and runs, published by the next manifest.

No answer changes by it, at any instant. What it reads is what any reader would see, so it takes the
same care: logs are folded by `lakestore.history`, and the manifest alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

from lakestore.checks import check_flag, check_number
from lakestore.errors import InputError
from lakestore.jobs.apps import chosen_apps, for_each
from lakestore.jobs.artifact_packing import fresh_artifacts
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.fresh_rows import fresh_changes
from lakestore.jobs.packing import PackTask
from lakestore.jobs.progress import Progress, Steps, Watch, unwatched
from lakestore.jobs.repacking import plan_repacks
from lakestore.jobs.running import Running, Task, check_lake, run_all
from lakestore.lake import Lake
from lakestore.log.commits import count_commits
from lakestore.log.keys import app_logs, app_manifests

if TYPE_CHECKING:
    from lakestore.jobs.prune import PruneReport
    from lakestore.jobs.retention import RetentionPolicy

PACK_BYTES = 128 * 2**20
SLICE_COMMITS = 32_768


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did."""

    sessions: int
    """How many sessions it packed something of; what a policy has packed first counts, too."""
    events: int
    """How many event rows it packed."""
    packed_bytes: int
    """Bytes of the packs that it wrote for them."""
    repacked_bytes: int
    """Bytes of the packs that it wrote in place of others."""
    artifacts: int
    """How many artifacts it packed something of."""
    elapsed_ms: int
    """Of all, pruning too."""
    pruned: tuple[PruneReport, ...] = ()
    """What the policy has pruned before, or, in a dry run, would prune."""
    dry_run: bool = False
    """Whether nothing was changed; then nothing is said of packing."""


def compact(
    lake: Lake,
    *,
    app_name: str | None = None,
    policy: RetentionPolicy | None = None,
    executor: Executor | None = None,
    progress: Watch | None = None,
    dry_run: bool = False,
    pack_bytes: int = PACK_BYTES,
    slice_commits: int = SLICE_COMMITS,
) -> CompactReport:
    """Pack what was committed since the last compaction; no answer changes but by a policy.

    Safe to run at any time, from any number of processes, and to stop at any time: what was
    published until then stays.

    Args:
        lake: The lake, open for writing.
        app_name: Only this app; None for all.
        policy: What is to be pruned first; None for nothing.
        executor: Where to run the work, threads or processes anywhere; None for this thread.
        progress: Is called now and then.
        dry_run: Change nothing, and report what the policy would prune; `stats` tells what packing
            would gain.
        pack_bytes: About how large a pack becomes.
        slice_commits: About how many commits are packed in a step.

    Raises:
        InputError: an argument makes no sense, or the lake is read-only, or in the memory of this
            process and the executor in another.
        FormatError: the newest manifest or a run of an app is damaged; the others are done.
        ConflictError: other jobs keep publishing.
        StorageError: the store failed; run it again.
    """
    _check(lake, policy, dry_run)
    check_number("pack_bytes", pack_bytes, least=1)
    check_number("slice_commits", slice_commits, least=1)
    running = Running(executor, progress or unwatched)
    started, total = lake.clock.elapsed(), running.total
    now = datetime.fromtimestamp(lake.clock.wall(), UTC)

    def work(app: str) -> Sequence[PruneReport]:
        pruned = policy.run(lake, app, now, running, dry_run=dry_run) if policy else ()
        if not dry_run:
            _Compaction(lake, app, running, pack_bytes, slice_commits).run()
        return pruned

    done = for_each(chosen_apps(lake, app_name), work)
    return CompactReport(
        total.sessions,
        total.events,
        total.packed_bytes,
        total.repacked_bytes,
        total.artifacts,
        int((lake.clock.elapsed() - started) * 1_000),
        tuple(map(_together, zip(*done, strict=True))),
        dry_run,
    )


def _check(lake: Lake, policy: RetentionPolicy | None, dry_run: bool) -> None:
    check_lake(lake)
    if not check_flag("dry_run", dry_run) and lake.read_only:
        raise InputError("a lake that was opened with read_only=True cannot be compacted")
    if policy is not None and not callable(getattr(policy, "apply", None)):
        raise InputError(f"policy is a RetentionPolicy(...). type={type(policy).__name__}")
    if dry_run and policy is None:
        raise InputError("a dry run tells what a policy would prune, and none is given")


def _together(reports: Sequence[PruneReport]) -> PruneReport:
    """Return what one step of a policy did in all apps."""
    whole = reports[0].copy()
    whole["deleted_count"] = sum(each["deleted_count"] for each in reports)
    whole["deleted_bytes"] = sum(each["deleted_bytes"] for each in reports)
    whole["elapsed_ms"] = sum(each["elapsed_ms"] for each in reports)
    return whole


def pack_fresh(lake: Lake, app_name: str, running: Running) -> None:
    """Pack an app as `compact` does, as a part of another job.

    All entries that it read are named: of one that is damaged later, nothing else may tell that it
    is packed once that job has forgotten the commit.

    Raises:
        LakeError: as `compact`.
    """
    _Compaction(lake, app_name, running, PACK_BYTES, SLICE_COMMITS).run(names_all=True)


class _Compaction:
    """Compacts one app."""

    def __init__(
        self,
        lake: Lake,
        app_name: str,
        running: Running,
        pack_bytes: int,
        slice_commits: int,
    ) -> None:
        self._lake = lake
        self._app = app_name
        self._running = running
        self._total = running.total
        self._pack_bytes = pack_bytes
        self._slice_commits = slice_commits
        self._publisher = Publisher(lake.environment, lake.sessions.archive, app_name)

    def run(self, *, names_all: bool = False) -> None:
        """Pack fresh sessions, artifacts and entries, then packs that should be others."""
        for made in self._made("packing", self._slices(), "commit"):
            self._total.sessions += len(made.sessions)
            self._total.events += sum(pack.rows for pack in made.packs)
            self._total.packed_bytes += sum(pack.size for pack in made.packs)
        rest = self._pack_artifacts()
        self._running.watch(Progress("packing entries", self._app, 0, None, ""))
        for made in fresh_changes(self._lake, self._app, rest, names_all=names_all):
            self._publisher.publish(made)
        newest = self._lake.sessions.archive.newest(app_manifests(self._app))
        for made in self._made("merging", plan_repacks(newest, self._pack_bytes), "pack"):
            self._total.repacked_bytes += sum(pack.size for pack in made.packs)

    def _pack_artifacts(self) -> Changes:
        """Publish what is fresh of artifacts, but for a part that comes with what is next."""
        self._running.watch(Progress("packing artifacts", self._app, 0, None, ""))
        rest = Changes()
        for part in fresh_artifacts(self._lake, self._app):
            if rest.artifacts:
                self._publisher.publish(rest)
            rest = Changes(artifacts=part)
            self._total.artifacts += len(part)
        return rest

    def _made(
        self, doing: str, tasks: Sequence[Task[list[Changes]]], unit: str
    ) -> Iterator[Changes]:
        """Run tasks, publish what they make, and yield it."""
        watch = self._running.watch
        steps = Steps(doing, self._app, sum(task.size for task in tasks), unit)

        def tell(more: int) -> None:
            watch(steps.part(more))

        tell(0)
        for size, made in run_all(self._lake, tasks, self._running.executor, tell):
            for changes in made:
                self._publisher.publish(changes)
                yield changes
            watch(steps.whole(size))

    def _slices(self) -> list[PackTask]:
        """Return a task for each slice, in an order of this host's own.

        So two hosts that begin at once are at different ones, and meet what the other has packed.
        """
        slices: list[PackTask] = []
        first, held = "", 0
        for log, commits in count_commits(self._lake.environment.store, app_logs(self._app)):
            first, held = first or log, held + commits
            if held >= self._slice_commits:
                slices.append(PackTask(self._app, first, log, self._pack_bytes, held))
                first, held = "", 0
        if first:
            slices.append(PackTask(self._app, first, log, self._pack_bytes, held))
        Random(self._lake.environment.new_token()).shuffle(slices)
        return slices
