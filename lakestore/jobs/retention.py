"""How long what is kept: a policy that `compact` applies. Owns how it is written down."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lakestore.checks import check_number
from lakestore.errors import InputError
from lakestore.jobs.artifact_pruning import Keeping, check_keeping, old_artifacts
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

Step = Callable[[Lake, Wanted], Pruned]


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
    artifacts_older_than_days: int | None = None
    """See `prune_artifacts`."""
    artifacts_keep_last: int = 1
    """Of each artifact never the last this many versions."""
    artifacts_latest: bool = False
    """Whether artifacts go of which every version is old; not together with the former."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name.endswith("_days")):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=1)
        check_number("sessions_keep_last", self.sessions_keep_last)
        check_keeping(self.artifacts_keep_last, self.artifacts_latest, "artifacts_")
        if self.artifacts_older_than_days is None and (
            self.artifacts_latest or self.artifacts_keep_last != 1
        ):
            raise InputError(
                "artifacts_keep_last and artifacts_latest say what stays of old artifacts:"
                " artifacts_older_than_days is needed too"
            )

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
        steps = self._steps(now, running, dry_run=dry_run)
        asked = {
            name: Asked(instant(name, days, now, lake), app_name, dry_run=dry_run)
            for name in steps
            if (days := getattr(self, name)) is not None
        }
        return tuple(run_step(lake, *steps[name], asked[name]) for name in asked)

    def _steps(
        self, now: datetime, running: Running, *, dry_run: bool
    ) -> dict[str, tuple[str, Step]]:
        """Return by the names of fields which table is pruned, and how, in the order of steps."""
        keep, watch, idle_days = self.sessions_keep_last, running.watch, self.sessions_idle_days

        def events_left(lake: Lake, wanted: Wanted) -> Pruned:
            if dry_run and idle_days is not None:
                before = instant("sessions_idle_days", idle_days, now, lake)
                gone = idle(lake, replace(wanted, before=before), keep, watch)
                wanted = replace(wanted, is_gone=gone)
            return old_events(lake, wanted, running)

        sessions = partial(idle_sessions, keep_last=keep, watch=watch)
        memory = partial(old_memory, running=running, scope="all")
        keeping = Keeping(self.artifacts_keep_last, self.artifacts_latest)
        artifacts = partial(old_artifacts, keeping=keeping, watch=watch)
        return {
            "sessions_idle_days": ("sessions", sessions),
            "events_older_than_days": ("events", events_left),
            "user_state_idle_days": ("state", partial(idle_state, running=running)),
            "telemetry_older_than_days": ("telemetry", partial(old_telemetry, running=running)),
            "memory_older_than_days": ("memory", memory),
            "artifacts_older_than_days": ("artifacts", artifacts),
        }
