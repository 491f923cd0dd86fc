"""What pruning and erasing leave, as sweep, check and stats meet it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakestore.jobs import (
    check,
    compact,
    erase_user,
    prune_events,
    prune_user_state,
    stats,
    sweep,
)
from lakestore.log.keys import Scope, commit_key
from lakestore.storage import MemoryStore
from tests.support.aging import APP, USER, AgingLake, call
from tests.support.clocks import ManualClock

OTHER = "ben"


@pytest.fixture
def aged() -> Iterator[AgingLake]:
    """An empty lake in memory."""
    clock = ManualClock()
    made = AgingLake(MemoryStore(clock=clock), clock)
    yield made
    made.lake.close()


def _pass_grace(aged: AgingLake) -> None:
    aged.clock.advance(aged.lake.environment.limits.grace + 1)


def _peopled(aged: AgingLake) -> None:
    for user in (USER, OTHER, "z" * 200):
        for number in range(2):
            state = {"k": number, "user:u": user, "app:both": user}
            made = aged.create(f"{user[:3]}-{number}", user_id=user, state=state)
            aged.say(made, "hello", delta={"user:v": number, f"app:{user[:3]}": number})
            aged.say(made, "again")


@pytest.mark.parametrize("user", [USER, "z" * 200])
def test_a_sweep_deletes_what_lands_late_of_an_erased_user(aged: AgingLake, user: str) -> None:
    """Commits and entries of erased sessions go whenever they land; others' stay."""
    _peopled(aged)
    entries = {one.key: aged.store.get(one.key) for one in aged.store.list("state/entries/")}
    logs = {one.key: aged.store.get(one.key) for one in aged.store.list("events/log/")}
    compact(aged.lake)
    receipt = erase_user(aged.open(), APP, user).finish(aged.open())
    assert receipt.status == "done"
    before = aged.ids(), receipt.verify(aged.open(read_only=True))
    late = [key for key in {**entries, **logs} if not _there(aged, key)]
    for key in late:
        aged.store.put_if_absent(key, {**entries, **logs}[key])
    assert receipt.verify(aged.open(read_only=True))
    _pass_grace(aged)
    report = sweep(aged.open())
    assert report.failures == 0
    assert receipt.verify(aged.open(read_only=True)) == ()
    assert (aged.ids(), ()) == before
    assert list(aged.store.names("runs/app=travel/erased/"))


def _there(aged: AgingLake, key: str) -> bool:
    return key in set(aged.store.names(key))


def test_a_fold_of_what_was_erased_holds_nothing(aged: AgingLake) -> None:
    """An entry stays though a late fold has a later stamp of its key, if an erased one set that."""
    made = aged.create("s1", state={"user:u": "old"})
    aged.lake.sessions.shared.fold_entries(_scope())
    folds = {one.key: aged.store.get(one.key) for one in aged.store.list("state/entries/")}
    erase_user(aged.open(), APP, USER).finish(aged.open())
    aged.clock.advance(-5_000)
    begun = aged.service_of(aged.open()).create_session(
        app_name=APP, user_id=USER, session_id="s2", state={"user:u": "new"}
    )
    aged.service_of(aged.open()).append_event(begun, aged.event("the last commit sets nothing"))
    for key, body in folds.items():
        aged.store.put_if_absent(key, body)
    aged.clock.advance(5_000)
    _pass_grace(aged)
    sweep(aged.open())
    found = aged.load(begun)
    assert made.state["user:u"] == "old"
    assert found is not None
    assert found.state["user:u"] == "new"


def _scope() -> Scope:
    return Scope(APP, USER)


def test_a_check_finds_nothing_wrong_with_what_was_erased(aged: AgingLake) -> None:
    """Erased sessions, late commits of theirs, and ones begun since are as they should be."""
    _peopled(aged)
    logs = {one.key: aged.store.get(one.key) for one in aged.store.list("events/log/")}
    erase_user(aged.open(), APP, USER).finish(aged.open())
    for key, body in logs.items():
        if not _there(aged, key):
            aged.store.put_if_absent(key, body)
    aged.say(aged.create("ana-0", state={"user:u": "new", "app:both": "new"}), "back")
    aged.clock.advance(1_000)
    report = check(aged.open(), repair=True)
    assert report.findings == ()
    compact(aged.lake)
    assert check(aged.open(read_only=True)).findings == ()
    assert stats(aged.open(read_only=True)).apps[0].total.sessions == 5


def test_a_check_finds_nothing_wrong_with_what_was_pruned(aged: AgingLake) -> None:
    """Placeholders, histories cut at their ends, and keys without values are as they should be."""
    made = aged.create("s1", state={"user:u": 1, "k": 1})
    aged.say(made, "first", delta={"k": 2, "user:v": 2})
    aged.say(made, None, author="agent", parts=[call("ask", "c1")])
    aged.say(made, "last", delta={"app:a": 3})
    aged.pass_days(200)
    assert prune_events(aged.lake, older_than_days=90)["deleted_count"] == 2
    assert prune_user_state(aged.lake)["deleted_count"] == 2
    report = check(aged.open(read_only=True))
    assert report.findings == ()
    found = aged.load(made)
    assert found is not None
    assert [event.author for event in found.events] == ["lakestore", "agent"]
    _pass_grace(aged)
    sweep(aged.open())
    assert check(aged.open(read_only=True)).findings == ()
    assert not _there(aged, commit_key(aged.lake.sessions.find("s1")[0].log, 1))
