"""A process that runs one job on a lake, again and again, until it is told to stop.

`python -m tests.endurance.upkeep SETTINGS` takes JSON as `tests.endurance.worker` does, and `job`:
`compact`, `sweep` or `prune`. It appends a line of JSON for each run: what that did.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from google.adk.events.event import Event

from lakestore import Lake, LakeSessionService
from lakestore.errors import ConflictError
from lakestore.jobs import compact, prune_events, prune_sessions, prune_user_state, sweep
from tests.endurance.journal import Journal
from tests.endurance.worker import APP, NAMES

PACK_BYTES = 40_000
"""So that there are many packs, and some are merged each time."""
IDLE_SECONDS = 4.0
PRUNED_USER = "u2"
"""Whose sessions are pruned among those that workers use."""
OLD_USER = "old"
"""Whose sessions nobody else uses."""

Did = dict[str, int]


class Upkeep:
    """Runs jobs."""

    def __init__(self, lake: Lake, journal: Journal, name: str) -> None:
        self._lake = lake
        self._journal = journal
        self._name = name
        self._made = 0

    def compact(self) -> Did:
        """Pack what is fresh, and merge packs."""
        report = compact(self._lake, pack_bytes=PACK_BYTES, slice_commits=60)
        return {"events": report.events, "merged": int(report.repacked_bytes > 0)}

    def sweep(self) -> Did:
        """Delete what is needless."""
        report = sweep(self._lake)
        if report.reasons and all("other jobs keep publishing" in each for each in report.reasons):
            return {"overtaken": 1}
        assert report.failures == 0, report.reasons
        return {kind: swept.objects for kind, swept in report.deleted.items()}

    def prune(self) -> Did:
        """Prune sessions that workers use, and everything of a user of our own."""
        # The journal has begun to end each of them: which of them ended, readers tell.
        for name in NAMES:
            if name[0] == PRUNED_USER:
                self._journal.begin("delete", session=name)
        idle = prune_sessions(self._lake, user_id=PRUNED_USER, **self._ago(IDLE_SECONDS))
        self._create_old()
        events = prune_events(
            self._lake, user_id=OLD_USER, older_than_days=1, app_name=APP, now=_later(0)
        )
        state = prune_user_state(self._lake, user_id=OLD_USER, **self._ago(0))
        ended = prune_sessions(self._lake, user_id=OLD_USER, **self._ago(0))
        assert (events["deleted_count"], ended["deleted_count"]) == (3, 1), (events, ended)
        assert state["deleted_count"] >= 1
        return {"idle": idle["deleted_count"], "old": 1}

    def _ago(self, seconds: float) -> dict[str, Any]:
        return {"idle_days": 1, "app_name": APP, "now": _later(seconds)}

    def _create_old(self) -> None:
        self._made += 1
        name = f"{self._name}-{self._made}"
        service = LakeSessionService(self._lake).sync
        session = service.create_session(
            app_name=APP, user_id=OLD_USER, session_id=name, state={f"user:{name}": 1}
        )
        for number in range(3):
            service.append_event(session, Event(id=f"{name}.{number}", author="user"))


def _later(seconds: float) -> datetime:
    """Return the time at which what was done `seconds` ago is a day old."""
    return datetime.now(UTC) + timedelta(days=1, seconds=-seconds)


def _run(job: Callable[[], Did], told: Path, stop: Path, pause: float) -> None:
    draw = Random(told.name)
    with told.open("a", encoding="utf-8", buffering=1) as lines:
        while not stop.exists():
            try:
                did = job()
            except ConflictError:  # overtaken, or taken for dead: the limits are that short
                did = {"overtaken": 1}
            lines.write(json.dumps(did) + "\n")
            time.sleep(pause * draw.random())


def main() -> None:
    """Work as `SETTINGS` say."""
    settings = json.loads(sys.argv[1])
    folder, name = Path(settings["journal"]), settings["name"]
    with Lake.open(settings["url"], storage_options=settings["storage_options"]) as lake:
        upkeep = Upkeep(lake, Journal(folder / f"{name}.jsonl", name), name)
        job = getattr(upkeep, settings["job"])
        _run(job, folder / f"{name}.jobs", folder / "stop", pause=0.5)


if __name__ == "__main__":
    main()
