"""`as_of` a time: what the lake held then, or a refusal; never anything else."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakestore import Lake
from lakestore.errors import InputError
from lakestore.jobs import compact, prune_events, sweep
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import erase, peopled
from tests.support.lake_builder import COMMITTED_AT, a_log, event_json
from tests.support.measured import measured, put
from tests.support.measured import shown as shown_ids
from tests.support.sites import Site, Work

EVENTS = (
    "select app_name, user_id, session_id, version, ordinal, event_json from events order by all"
)
SESSIONS = """select app_name, user_id, session_id, state, events, version, created_at,
  last_update_time, total_tokens, turns from sessions order by all"""


def shown(lake: Lake, as_of: datetime | float | None = None) -> list[list[Any]]:
    """All events and sessions, now or at a time."""
    connection = lake.connect(as_of=as_of)
    return [connection.sql(query).fetchall() for query in (EVENTS, SESSIONS)]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 9))]
)
def test_each_moment_is_shown_as_it_was(seed: int) -> None:
    """While sessions begin, go on and end, and all is packed and swept: as it was, or refused.

    It is refused only where a session that was deleted later is packed as such.
    """
    site = Site()
    work = Work(site.lake, seed)
    moments: list[tuple[float, list[list[Any]]]] = []
    for round_ in range(9):
        work.some(10)
        with site.open(read_only=True) as lake:
            moments.append((site.clock.wall(), shown(lake)))
        site.clock.advance(10)
        if round_ == 4:
            compact(site.lake)
            site.pass_grace()
            sweep(site.lake)
        elif round_ == 6:
            compact(site.lake)
    with site.open(read_only=True) as lake:
        told = [told_at(lake, at) for at, _ in moments]
        refused = [each is None for each in told]
        assert refused == sorted(refused, reverse=True)
        assert not any(refused[7:])
        assert [each for each in told if each is not None] == [
            each for (_, each), no in zip(moments, refused, strict=True) if not no
        ]


def told_at(lake: Lake, at: float) -> list[list[Any]] | None:
    """What the lake says that it held then; None where it refuses to."""
    try:
        return shown(lake, at)
    except InputError:
        return None


CALL = event_json("calls", content={"parts": [{"functionCall": {"id": "c", "name": "f"}}]})
IDS = "select event_id from events order by session_id, version, ordinal"


def after(version: int) -> float:
    """When the commit of that version of `a_log` was stored."""
    return COMMITTED_AT / 1e6 + version


@pytest.fixture
def store() -> MemoryStore:
    """A lake for logs in which a version is a second."""
    store = MemoryStore()
    Lake(store).close()
    return store


@pytest.fixture
def aging() -> AgingLake:
    """A lake whose time the test sets."""
    clock = ManualClock()
    return AgingLake(MemoryStore("aging", clock=clock), clock)


def ids(store: MemoryStore, at: datetime | float | None) -> list[str]:
    """The events that a new process is shown at a time."""
    with Lake(store, read_only=True) as lake:
        return [event for (event,) in lake.sql(IDS, as_of=at).fetchall()]


def pack(store: MemoryStore) -> None:
    """Pack what is fresh."""
    with Lake(store) as lake:
        compact(lake)


@pytest.mark.parametrize("packed", [False, True])
def test_a_session_is_as_it_was(store: MemoryStore, *, packed: bool) -> None:
    """Events, state and times are those of its last commit by then; a later session is not."""
    log = a_log(store).create({"a": 1}).say("b", delta={"a": 2, "k": "x"})
    log.say("c", delta={"a": 3})
    a_log(store, "s2", user_id="ben").create()
    if packed:
        pack(store)
    log.say("d", delta={"k": "y"})
    query = "select session_id, state, events, version from sessions order by all"
    with Lake(store, read_only=True) as lake:
        told = [lake.sql(query, as_of=after(n)).fetchall() for n in range(5)]
        assert lake.sql(query, as_of=9e10).fetchall() == told[4]
        connection = lake.connect(as_of=datetime.fromtimestamp(after(3), UTC), guarded=True)
        log.say("e")
        lake.refresh(connection)
        assert connection.sql(IDS).fetchall() == [("b",), ("c",)]
    other = ("s2", "{}", 0, 1)
    assert told == [
        [],
        [("s1", '{"a":1}', 0, 1), other],
        [("s1", '{"a":2,"k":"x"}', 1, 2), other],
        [("s1", '{"a":3,"k":"x"}', 2, 3), other],
        [("s1", '{"a":3,"k":"y"}', 3, 4), other],
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_measured_is_as_it_was(store: MemoryStore, *, packed: bool) -> None:
    """Calls and runs are shown from their ends on, unfinished ones from their begin on."""
    log = a_log(store).create()
    log.commit([log.row("event", None, CALL)])
    began = round(after(2) * 1e6)
    raised: dict[str, Any] = {"kind": "tool", "call_id": "c", "error_type": "ValueError"}
    with Lake(store) as lake:
        put(
            lake,
            measured(version=2, started_at=began, duration_us=1_000_000, **raised),
            measured(version=1, started_at=began, duration_us=None, kind="run"),
            measured(version=2, started_at=began, duration_us=2**63 - 1),
        )
    log.say("later")
    if packed:
        pack(store)
    log.say("later still")
    with Lake(store, read_only=True) as lake:
        query = "select kind, outcome from telemetry order by all"
        told = [lake.sql(query, as_of=after(n)).fetchall() for n in (1, 2, 3, 4)]
        calls = [
            lake.sql("select status from tool_calls", as_of=after(n)).fetchall() for n in (1, 2, 3)
        ]
        assert len(lake.sql(query, as_of=9e10).fetchall()) == 2
    run, tool = ("run", "unfinished"), ("tool", "error")
    assert told == [[], [run], [run, tool], [run, tool]]
    assert calls == [[], [("pending",)], [("error",)]]


def test_what_was_measured_of_a_session_that_was_deleted_later_is_there(store: MemoryStore) -> None:
    """As the session is; after the deletion it is not, and what began anew has its own."""
    log = a_log(store).create().say("a")
    with Lake(store) as lake:
        put(lake, measured(version=2, started_at=round(after(2) * 1e6)))
        log.delete().create().say("b")
        (second,) = put(lake, measured(version=5, started_at=round(after(5) * 1e6)))
    query = "select version from telemetry order by all"
    with Lake(store, read_only=True) as lake:
        told = [lake.sql(query, as_of=after(n) + 0.5).fetchall() for n in (2, 3, 5)]
        assert shown_ids(lake) == [second]
    assert told == [[(2,)], [], [(5,)]]


@pytest.mark.parametrize("packed", [False, True])
def test_clocks_that_disagree_cut_no_hole(store: MemoryStore, *, packed: bool) -> None:
    """What stands after a later commit is later, whatever time its writer gave it."""
    log = a_log(store).create().say("a")
    ahead = log.row("event", None, event_json("b"))
    log.commit([replace(ahead, committed_at=ahead.committed_at + 60_000_000)]).say("c")
    if packed:
        pack(store)
        log.say("d")
    assert ids(store, after(10)) == ["a"]


def test_what_was_deleted_later_is_alive(store: MemoryStore) -> None:
    """It is, while its commits are there; once the deletion is packed the time is refused."""
    log = a_log(store).create().say("a").delete()
    log.create().say("b")
    assert [ids(store, after(n)) for n in (2, 3, 5)] == [["a"], [], ["b"]]
    pack(store)
    with pytest.raises(InputError, match="earliest=2023-11-14T22:13:24"):
        ids(store, after(2))
    assert ids(store, after(4)) == []
    assert ids(store, after(5)) == ["b"]


def test_a_former_life_that_was_swept_is_not_denied(store: MemoryStore) -> None:
    """Where a rollup holds the present life alone, nobody knows of the time before."""
    log = a_log(store).create().say("a").delete()
    log.create().say("b").roll_up().sweep(below=5)
    with pytest.raises(InputError, match="not known any more"):
        ids(store, after(2))
    assert ids(store, after(4)) == []


def test_what_was_pruned_is_refused(aging: AgingLake) -> None:
    """Times before the last event that was cut are refused, later ones show what is left."""
    session = aging.create("s1")
    aging.say(session, "old")
    first = aging.now
    aging.pass_days(1)
    aging.say(session, "old, too")
    cut = aging.now
    aging.pass_days(100)
    aging.say(session, "young")
    aging.create("later")
    prune_events(aging.lake)
    query = "select text from events order by version"
    with aging.open(read_only=True) as lake:
        with pytest.raises(InputError, match=re.escape(f"earliest={cut.isoformat()}")):
            lake.sql(query, as_of=first)
        assert lake.sql(query, as_of=cut).fetchall() == [(None,)]
        assert lake.sql(query, as_of=aging.now).fetchall() == [(None,), ("young",)]


def test_who_was_erased_never_was(aging: AgingLake) -> None:
    """An erased user is in no answer, of whatever time, and nobody else's is refused for it."""
    peopled(aging, compactions=0)
    before = aging.now
    aging.pass_days(1)
    erase(aging)
    with aging.open(read_only=True) as lake:
        users = "select distinct user_id from events"
        assert lake.sql(users, as_of=before).fetchall() == [("ben",)]


def test_rows_of_the_deleted_that_went_are_not_forgotten(aging: AgingLake) -> None:
    """When a sweep may have dropped what says that a session was deleted, its time is refused."""
    aging.create("s1")
    aging.service.delete_session(app_name="travel", user_id="ana", session_id="s1")
    gone = aging.now
    aging.pass_days(1)
    aging.create("s2")
    compact(aging.lake)
    for _ in range(2):
        aging.pass_days(40)
        with aging.open() as lake:
            sweep(lake)
    with aging.open(read_only=True) as lake:
        assert lake.connect().sql("from internal.packed_sessions where not alive").fetchall() == []
        assert lake.sql("select count(*) from sessions", as_of=aging.now).fetchall() == [(1,)]
        with pytest.raises(InputError, match="not known any more"):
            lake.connect(as_of=gone)


def test_odd_events_refuse_nothing(store: MemoryStore) -> None:
    """What says that it stands for pruned events, and does not, is an event like any other."""
    odd = a_log(store).create()
    unread = '{"id": "n", "author": "lakestore", "x": "\\ud83d"}'  # which DuckDB takes for no JSON
    odd.commit([odd.row("event", None, unread)]).say("a", author="lakestore")
    odd.say("b")
    pack(store)
    assert ids(store, after(1)) == []
    assert ids(store, after(2)) == ["n"]
    assert ids(store, after(3)) == ["n", "a"]


NO_TIMES: list[Any] = [datetime(2024, 1, 1), "2024-01-01", float("nan"), True]  # noqa: DTZ001


@pytest.mark.parametrize("at", NO_TIMES)
def test_a_time_has_a_zone(store: MemoryStore, at: Any) -> None:
    """What is no instant is refused."""
    with Lake(store) as lake, pytest.raises(InputError, match="as_of"):
        lake.connect(as_of=at)
