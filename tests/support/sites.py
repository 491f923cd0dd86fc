"""A lake in memory that several processes have open, on one clock: what jobs are tested on.

Owns how a lake is filled with work of every kind, and what all of its readers answer. What a job
does to the objects below is the tests' to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from lakestore.clock import Clock
from lakestore.errors import ConflictError
from lakestore.jobs import compact
from lakestore.log.commits import Marker
from lakestore.log.keys import Scope, SessionKey, app_manifests
from lakestore.log.manifests import Manifest
from lakestore.log.marker import Limits
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.clocks import ManualClock
from tests.support.histories import said

APP = "travel"
USERS = ("ana", "Bo", "ü/3")
LIMITS = Limits()
LIMIT = LIMITS.view_age + 1
"""Just too long for a view."""
GRACE = LIMITS.grace + 1
"""Just too long for what is not needed any more."""

_LAST = GetSessionConfig(num_recent_events=2)
Answers = dict[Any, Any]


class Site:
    """One lake, one clock, any number of processes that have it open."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        self.clock = ManualClock()
        self.store = store or MemoryStore("site", clock=self.clock)
        self.lake = self.open()

    def open(
        self,
        around: Callable[[ObjectStore], ObjectStore] = lambda inner: inner,
        *,
        clock: Clock | None = None,
        read_only: bool = False,
        catalog_cache: Path | None = None,
    ) -> Lake:
        """Open the lake once more, as another process does, with faults of its own `around`."""
        return Lake(
            around(self.store),
            clock=clock or self.clock,
            read_only=read_only,
            catalog_cache=catalog_cache,
        )

    def pass_grace(self) -> None:
        """Let time pass until what is needless now may go."""
        self.clock.advance(GRACE)

    def stored(self, holding: str = "") -> list[str]:
        """Return the keys of all objects whose keys hold a text."""
        return [stored.key for stored in self.store.list("") if holding in stored.key]

    def manifest(self, app: str = APP) -> Manifest:
        """Return the newest manifest."""
        with self.open(read_only=True) as lake:
            return lake.sessions.archive.newest(app_manifests(app))

    def answers(self, lake: Lake | None = None, app: str = APP) -> Answers:
        """Return all that readers of the lake are told, by a new process unless one is given."""
        if lake is None:
            with self.open(read_only=True) as other:
                return self.answers(other, app)
        sessions, service = lake.sessions, LakeSessionService(lake).sync
        found: Answers = {}
        for user in USERS:
            views = sorted(sessions.read_all(app, user), key=lambda view: view.key)
            found[user, "events"] = lake.user_events(app, user).to_pylist()
            found[user, "user"] = sessions.shared.read([Scope(app, user)])[
                Scope(app, user)
            ].values()
            for view in views:
                read = sessions.read(view.key)
                assert read is not None
                state = {**read[0].state, **_shared(read[1])}
                found[view.key] = (read[0].version, read[0].token, state)
                found[view.key, "last"] = service.get_session(
                    app_name=app, user_id=user, session_id=view.key.session_id, config=_LAST
                )
        found["app"] = sessions.shared.read([Scope(app, None)])[Scope(app, None)].values()
        found["all"] = sorted(view.key for view in sessions.read_all(app, None))
        found["sql"] = lake.sql(
            "select app_name, user_id, session_id, version, ordinal, event_json"
            " from events order by all"
        ).fetchall()
        found["sessions"] = [
            (*row[:3], json.loads(row[3]), row[4])
            for row in lake.sql(
                "select app_name, user_id, session_id, state, events from sessions order by all"
            ).fetchall()
        ]
        return found


def _shared(folds: Any) -> dict[str, Any]:
    return {
        f"{'app' if scope.user_id is None else 'user'}:{key}": value
        for scope, fold in folds.items()
        for key, value in fold.values().items()
    }


class Work:
    """What agents do to a lake: sessions of several users that begin, go on and end."""

    def __init__(self, lake: Lake, seed: int = 1, app: str = APP) -> None:
        self._lake = lake
        self._random = Random(seed)
        self._app = app
        self._seed = seed
        self._count = 0
        self.markers: dict[SessionKey, Marker] = {}

    def some(self, steps: int) -> None:
        """Do some steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Create, append to or delete a session."""
        sessions, chance = self._lake.sessions, self._random.random()
        self._count += 1
        name = f"{self._seed}-{self._count}"
        if chance < 0.2 or not self.markers:
            key = SessionKey(self._app, self._random.choice(USERS), f"S{name}")
            delta = {"a": 1, f"user:c{self._count}": name, "app:first": name}
            self.markers[key] = sessions.create(key, delta, generated=False).marker
            return
        key = self._random.choice(sorted(self.markers))
        if chance < 0.25:
            sessions.delete(key)
            del self.markers[key]
            return
        shared = {"user:x": self._count, "app:y": self._count} if self._count % 3 == 0 else {}
        draft = said(f"e{name}", {"last": self._count, **shared})
        try:
            self.markers[key] = sessions.append(key, self.markers[key], [draft]).marker
        except ConflictError:  # another process works on it too
            self.markers[key] = sessions.load(key).marker


def packed_site(steps: int = 60, seed: int = 1) -> Site:
    """Return a lake of which some is packed, and the manifest that says so is old."""
    site = Site()
    Work(site.lake, seed).some(steps)
    compact(site.lake)
    site.pass_grace()
    return site
