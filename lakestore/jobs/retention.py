"""How long what is kept: a policy that `compact` applies. Owns how it is written down."""

from __future__ import annotations

import os
import tomllib
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from lakestore.checks import check_number
from lakestore.errors import InputError
from lakestore.jobs.progress import Watch
from lakestore.jobs.prune import (
    PruneReport,
    prune_events,
    prune_sessions,
    prune_telemetry,
    prune_user_state,
)
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
        executor: Executor | None = None,
        progress: Watch | None = None,
    ) -> tuple[PruneReport, ...]:
        """Prune what the policy allows, of one app or of all; return what each step did.

        Raises:
            LakeError: as the functions that are named above.
        """
        reports = []
        scope: dict[str, Any] = {"app_name": app_name, "now": now, "progress": progress}
        if self.sessions_idle_days is not None:
            days, keep = self.sessions_idle_days, self.sessions_keep_last
            reports.append(prune_sessions(lake, idle_days=days, keep_last=keep, **scope))
        scope["executor"] = executor
        if self.events_older_than_days is not None:
            reports.append(prune_events(lake, older_than_days=self.events_older_than_days, **scope))
        if self.user_state_idle_days is not None:
            reports.append(prune_user_state(lake, idle_days=self.user_state_idle_days, **scope))
        if self.telemetry_older_than_days is not None:
            days = self.telemetry_older_than_days
            reports.append(prune_telemetry(lake, older_than_days=days, **scope))
        return tuple(reports)
