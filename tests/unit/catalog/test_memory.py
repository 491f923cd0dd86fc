"""The view `memory`: each memory that counts once, whatever jobs have done with its rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lakestore import Lake, LakeMemoryService
from lakestore.catalog import VIEWS
from lakestore.history.keyed import MEMORY
from lakestore.jobs import compact, erase_user, sweep
from lakestore.jobs.changes import Changes, Publisher
from lakestore.log.entries import put_entry
from lakestore.log.keys import MEMORY_ENTRIES, Scope, entry_key
from lakestore.storage import MemoryStore
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow, place_of
from tests.support.clocks import ManualClock

APP, USERS = "a", ("ana", "ben")
IDS = ("m1", "m2", "m3")
ALL = "select user_id, id, session_id, text, added_at from memory where app_name = 'a' order by all"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GRACE = 3_601.0


def row_of(stamp: str, ordinal: int, **fields: Any) -> MemoryRow:
    """Return an add, or what `fields` say, of that entry."""
    given = {"app_name": APP, "kind": "add", "inserted_at": 1, "place": place_of(stamp, ordinal)}
    return MemoryRow(**{"stamp": stamp, "ordinal": ordinal, **given, **fields})


def put(lake: Lake, rows: list[MemoryRow]) -> None:
    """Store rows of one stamp and scope as they are."""
    env, scope = lake.environment, Scope(rows[0].app_name, rows[0].user_id)
    prefix, body = scope.entries_in(MEMORY_ENTRIES), memory.encode(rows)
    put_entry(
        env.store, prefix, rows[0].stamp, body, fold=False, clock=env.clock, metrics=env.metrics
    )


def folded(rows: list[MemoryRow]) -> list[tuple[Any, ...]]:
    """Return what the view shows of rows that were neither erased nor pruned, in plain Python."""
    keys: dict[tuple[str | None, str], list[MemoryRow]] = {}
    for row in rows:
        keys.setdefault((row.user_id, row.key), []).append(row)
    whole = {key: reduce(memory.merge, found) for key, found in keys.items()}
    shown = [
        (row.user_id, row.id, row.session_id, row.text, micros(row.first_place[:17]))
        for row in whole.values()
        if row.kind == "add" and (row.user_id, row.ending) not in whole
    ]
    return sorted(shown, key=repr)


def micros(digits: str) -> datetime:
    """Return the time that a stamp begins with."""
    return EPOCH + timedelta(microseconds=int(digits))


class MemoryMachine(RuleBasedStateMachine):
    """Rows land in any order; all is packed, swept, pruned and erased; two processes look."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemoryStore("memories", clock=self.clock)
        self.lake = Lake(self.store, clock=self.clock)
        self.readers = [self._open(), self._open()]
        self.landed: list[MemoryRow] = []
        self.packed: list[MemoryRow] = []
        self.stamps = 0

    def _open(self) -> Lake:
        return Lake(self.store, clock=self.clock, read_only=True)

    @rule(
        late=st.integers(0, 20),
        owner=st.sampled_from([*USERS, None]),
        rows=st.lists(
            st.tuples(
                st.sampled_from(IDS),
                st.sampled_from(["s1", "s2", None]),
                st.sampled_from(["add", "add", "add", "forget"]),
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda each: (each[0], each[1] if each[2] == "add" else each[2]),
        ),
    )
    def land(self, late: int, owner: str | None, rows: list[tuple[str, str | None, str]]) -> None:
        """An entry lands, stamped some steps ago by a writer that knew no better.

        What the app shares of one id is from one user, and so is what forgets it.
        """
        self.clock.advance(1e-5)
        self.stamps += 1
        now = int(self.clock.wall() * 1e6) - late * 10
        stamp = f"{now:017}-000000-{self.stamps:016x}"
        made = [
            row_of(
                stamp,
                number,
                user_id=owner,
                id=name,
                kind=kind,
                session_id=session_id,
                source_user_id=owner or USERS[name == "m3"],
                text=f"text {self.stamps}.{number}" if kind == "add" else None,
            )
            for number, (name, session_id, kind) in enumerate(rows)
        ]
        put(self.lake, made)
        self.landed += made

    @rule()
    def pack(self) -> None:
        """What is fresh becomes runs; entries stay until they are swept."""
        compact(self.lake)
        self.packed, self.landed = [*self.packed, *self.landed], []

    @rule()
    def clean(self) -> None:
        """What nobody needs goes."""
        self.clock.advance(GRACE)
        sweep(self.lake)

    @rule(name=st.sampled_from(IDS))
    def prune(self, name: str) -> None:
        """Of what is packed, the adds of an id go without leaving anything."""
        env, archive = self.lake.environment, self.lake.sessions.archive

        def goes(row: MemoryRow) -> bool:
            return row.id == name and row.kind == "add"

        Publisher(env, archive, APP).publish(Changes(pruned={MEMORY.name: goes}))
        self.packed = [row for row in self.packed if row.id != name or row.kind != "add"]

    @rule(user=st.sampled_from(USERS))
    def erase(self, user: str) -> None:
        """All goes that came from a user, from the app's memory too."""
        erase_user(self.lake, APP, user, wait=False)
        self.packed = [row for row in (*self.packed, *self.landed) if row.source_user_id != user]
        self.landed = []
        self.clock.advance(1)  # what comes later is stamped later

    @rule(which=st.integers(0, 1))
    def look(self, which: int) -> None:
        """A reader shows what counts of all that landed."""
        found = self.readers[which].sql(ALL).fetchall()
        assert sorted(found, key=repr) == folded([*self.packed, *self.landed])

    @rule(which=st.integers(0, 1))
    def begin_anew(self, which: int) -> None:
        """Another process takes a reader's place."""
        self.readers[which].close()
        self.readers[which] = self._open()
        self.look(which)

    def teardown(self) -> None:
        """Free what was made."""
        for lake in (self.lake, *self.readers):
            lake.close()


TestMemory = MemoryMachine.TestCase
# Each history makes databases.
TestMemory.settings = settings(max_examples=settings().max_examples // 6)


@pytest.fixture
def lake() -> Iterator[Lake]:
    """An empty lake, on a clock that the test sets."""
    clock = ManualClock()
    with Lake(MemoryStore("lake", clock=clock), clock=clock) as made:
        yield made


def entry(text: str, **fields: Any) -> MemoryEntry:
    """Return a memory with that text."""
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


@pytest.mark.parametrize("packed", [False, True])
def test_each_column_says_where_a_memory_came_from(lake: Lake, *, packed: bool) -> None:
    """Of an event that event, call and turn; of a fact what its adder said; the app's has no user.

    So it is on connections of every kind, and in scans.
    """
    service = LakeMemoryService(lake).sync
    call = types.Part(function_call=types.FunctionCall(id="c1", name="book", args={}))
    event = Event(
        id="e1",
        author="guide",
        invocation_id="i1",
        timestamp=2.5,
        content=types.Content(parts=[types.Part(text="東京で会う"), call]),
    )
    service.add_events_to_memory(
        app_name=APP, user_id="ana", events=[event], session_id="s1", custom_metadata={"k": 1}
    )
    first = lake.clock.wall()
    fact = entry("all flights leave at nine", id="f1", author="ben", timestamp="2026-01-01")
    service.add_memory(app_name=APP, user_id="ben", memories=[fact], scope="app")
    if packed:
        compact(lake)
    query = "select * exclude (content, inserted_at) from memory order by id"
    added = datetime.fromtimestamp(first, UTC).replace(microsecond=int(first * 1e6) % 1_000_000)
    told = EPOCH + timedelta(seconds=2.5), datetime(2026, 1, 1, tzinfo=UTC)
    one = (APP, "ana", "user", "e1", "s1", "ana", "e1", "i1", "guide", "c1", told[0], added)
    other = (APP, None, "app", "f1", None, "ben", None, None, "ben", None, told[1], added)
    expected = [
        (*one, "東京で会う", '{"k": 1}', False),
        (*other, "all flights leave at nine", None, False),
    ]
    shown = [
        lake.sql(query).fetchall(),
        lake.connect(guarded=True).sql(query).fetchall(),
        lake.connect().sql(query).fetchall(),
    ]
    assert [
        [(*row[:13], row[13] and json.dumps(json.loads(row[13])), row[14]) for row in rows]
        for rows in shown
    ] == [expected] * 3
    read = lake.scan("memory", where="scope = ?", params=["app"]).read_all()
    assert (read.column_names, read["id"].to_pylist()) == (list(VIEWS["memory"].columns), ["f1"])
    frame = lake.scan_polars("memory").collect()
    assert sorted(frame["id"].to_list()) == ["e1", "f1"]


@pytest.mark.parametrize("packed", [False, True])
def test_at_a_time_what_was_added_by_then(lake: Lake, *, packed: bool) -> None:
    """As it is now: what was replaced since as it was replaced, what was forgotten since not."""
    service = LakeMemoryService(lake).sync
    times = []
    for name in ("m1", "m2", "m3", "m1"):
        times.append(lake.clock.wall())
        memories = [entry(f"{name} for the {len(times)}th time", id=name)]
        service.add_memory(app_name=APP, user_id="ana", memories=memories)
        lake.environment.clock.sleep(10)
    service.delete_memory(app_name=APP, user_id="ana", memory_id="m2")
    if packed:
        compact(lake)
    query = "select text from memory order by added_at"
    told = [lake.sql(query, as_of=at + 1).fetchall() for at in (times[0] - 9, *times)]
    one, three = ("m1 for the 4th time",), ("m3 for the 3th time",)
    assert told == [[], [one], [one], [one, three], [one, three]]


def test_what_cannot_be_understood_is_not_shown(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    """An entry with a row of another kind, or a damaged stamp, is named once; others count."""
    service = LakeMemoryService(lake).sync
    service.add_memory(app_name=APP, user_id="ana", memories=[entry("sound", id="m")])
    good = row_of(f"{1:017}-000000-{1:016x}", 0, user_id="ana", id="x", text="x")
    rumour: Any = "rumour"
    harmed = [replace(good, kind=rumour), replace(good, stamp="yesterday")]
    for number, row in enumerate(harmed, 2):
        key = entry_key(
            Scope(APP, "ana").entries_in(MEMORY_ENTRIES),
            f"{number:017}-000000-{1:016x}",
            fold=False,
        )
        lake.environment.store.put_if_absent(key, memory.encode([row]))
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert lake.sql("select text from memory").fetchall() == [("sound",)]
    assert len([it for it in caplog.records if it.name == "lakestore.catalog.following"]) == 2


def test_what_is_added_after_an_erase_counts(lake: Lake) -> None:
    """Under the ids of before, too, and where nobody knows a version of the session."""
    service = LakeMemoryService(lake).sync

    def add(text: str) -> None:
        said = Event(id=text, author="user", content=types.Content(parts=[types.Part(text=text)]))
        service.add_events_to_memory(
            app_name=APP, user_id="ana", events=[said], session_id="default"
        )

    add("before")
    erase_user(lake, APP, "ana", wait=False)
    assert lake.sql("from memory").fetchall() == []
    lake.environment.clock.sleep(1)
    add("after")
    found = service.search_memory(app_name=APP, user_id="ana", query="before after")
    assert [one.id for one in found.memories] == ["after"]
    assert lake.sql("select id from memory").fetchall() == [("after",)]
    compact(lake)
    assert lake.sql("select id from memory").fetchall() == [("after",)]
