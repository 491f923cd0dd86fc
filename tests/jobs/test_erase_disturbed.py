"""Erasing a user while others write and compact, and where requests fail or land late."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lakestore.errors import AlreadyExistsError, ConflictError, StorageError
from lakestore.jobs import EraseReceipt, compact, erase_user
from lakestore.storage import MemoryStore
from tests.support.aging import APP, AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import SECRET, USER, erase, mentions, others_answers, peopled
from tests.support.faulty_store import FailingStore, InterruptedStore, Kind, LateStore, Nth


@pytest.mark.parametrize("what", ["events/log", "state/entries"])
def test_what_lands_late_is_not_read_and_goes(aging: AgingLake, what: str) -> None:
    """E4, E5: an entry or commit in flight lands after the removal; the second look takes it."""
    peopled(aging)
    old = {
        stored.key: aging.store.get(stored.key)
        for stored in aging.store.list(what)
        if f"user={USER}" in stored.key
    }
    assert old
    receipt = erase(aging)
    for key, body in old.items():
        aging.store.put_if_absent(key, body)
    assert receipt.verify(aging.open()) == tuple(sorted(old))
    fresh = aging.open()
    assert aging.ids(user_id=USER) == []
    assert aging.service_of(fresh).get_user_state(app_name=APP, user_id=USER) == {}
    assert fresh.sql("select * from events where user_id = ?", [USER]).fetchall() == []
    assert fresh.sql("select * from sessions where user_id = ?", [USER]).fetchall() == []
    compact(fresh)
    assert aging.service_of(fresh).get_user_state(app_name=APP, user_id=USER) == {}
    receipt = receipt.finish(aging.open())
    assert receipt.status == "done"
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []


def test_a_stalled_rollup_is_not_read(aging: AgingLake) -> None:
    """E3: a rollup that a stalled writer puts after the removal counts for nobody, and goes."""
    handles = peopled(aging, compactions=0)
    (key,) = aging.lake.sessions.find(f"chat-{USER}-0")
    late = LateStore(aging.store, Nth("put", times=9, holding="r.parquet"))
    stalled = aging.open(late)
    stalled.sessions.load(key)
    stalled.sessions.roll_up(key, force=True)
    receipt = erase(aging)
    assert late.release() == [True]
    assert aging.load(handles[f"chat-{USER}-0"]) is None
    assert receipt.finish(aging.open()).status == "done"
    assert mentions(aging.store, SECRET + "-" + USER, USER) == []


@pytest.mark.parametrize("moment", ["packs/", "runs/", "manifests/"])
def test_a_compaction_that_was_under_way_brings_nothing_back(aging: AgingLake, moment: str) -> None:
    """E1: a compaction that read before and publishes after the erase packs nothing of it."""
    peopled(aging)
    before = others_answers(aging)
    receipts: list[EraseReceipt] = []
    picked = Nth("put", holding=moment)
    store = InterruptedStore(aging.store, picked, lambda: receipts.append(erase(aging)))
    with suppress(ConflictError):  # its pack was named for deletion: it is to start over
        compact(aging.open(store))
    assert aging.ids(user_id=USER) == []
    assert receipts[0].finish(aging.open()).status == "done"
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert others_answers(aging) == before


def test_an_append_during_the_delete_is_erased_too(aging: AgingLake) -> None:
    """What is acknowledged while the sessions are being ended is before their end, or refused."""
    handles = peopled(aging)
    session = handles[f"chat-{USER}-0"]
    picked = Nth("put", holding=f"session=chat-{USER}-0")
    store = InterruptedStore(aging.store, picked, lambda: aging.say(session, "acknowledged"))
    receipt = erase_user(aging.open(store), APP, USER)
    assert receipt.finish(aging.open()).status == "done"
    assert mentions(aging.store, "acknowledged", USER) == []


def test_a_session_that_begins_anew_meanwhile_is_erased_too(aging: AgingLake) -> None:
    """Its end is looked at once it is there: what has begun in between is ended as well."""
    peopled(aging)
    name = f"chat-{USER}-0"
    picked = Nth("put", holding=f"session={name}")

    def begin() -> None:
        aging.service_of(aging.lake).create_session(app_name=APP, user_id=USER, session_id=name)

    store = InterruptedStore(aging.store, picked, begin, when="after")
    receipt = erase_user(aging.open(store), APP, USER)
    assert receipt.finish(aging.open()).status == "done"
    assert aging.ids(user_id=USER) == []
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["put", "get", "get_range", "list", "delete"])
def test_a_crash_at_any_request_is_mended_by_running_again(kind: Kind, step: int) -> None:
    """Whichever request ends the job, running it again erases the user, and nobody else."""
    whole = AgingLake(MemoryStore(clock=ManualClock()))
    peopled(whole, compactions=1)
    before = others_answers(whole)
    for nth in range(1, 400, step):
        aging = whole.copy()
        failing = Nth(kind, nth)
        with suppress(StorageError):
            erase_user(aging.open(FailingStore(aging.store, failing)), APP, USER)
        assert others_answers(aging) == before
        receipt = erase(aging).finish(aging.open())
        assert receipt.status == "done", f"{kind} {nth}"
        assert mentions(aging.store, f"{SECRET}-{USER}", USER) == [], f"{kind} {nth}"
        assert others_answers(aging) == before
        if failing.met < nth:
            return
    raise AssertionError("the loop is too short")


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["put", "get", "list", "delete"])
def test_a_crash_of_the_second_look_is_mended_by_another(kind: Kind, step: int) -> None:
    """Whichever request ends `finish`, calling it again is done, also where much landed late."""
    begun = AgingLake(MemoryStore(clock=ManualClock()))
    peopled(begun, compactions=1)
    before = others_answers(begun)
    old = {s.key: begun.store.get(s.key) for s in begun.store.list("") if USER in s.key}
    packs = {s.key: begun.store.get(s.key) for s in begun.store.list("packs/")}
    first = erase(begun)
    for key, body in {**old, **packs}.items():
        with suppress(AlreadyExistsError):
            begun.store.put_if_absent(key, body)
    for nth in range(1, 400, step):
        aging, receipt = begun.copy(), first
        failing = Nth(kind, nth)
        with suppress(StorageError):
            receipt = receipt.finish(aging.open(FailingStore(aging.store, failing)))
        receipt = receipt.finish(aging.open())
        assert receipt.status == "done", f"{kind} {nth}"
        assert mentions(aging.store, f"{SECRET}-{USER}", USER) == [], f"{kind} {nth}"
        assert others_answers(aging) == before
        if failing.met < nth:
            return
    raise AssertionError("the loop is too short")


def test_deletes_that_fail_are_told_and_done_later(aging: AgingLake) -> None:
    """R074: what a store refuses to delete is among what is left, and goes with the next look."""
    peopled(aging)
    failing = FailingStore(aging.store, Nth("delete", nth=2, times=3))
    receipt = erase_user(aging.open(failing), APP, USER)
    assert len(receipt.left) == 3
    assert receipt.verify(aging.open()) == receipt.left
    assert not set(receipt.left) & set(receipt.removed)
    last = receipt.finish(aging.open())
    assert (last.status, last.left) == ("done", ())
    assert set(receipt.left) <= set(last.removed)
