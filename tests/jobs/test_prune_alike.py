"""What all prunes have in common: whose things go, to when ages count, what is reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakestore.errors import InputError
from lakestore.jobs import (
    compact,
    prune_events,
    prune_sessions,
    prune_telemetry,
    prune_user_state,
    sweep,
)
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock
from tests.support.measured import measured, put

APPS, USERS = ("a", "b"), ("ana", "ben")
DAYS = 100
Prune = Callable[..., Any]
PRUNES = pytest.mark.parametrize(
    ("prune", "days", "table", "each"),
    [
        (prune_sessions, "idle_days", "sessions", 1),
        (prune_events, "older_than_days", "events", 2),
        (prune_user_state, "idle_days", "state", 2),
        (prune_telemetry, "older_than_days", "telemetry", 3),
    ],
    ids=["sessions", "events", "state", "telemetry"],
)
"""Each with the name of its days, what it prunes, and how many of that each user has."""


@pytest.fixture
def aging() -> AgingLake:
    """A lake of two apps of two users: each a session, two events, two keys, three measurements."""
    clock = ManualClock()
    made = AgingLake(MemoryStore(clock=clock), clock)
    for app in APPS:
        for user in USERS:
            state = {"user:u": user, "user:n": 1, "app:a": 1, "own": 1}
            session = made.create("s", app_name=app, user_id=user, state=state)
            made.say(session, "one")
            made.say(session, "two")
            began = int(clock.wall() * 1e6)
            rows = (measured(user, "s", app_name=app, started_at=began) for _ in range(3))
            put(made.lake, *rows)
    return made


def counts(prune: Prune, lake: Any, days: str, **arguments: Any) -> dict[tuple[str, str], int]:
    """Return how many a prune would take of each user."""
    return {
        (app, user): prune(
            lake, app_name=app, user_id=user, dry_run=True, **{days: DAYS}, **arguments
        )["deleted_count"]
        for app in APPS
        for user in USERS
    }


@PRUNES
@pytest.mark.parametrize("packed", [False, True], ids=["fresh", "packed"])
def test_the_scope_is_the_one_that_was_named(
    aging: AgingLake, prune: Prune, days: str, table: str, each: int, packed: bool
) -> None:
    """R008: a prune of a user or an app counts what went there, and leaves all others alone."""
    aging.pass_days(DAYS)
    if packed:
        compact(aging.lake)
    for scope, gone in (
        ({"app_name": "b", "user_id": "ana"}, [("b", "ana")]),
        ({"app_name": "a"}, [("a", "ana"), ("a", "ben")]),
        ({}, [("b", "ben")]),
    ):
        before = counts(prune, aging.open(), days)
        report = prune(aging.open(), **scope, **{days: DAYS})
        assert report["table"] == table
        assert report["deleted_count"] == each * len(gone)
        after = counts(prune, aging.open(), days)
        assert after == {place: 0 if place in gone else n for place, n in before.items()}


@PRUNES
def test_ages_count_to_the_time_that_was_given(
    aging: AgingLake, prune: Prune, days: str, table: str, each: int
) -> None:
    """With `now` in the future what will be old then goes; with one in the past nothing does."""
    ahead = aging.now + timedelta(days=DAYS)
    second = timedelta(seconds=1)
    assert set(counts(prune, aging.lake, days, now=ahead - timedelta(days=1)).values()) == {0}
    assert set(counts(prune, aging.lake, days, now=ahead + second).values()) == {each}
    aging.pass_days(2 * DAYS)
    assert set(counts(prune, aging.lake, days, now=ahead - timedelta(days=1)).values()) == {0}
    report = prune(aging.lake, now=ahead + second, **{days: DAYS})
    assert (report["table"], report["deleted_count"]) == (table, 4 * each)


@PRUNES
@pytest.mark.parametrize("state", ["fresh", "packed", "swept"])
def test_a_dry_run_reports_what_a_run_does(
    aging: AgingLake, prune: Prune, days: str, table: str, each: int, state: str
) -> None:
    """Field by field, also with nothing new to pack; a second run finds nothing."""
    aging.pass_days(DAYS)
    if state != "fresh":
        compact(aging.lake)
    if state == "swept":
        aging.clock.advance(aging.lake.environment.limits.grace + 1)
        sweep(aging.lake)
    before = {one.key: aging.store.get(one.key) for one in aging.store.list("")}
    would = prune(aging.open(read_only=True), dry_run=True, **{days: DAYS})
    assert {one.key: aging.store.get(one.key) for one in aging.store.list("")} == before
    done = prune(aging.open(), **{days: DAYS})
    assert {**would, "dry_run": False, "elapsed_ms": 0} == {**done, "elapsed_ms": 0}
    assert set(done) == {
        *("deleted_count", "elapsed_ms", "table", "deleted_bytes", "deleted_objects", "dry_run")
    }
    assert (done["table"], done["deleted_count"]) == (table, 4 * each)
    assert done["deleted_bytes"] > 0
    again = prune(aging.open(), **{days: DAYS})
    assert (again["deleted_count"], again["deleted_bytes"]) == (0, 0)


@pytest.mark.parametrize("value", [-1, True, 1.0, "3", None])
def test_how_many_to_keep_is_a_whole_number(aging: AgingLake, value: object) -> None:
    """What is none, or below 0, is refused before anything is done."""
    aging.pass_days(DAYS)
    with pytest.raises(InputError, match="keep_last"):
        prune_sessions(aging.lake, keep_last=value)  # type: ignore[arg-type]  # it is refused
    assert aging.ids("a", "ana") == ["s"]
