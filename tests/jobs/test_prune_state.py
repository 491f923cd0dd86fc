from __future__ import annotations

from typing import Any

import pytest

from lakestore.jobs import check, compact, prune_user_state
from lakestore.log.entries import list_entries
from lakestore.log.keys import STATE_ENTRIES, Scope
from tests.support.aging import APP, USER, AgingLake
from tests.support.faulty_store import InterruptedStore, Nth


def _state(aging: AgingLake, user_id: str = USER) -> dict[str, Any]:
    service = aging.service_of(aging.open(read_only=True))
    return dict(service.get_user_state(app_name=APP, user_id=user_id))


def test_idle_keys_go_and_others_stay(aging: AgingLake) -> None:
    """A key that nobody has set for long goes; the app's, the session's and young ones stay."""
    state = {"user:old": "x" * 10, "user:both": 1, "app:a": 1, "k": 1}
    session = aging.create(state=state)
    aging.pass_days(170)
    aging.say(session, "hi", delta={"user:both": 2, "user:new": 3})
    aging.pass_days(20)
    report = prune_user_state(aging.lake)
    assert (report["table"], report["deleted_count"]) == ("state", 1)
    assert report["deleted_bytes"] == len("old") + len('"xxxxxxxxxx"')
    assert _state(aging) == {"both": 2, "new": 3}
    found = aging.load(session)
    assert found is not None
    assert found.state == {"k": 1, "app:a": 1, "user:both": 2, "user:new": 3}


@pytest.mark.parametrize("packed", [False, True])
def test_a_dry_run_tells_what_a_run_does(aging: AgingLake, packed: bool) -> None:
    """A dry run writes nothing and reports what the run then does."""
    aging.create("s1", state={"user:a": 1, "user:b": 2})
    aging.create("s2", user_id="ben", state={"user:a": 1})
    aging.pass_days(200)
    if packed:
        compact(aging.lake)
    keys = [stored.key for stored in aging.store.list("")]
    dry = prune_user_state(aging.open(read_only=True), dry_run=True)
    assert [stored.key for stored in aging.store.list("")] == keys
    real = prune_user_state(aging.lake)
    assert real == {**dry, "dry_run": False, "elapsed_ms": real["elapsed_ms"]}
    assert real["deleted_count"] == 3
    assert prune_user_state(aging.lake)["deleted_count"] == 0


def test_only_the_named_user_is_pruned(aging: AgingLake) -> None:
    """Another user's keys of the same names stay."""
    aging.create("s1", state={"user:a": 1})
    aging.create("s1", user_id="ben", state={"user:a": 2})
    aging.pass_days(200)
    assert prune_user_state(aging.lake, app_name=APP, user_id=USER)["deleted_count"] == 1
    assert (_state(aging), _state(aging, "ben")) == ({}, {"a": 2})


def test_an_old_entry_does_not_bring_a_key_back(aging: AgingLake) -> None:
    """T2: entries from before, still there or landing late, are older than what was pruned."""
    aging.create("s1", state={"user:a": 1})
    ((_, entry),) = list_entries(aging.store, STATE_ENTRIES)
    body = aging.store.get(entry.key)
    aging.pass_days(200)
    warm = aging.open()
    assert aging.service_of(warm).get_user_state(app_name=APP, user_id=USER) == {"a": 1}
    prune_user_state(aging.lake)
    assert _state(aging) == {}
    aging.store.delete(entry.key)
    compact(aging.open())
    aging.store.put_if_absent(entry.key, body)
    assert _state(aging) == {}
    compact(aging.open())
    assert _state(aging) == {}
    aging.clock.advance(warm.environment.limits.view_age + 1)
    assert aging.service_of(warm).get_user_state(app_name=APP, user_id=USER) == {}


def test_a_later_write_brings_it_back(aging: AgingLake) -> None:
    """A key that is set again has its new value, also by a writer whose clock is far behind."""
    session = aging.create("s1", state={"user:a": 1})
    aging.pass_days(200)
    prune_user_state(aging.lake)
    aging.clock.jump(-300 * 86_400)
    loaded = aging.load(session, aging.lake)
    assert loaded is not None
    aging.say(loaded, "hi", delta={"user:a": 2})
    assert _state(aging) == {"a": 2}
    compact(aging.lake)
    assert _state(aging) == {"a": 2}


@pytest.mark.parametrize("moment", ["runs/", "manifests/"])
def test_a_write_between_judge_and_publish_stays(aging: AgingLake, moment: str) -> None:
    """What is set, and packed, while a prune is on its way is newer than what it judged."""
    session = aging.create("s1", state={"user:a": 1, "user:b": 1})
    compact(aging.lake)
    aging.pass_days(200)

    def others() -> None:
        aging.say(session, "hi", delta={"user:a": 2})
        compact(aging.open())

    store = InterruptedStore(aging.store, Nth("put", holding=moment), others)
    assert prune_user_state(aging.open(store))["deleted_count"] == 1
    assert _state(aging) == {"a": 2}


def test_idle_keys_whose_entries_were_never_written_count(aging: AgingLake) -> None:
    """A commit whose writer stopped before its entries is folded in, and judged, all the same."""
    aging.create("s1", state={"user:a": 1})
    for _, entry in list(list_entries(aging.store, STATE_ENTRIES)):
        aging.store.delete(entry.key)
    aging.pass_days(200)
    assert prune_user_state(aging.lake, dry_run=True)["deleted_count"] == 1
    assert prune_user_state(aging.lake)["deleted_count"] == 1
    assert _state(aging) == {}


def test_a_fold_after_it_holds_what_stays(aging: AgingLake) -> None:
    """A writer folds what is left of a scope of which keys were pruned; nothing is wrong then."""
    session = aging.create(state={"user:old": 1, "user:young": 1})
    aging.pass_days(200)
    aging.say(session, "hi", delta={"user:young": 2})
    assert prune_user_state(aging.lake)["deleted_count"] == 1
    scope = Scope(APP, USER)
    for _ in range(2):
        aging.lake.sessions.shared.fold_entries(scope)
        aging.pass_days(1)
        assert check(aging.open(read_only=True)).findings == ()
        assert _state(aging) == {"young": 2}
    folds = [entry for _, entry in list_entries(aging.store, scope.entries) if entry.is_fold]
    assert folds != []
