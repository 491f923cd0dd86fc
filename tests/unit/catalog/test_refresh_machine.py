from __future__ import annotations

import json
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lakestore.catalog import Catalog
from lakestore.clock import SystemClock
from lakestore.log.marker import Limits
from lakestore.storage import MemoryStore, Metrics, Pool
from tests.support.lake_builder import LogBuilder, a_log, event_json

SESSIONS = st.integers(0, 2)
CATALOGS = st.integers(0, 1)


class CatalogMachine(RuleBasedStateMachine):
    """Sessions live and die, logs are rolled up and swept; two catalogs follow at their own pace.

    The model is what each session's present life said, in order, and its state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.pool = Pool(1, "test")
        self.logs = [a_log(self.store, f"s{number}") for number in range(3)]
        self.alive: dict[int, tuple[list[str], dict[str, Any]]] = {}
        self.rolled = dict.fromkeys(range(3), 0)
        self.names = count(1)
        self.catalogs = [self._catalog(), self._catalog()]

    def _catalog(self) -> Catalog:
        return Catalog(self.store, self.pool, SystemClock(), Metrics(), Limits())

    @rule(session=SESSIONS, value=st.none() | st.integers())
    def create(self, session: int, value: int | None) -> None:
        """Begin a session that is not alive."""
        if session not in self.alive:
            self.logs[session].create({"begun": value})
            self.alive[session] = ([], {"begun": value})

    @rule(session=SESSIONS, events=st.integers(1, 3), key=st.sampled_from(["a", "b", "user:a"]))
    def say(self, session: int, events: int, key: str) -> None:
        """Append a commit of some events that each set a key."""
        if session in self.alive:
            said, state = self.alive[session]
            names = [str(next(self.names)) for _ in range(events)]
            self.logs[session].say(*names, delta={key: names[0]})
            said += names
            if not key.startswith("user:"):
                state[key] = names[0]

    @rule(session=SESSIONS)
    def delete(self, session: int) -> None:
        """End a session."""
        if self.alive.pop(session, None):
            self.logs[session].delete()

    @rule(session=SESSIONS)
    def roll_up(self, session: int) -> None:
        """Write a rollup of a living session, if its last version has none."""
        log = self.logs[session]
        if session in self.alive and self.rolled[session] < log.version:
            log.roll_up()
            self.rolled[session] = log.version

    @rule(session=SESSIONS, late=st.booleans(), data=st.data())
    def sweep(self, session: int, late: bool, data: st.DataObject) -> None:
        """Sweep some of what the newest rollup covers; perhaps a refused commit lands there."""
        log, rolled = self.logs[session], self.rolled[session]
        if rolled < 2:
            return
        below = data.draw(st.integers(2, rolled))
        log.sweep(below)
        if late:
            stray = LogBuilder(self.store, log.key, version=below - 2)
            stray.commit([stray.row("event", {"a": "late"}, event_json("late"))])

    @rule(which=CATALOGS)
    def forget(self, which: int) -> None:
        """Replace a catalog by a new one, which has seen nothing."""
        self.catalogs[which].close()
        self.catalogs[which] = self._catalog()

    @rule(which=CATALOGS)
    def refresh(self, which: int) -> None:
        """After a refresh a catalog shows what the model holds."""
        catalog = self.catalogs[which]
        catalog.refresh()
        events: dict[str, list[str]] = {}
        query = "select session_id, event_id from events order by session_id, version, ordinal"
        for session_id, name in catalog.sql(query).fetchall():
            events.setdefault(session_id, []).append(name)
        sessions = catalog.sql("select session_id, events, state from sessions").fetchall()
        assert {
            session_id: (events.pop(session_id, []), n, json.loads(state))
            for session_id, n, state in sessions
        } == {
            f"s{session}": (said, len(said), state) for session, (said, state) in self.alive.items()
        }
        assert events == {}

    def teardown(self) -> None:
        """Free what was made."""
        for catalog in self.catalogs:
            catalog.close()
        self.pool.close()


TestCatalog = CatalogMachine.TestCase
# Each history makes databases, and rules of the same kind are the stateful tests' in `make test`.
TestCatalog.settings = settings(max_examples=settings().max_examples // 2)
