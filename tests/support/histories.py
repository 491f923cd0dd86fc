"""A lake as several hosts see it, on one clock, and the words to write a history in.

Owns how hosts are put together from real parts. A host's background work waits in `upkeep` until a
test runs it, so that nothing happens behind its back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any

from lakestore.clock import Clock
from lakestore.history.drafts import Draft
from lakestore.history.environment import Environment
from lakestore.history.sessions import Sessions
from lakestore.history.view import SessionView
from lakestore.log.commits import Marker, list_log
from lakestore.log.entries import Entry, list_entries, put_entry
from lakestore.log.keys import Scope, SessionKey
from lakestore.log.marker import Limits
from lakestore.storage import CountingStore, MemoryStore, Metrics, ObjectStore, Pool
from lakestore.tables.events import event_id
from tests.support.clocks import ManualClock

KEY = SessionKey("travel", "ana", "s1")
OTHER = SessionKey("travel", "ana", "s2")
ANA = Scope("travel", "ana")
APP = Scope("travel", None)
LIMITS = Limits()
LIMIT = LIMITS.view_age + 1
"""Just too long for a view."""
GRACE = LIMITS.grace + 1
"""Just too long for what is not needed any more."""


@dataclass
class Host:
    """One process: its own caches, counters and clock, over a store that it shares with others."""

    sessions: Sessions
    metrics: Metrics
    upkeep: list[Callable[[], None]]

    def run_upkeep(self) -> None:
        """Do what waits to be done in the background."""
        while self.upkeep:
            self.upkeep.pop(0)()

    def create(
        self, key: SessionKey = KEY, delta: Mapping[str, Any] | None = None, *, look: bool = True
    ) -> Marker:
        """Begin a session; return the marker of a handle on it."""
        return self.sessions.create(key, dict(delta or {}), generated=not look).marker

    def append(self, marker: Marker, *drafts: Draft, key: SessionKey = KEY) -> Marker:
        """Append in one commit."""
        return self.sessions.append(key, marker, drafts).marker

    def append_each(self, marker: Marker, *drafts: Draft, key: SessionKey = KEY) -> Marker:
        """Append in one commit each."""
        for draft in drafts:
            marker = self.sessions.append(key, marker, [draft]).marker
        return marker

    def events(self, key: SessionKey = KEY) -> list[str]:
        """Return the ids of the session's events as a reader gets them."""
        found = self.sessions.read(key)
        return [] if found is None else ids(found[0])

    def state(self, scope: Scope = ANA) -> dict[str, Any]:
        """Return the shared state of a scope as a listing gives it now."""
        return self.sessions.shared.read([scope])[scope].values()


class World:
    """One lake in memory, one clock, and any number of hosts."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore("test", clock=self.clock)
        self._tokens = count(1)
        self._pool = Pool(4, "test")

    def token(self) -> str:
        """Return the next token: digits only, so that no name ends like that of a fold."""
        return f"{next(self._tokens):016}"

    def host(
        self,
        store: ObjectStore | None = None,
        *,
        clock: Clock | None = None,
        writable: bool = True,
        rollups: bool = True,
        cache_bytes: int = 2**20,
    ) -> Host:
        """Start a host, over `store` if faults are to be between it and the lake."""
        upkeep: list[Callable[[], None]] = []
        metrics = Metrics()
        environment = Environment(
            store=CountingStore(store or self.store, metrics),
            clock=clock or self.clock,
            new_token=self.token,
            limits=LIMITS,
            metrics=metrics,
            pool=self._pool,
            upkeep=upkeep.append,
            writable=writable,
            rollups=rollups,
            cache_bytes=cache_bytes,
        )
        return Host(Sessions(environment), metrics, upkeep)

    def put_entry(self, entries: str, stamp: str, body: bytes, *, fold: bool) -> None:
        """Put an entry, or a fold, that no host made."""
        metrics = Metrics()
        put_entry(self.store, entries, stamp, body, fold=fold, clock=self.clock, metrics=metrics)

    def entries(self, scope: Scope = ANA) -> list[Entry]:
        """Return the entries of a scope that are in the store."""
        return [entry for _, entry in list_entries(self.store, scope.entries)]

    def versions(self, key: SessionKey = KEY) -> tuple[list[int], list[int]]:
        """Return the versions of the commits and of the rollups that are in the store."""
        files = list_log(self.store, key.log)
        return files.commits, files.rollups

    def stored(self) -> list[str]:
        """Return all keys in the store."""
        return [stored.key for stored in self.store.list("")]

    def roll_up_twice_and_sweep(self, host: Host, marker: Marker, key: SessionKey = KEY) -> Marker:
        """Let a host write a rollup, outlive the grace, and sweep with the next one."""
        host.sessions.roll_up(key, force=True)
        self.clock.advance(GRACE)
        marker = host.append(marker, said(f"after {marker.version}"), key=key)
        host.sessions.roll_up(key, force=True)
        return marker

    def __enter__(self) -> World:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()


def said(event: str, delta: Mapping[str, Any] | None = None, **fields: Any) -> Draft:
    """Return an event with that id."""
    content = {"id": event, "author": "agent", "timestamp": 1.5, **fields}
    if delta:
        content["actions"] = {"state_delta": dict(delta)}
    return Draft(event, json.dumps(content), dict(delta or {}))


def several(number: int, first: int = 1) -> Iterator[Draft]:
    """Yield that many events, `e<first>` and so on."""
    return (said(f"e{i}", {"last": i}) for i in range(first, first + number))


def ids(view: SessionView, last: int | None = None) -> list[str]:
    """Return the ids of a view's events."""
    return [event_id(row) or "" for row in view.events(last)]


def overtake(world: World, host: Host, number: int = 4) -> None:
    """Let others append, roll up, and sweep all that a slow writer could build on."""
    marker = host.sessions.load(KEY).marker
    first = marker.version
    for n in range(number):
        marker = host.append(marker, said(f"b{first + n}"))
    world.roll_up_twice_and_sweep(host, marker)
