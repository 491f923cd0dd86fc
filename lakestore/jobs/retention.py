"""How long what is kept: a policy that `compact` applies. Owns how it is written down."""

from __future__ import annotations

import os
import tomllib
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lakestore.checks import check_number
from lakestore.errors import InputError
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.prune import Asked, PruneReport, instant, run_step
from lakestore.jobs.pruning import (
    Pruned,
    Wanted,
    idle,
    idle_sessions,
    idle_state,
    old_events,
    old_memory,
    old_telemetry,
)
from lakestore.jobs.running import Running, check_lake
from lakestore.lake import Lake


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What may be forgotten, and after how many days; None, as all are unless said, for never."""

    sessions_idle_days: int | None = None
    """See `prune_sessions`."""
    sessions_keep_last: int = 0
    """Of each user never the last this many sessions."""
    events_older_than_days: int | None = None
    """See `prune_events`."""
    user_state_idle_days: int | None = None
    """See `prune_user_state`."""
    telemetry_older_than_days: int | None = None
    """See `prune_telemetry`."""
    memory_older_than_days: int | None = None
    """See `prune_memory`; of users and of apps."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name.endswith("_days")):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=1)
        check_number("sessions_keep_last", self.sessions_keep_last)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> RetentionPolicy:
        """Read a policy from a TOML file, whose keys are the names of the fields.

        Raises:
            InputError: it is no TOML, a name is not known, or a value makes no sense.
            OSError: it cannot be read.
        """
        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"the retention policy is no TOML. path={path!s} {error}") from error
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(found).difference(known))
        if unknown:
            raise InputError(
                f"the retention policy has unknown keys. path={path!s} {unknown=} {known=}"
            )
        try:
            return cls(**found)
        except InputError as error:
            raise InputError(
                f"the retention policy makes no sense. path={path!s} {error}"
            ) from None

    def apply(
        self,
        lake: Lake,
        app_name: str | None = None,
        now: datetime | None = None,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Watch | None = None,
    ) -> tuple[PruneReport, ...]:
        """Prune what the policy allows, of one app or of all; return what each step did.

        In a dry run each step counts what it would find after those before it.

        Raises:
            LakeError: as the functions that are named above.
        """
        running = Running(executor, progress or unwatched)
        return self.run(lake, app_name, now, running, dry_run=dry_run)

    def run(
        self,
        lake: Lake,
        app_name: str | None,
        now: datetime | None,
        running: Running,
        *,
        dry_run: bool,
    ) -> tuple[PruneReport, ...]:
        """Do what `apply` does, as a part of another job."""
        check_lake(lake)
        now = now or datetime.fromtimestamp(lake.clock.wall(), UTC)
        keep, watch = self.sessions_keep_last, running.watch
        idle_before: int | None = None
        reports = []
        if self.sessions_idle_days is not None:
            idle_before = instant("sessions_idle_days", self.sessions_idle_days, now, lake)
            step = partial(idle_sessions, keep_last=keep, watch=watch)
            asked = Asked(idle_before, app_name, dry_run=dry_run)
            reports.append(run_step(lake, "sessions", step, asked))

        def events_left(lake: Lake, wanted: Wanted) -> Pruned:
            if dry_run and idle_before is not None:
                gone = idle(lake, replace(wanted, before=idle_before), keep, watch)
                wanted = replace(wanted, is_gone=gone)
            return old_events(lake, wanted, running)

        if self.events_older_than_days is not None:
            before = instant("events_older_than_days", self.events_older_than_days, now, lake)
            asked = Asked(before, app_name, dry_run=dry_run)
            reports.append(run_step(lake, "events", events_left, asked))
        if self.user_state_idle_days is not None:
            before = instant("user_state_idle_days", self.user_state_idle_days, now, lake)
            asked = Asked(before, app_name, dry_run=dry_run)
            reports.append(run_step(lake, "state", partial(idle_state, running=running), asked))
        if self.telemetry_older_than_days is not None:
            before = instant("telemetry_older_than_days", self.telemetry_older_than_days, now, lake)
            asked = Asked(before, app_name, dry_run=dry_run)
            step = partial(old_telemetry, running=running)
            reports.append(run_step(lake, "telemetry", step, asked))
        if self.memory_older_than_days is not None:
            before = instant("memory_older_than_days", self.memory_older_than_days, now, lake)
            asked = Asked(before, app_name, dry_run=dry_run)
            remembered = partial(old_memory, running=running, scope="all")
            reports.append(run_step(lake, "memory", remembered, asked))
        return tuple(reports)
