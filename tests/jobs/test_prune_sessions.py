from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakestore.errors import InputError, ReadOnlyError, StorageError
from lakestore.jobs import (
    compact,
    prune_events,
    prune_sessions,
    prune_user_state,
)
from lakestore.storage import MemoryStore
from tests.support.aging import APP, USER, AgingLake
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Kind, Nth

PRUNES: list[tuple[Callable[..., Any], str]] = [
    (prune_sessions, "idle_days"),
    (prune_events, "older_than_days"),
    (prune_user_state, "idle_days"),
]


def test_age_counts_from_the_last_commit(aging: AgingLake) -> None:
    """A session that was created long ago and used lately stays; an idle one goes."""
    old, used = aging.create("old"), aging.create("used")
    aging.say(old, "hello")
    aging.pass_days(20)
    aging.say(used, "hello")
    aging.pass_days(10)
    report = prune_sessions(aging.lake)
    assert aging.ids() == ["used"]
    assert report["deleted_count"] == 1
    assert report["deleted_bytes"] > 0
    assert (report["table"], report["deleted_objects"]) == ("sessions", 0)
    assert aging.load(old) is None


def test_the_boundary_is_the_day_itself(aging: AgingLake) -> None:
    """A session is idle when its last commit is exactly that many days old, not a second less."""
    aging.create("s1")
    just_before = aging.now + timedelta(days=30) - timedelta(seconds=1)
    assert prune_sessions(aging.lake, now=just_before)["deleted_count"] == 0
    assert prune_sessions(aging.lake, now=aging.now + timedelta(days=30))["deleted_count"] == 1


@pytest.mark.parametrize("packed", [False, True])
def test_only_the_named_scope_shrinks(aging: AgingLake, packed: bool) -> None:
    """Pruning an app, then a user of another, leaves all others alone and counts what went."""
    for app in ("a", "b"):
        for user in ("u1", "u2"):
            aging.create("same", app_name=app, user_id=user)
    aging.pass_days(40)
    if packed:
        compact(aging.lake)
    assert prune_sessions(aging.lake, app_name="a")["deleted_count"] == 2
    assert (aging.ids("a"), aging.ids("b")) == ([], ["same", "same"])
    assert prune_sessions(aging.lake, app_name="b", user_id="u1")["deleted_count"] == 1
    assert (aging.ids("b", "u1"), aging.ids("b", "u2")) == ([], ["same"])
    assert prune_sessions(aging.lake)["deleted_count"] == 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_dry_run_tells_what_a_run_does(aging: AgingLake, packed: bool) -> None:
    """A dry run deletes nothing, writes nothing, and reports what the run then does."""
    for number in range(5):
        aging.say(aging.create(f"s{number}"), f"hello {number}", delta={"k": number})
        aging.pass_days(10)
    if packed:
        compact(aging.lake)
    before = [stored.key for stored in aging.store.list("")]
    dry = prune_sessions(aging.open(read_only=True), dry_run=True)
    assert [stored.key for stored in aging.store.list("")] == before
    real = prune_sessions(aging.lake)
    assert real == {**dry, "dry_run": False, "elapsed_ms": real["elapsed_ms"]}
    assert real["deleted_count"] == 3
    assert aging.ids() == ["s3", "s4"]


@pytest.mark.parametrize("packed", [False, True])
def test_the_last_sessions_of_a_user_may_be_kept(aging: AgingLake, packed: bool) -> None:
    """`keep_last` spares as many of each user's sessions, by their last commits."""
    for user in ("ana", "ben"):
        made = [aging.create(f"s{number}", user_id=user) for number in range(3)]
        for session in (made[2], made[0], made[1]):
            aging.pass_days(1)
            aging.say(session, "hello")
    if packed:
        compact(aging.lake)
    aging.pass_days(50)
    assert prune_sessions(aging.lake, keep_last=2)["deleted_count"] == 2
    assert aging.ids(user_id="ana") == aging.ids(user_id="ben") == ["s0", "s1"]


def test_an_append_between_judge_and_delete_saves_the_session(aging: AgingLake) -> None:
    """P1: a session that is added to while it is judged was not idle: it stays, uncounted."""
    session = aging.create("s1")
    aging.create("s2")
    aging.pass_days(40)
    fresh = aging.load(session)
    assert fresh is not None
    picked = Nth("put", holding="session=s1")
    store = InterruptedStore(aging.store, picked, lambda: aging.say(fresh, "still here"))
    assert prune_sessions(aging.open(store))["deleted_count"] == 1
    assert aging.ids() == ["s1"]


def test_a_session_that_was_pruned_is_not_found_and_may_begin_again(aging: AgingLake) -> None:
    """Pruning is a delete commit: readers see none, and versions go on after it."""
    aging.say(aging.create("s1"), "before")
    compact(aging.lake)
    aging.pass_days(31)
    prune_sessions(aging.lake)
    compact(aging.lake)
    assert aging.ids() == []
    again = aging.create("s1")
    found = aging.load(again)
    assert found is not None
    assert found.events == []
    assert aging.lake.sql("select version from sessions").fetchall() == [(4,)]


def test_a_writers_clock_ahead_keeps_longer(aging: AgingLake) -> None:
    """A commit dated in the future is young; nothing fails."""
    aging.clock.jump(100 * 86_400)
    aging.create("s1")
    aging.clock.jump(-100 * 86_400)
    assert prune_sessions(aging.lake, now=aging.now + timedelta(days=60))["deleted_count"] == 0


@pytest.mark.parametrize(("prune", "days"), PRUNES)
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "30", None])
def test_days_are_a_whole_number_from_one(
    prune: Callable[..., Any], days: str, value: object
) -> None:
    """Zero days never means everything: what is no whole number from 1 is refused."""
    aging = AgingLake(MemoryStore(clock=ManualClock()))
    with pytest.raises(ValueError, match=days):
        prune(aging.lake, **{days: value})


@pytest.mark.parametrize(("prune", "_days"), PRUNES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"now": datetime(2030, 1, 1)},  # noqa: DTZ001 - it is to be refused
        {"now": 1_700_000_000},
        {"dry_run": 1},
        {"user_id": "ana"},
        {"app_name": ""},
        {"app_name": "a", "user_id": 7},
    ],
)
def test_arguments_that_make_no_sense(
    prune: Callable[..., Any], _days: str, arguments: dict[str, Any]
) -> None:
    """A naive time, a user without an app, and values of other types are refused."""
    with pytest.raises(InputError):
        prune(AgingLake(MemoryStore(clock=ManualClock())).lake, **arguments)


@pytest.mark.parametrize(("prune", "_days"), PRUNES)
def test_an_empty_lake_reports_nothing(prune: Callable[..., Any], _days: str) -> None:
    """Pruning a lake without anything in it, or an app that never was, reports 0."""
    aging = AgingLake(MemoryStore(clock=ManualClock()))
    assert prune(aging.lake)["deleted_count"] == 0
    assert prune(aging.lake, app_name="never", user_id="nobody")["deleted_count"] == 0


@pytest.mark.parametrize(("prune", "_days"), PRUNES)
def test_a_read_only_lake_is_not_pruned(prune: Callable[..., Any], _days: str) -> None:
    """Only a dry run works where nothing may be written."""
    aging = AgingLake(MemoryStore(clock=ManualClock()))
    lake = aging.open(read_only=True)
    assert prune(lake, dry_run=True)["dry_run"]
    with pytest.raises(ReadOnlyError):
        prune(lake)


def _aged() -> AgingLake:
    aging = AgingLake(MemoryStore(clock=ManualClock()))
    for number in range(3):
        session = aging.create(f"s{number}", state={f"user:k{number}": number})
        aging.say(session, "old", f"turn-{number}", delta={"k": 1})
        aging.pass_days(1)
    compact(aging.lake)
    aging.pass_days(200)
    for number in range(3):
        found = aging.load(session := aging.create(f"new{number}"))
        assert found is not None
        aging.say(session, "new", delta={f"user:new{number}": 1})
    return aging


@pytest.mark.parametrize("kind", ["put", "get", "get_range", "list"])
@pytest.mark.parametrize(("prune", "_days"), PRUNES)
def test_a_crash_at_any_request_is_mended_by_running_again(
    prune: Callable[..., Any], _days: str, kind: Kind
) -> None:
    """Whichever request ends the job, the next run does the rest, and nothing else is lost."""
    begun = _aged()
    finished = begun.copy()
    prune(finished.lake)
    expected = _seen(finished)
    for nth in range(1, 60):
        aging = begun.copy()
        failing = Nth(kind, nth)
        with suppress(StorageError):
            prune(aging.open(FailingStore(aging.store, failing)))
        prune(aging.open())
        assert _seen(aging) == expected, f"{kind} {nth}"
        if failing.met < nth:
            break


def _seen(aging: AgingLake) -> list[Any]:
    service = aging.service_of(aging.open(read_only=True))
    listed = service.list_sessions(app_name=APP, user_id=USER).sessions
    loaded = [service.get_session(app_name=APP, user_id=USER, session_id=s.id) for s in listed]
    return [
        (s.id, s.state, [(e.author, e.actions.state_delta) for e in s.events]) for s in loaded if s
    ]


def test_time_is_this_machines_unless_given() -> None:
    """Without `now`, ages count to the lake's own clock."""
    aging = AgingLake(MemoryStore(clock=ManualClock()))
    aging.create("s1")
    given = datetime(2040, 1, 1, tzinfo=UTC)
    assert prune_sessions(aging.lake, dry_run=True)["deleted_count"] == 0
    assert prune_sessions(aging.lake, dry_run=True, now=given)["deleted_count"] == 1
