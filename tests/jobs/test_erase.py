from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestore.errors import (
    AlreadyExistsError,
    ConflictError,
    InputError,
    ReadOnlyError,
    StorageError,
)
from lakestore.jobs import EraseReceipt, compact, erase_user, prune_events
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.aging import APP, AgingLake, texts
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Kind, LateStore, Nth

SECRET = "sesame"
USER = "anastasia"
OTHER = "ben"


def _cells(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _cells(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _cells(each)
    elif value is not None:
        yield str(value)


def _decoded(key: str, body: bytes) -> Iterator[str]:
    """Yield the key, the raw bytes, and every value and statistic that they hold."""
    yield key
    yield body.decode("latin-1")
    if body.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(body))
        yield from _cells(file.read().to_pylist())
        yield str(file.metadata)
        for group in range(file.num_row_groups):
            yield from (
                str(file.metadata.row_group(group).column(column))
                for column in range(file.metadata.num_columns)
            )
    elif body.startswith(b"{"):
        yield from _cells(json.loads(body))


def _mentions(store: ObjectStore, *words: str) -> list[str]:
    pattern = re.compile("|".join(map(re.escape, words)))
    return [
        stored.key
        for stored in store.list("")
        if any(pattern.search(text) for text in _decoded(stored.key, store.get(stored.key)))
    ]


def _peopled(aging: AgingLake, *, compactions: int = 2) -> dict[str, Any]:
    """Two users with sessions, state of all scopes, in packs, runs, commits and entries."""
    handles: dict[str, Any] = {}
    for user in (USER, OTHER):
        for number in range(2):
            word = f"{SECRET}-{user}"
            state = {"k": word, "user:u": word, f"app:{len(user)}": number, "app:both": len(user)}
            made = aging.create(f"chat-{user}-{number}", user_id=user, state=state)
            aging.say(made, f"I say {word} {number}")
            handles[made.id] = made
    for step in range(compactions):
        compact(aging.lake)
        for user in (OTHER, USER):
            made = handles[f"chat-{user}-0"]
            delta = {"user:u": f"{SECRET}-{user}-{step}", "app:both": len(user)}
            aging.say(made, f"more {SECRET}-{user} {step}", delta=delta)
    return handles


def _others(aging: AgingLake) -> Any:
    lake = aging.open(read_only=True)
    service = aging.service_of(lake)
    listed = service.list_sessions(app_name=APP, user_id=OTHER).sessions
    loaded = [service.get_session(app_name=APP, user_id=OTHER, session_id=s.id) for s in listed]
    return [found.model_dump() for found in loaded if found]


def _erase(aging: AgingLake) -> EraseReceipt:
    return erase_user(aging.open(), APP, USER)


def test_nothing_of_the_user_is_left(aging: AgingLake) -> None:
    """No byte of any object under the root holds an id or a word of the user; others keep all."""
    _peopled(aging)
    before = _others(aging)
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER)
    receipt = _erase(aging)
    assert receipt.pending
    receipt = receipt.finish(aging.open())
    assert (receipt.status, receipt.left) == ("done", ())
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert receipt.verify(aging.open(read_only=True)) == ()
    assert receipt.removed
    assert len(receipt.sessions) == 2
    assert _others(aging) == before
    assert receipt.finish(aging.open()) is receipt


@pytest.mark.parametrize("compactions", [0, 1])
def test_also_what_was_never_packed_or_rolled_up(aging: AgingLake, compactions: int) -> None:
    """Commits, rollups and folds of entries go as packs and runs do."""
    handles = _peopled(aging, compactions=compactions)
    keys = [key for each in handles for key in aging.lake.sessions.find(each)]
    for key in keys:
        aging.lake.sessions.load(key)
        aging.lake.sessions.roll_up(key, force=True)
        aging.lake.sessions.shared.fold_entries(_scope(key.user_id))
    aging.lake.sessions.shared.fold_entries(_scope(None))
    before = _others(aging)
    receipt = _erase(aging).finish(aging.open())
    assert receipt.status == "done"
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert _others(aging) == before


def _scope(user_id: str | None) -> Any:
    from lakestore.log.keys import Scope

    return Scope(APP, user_id)


def test_readers_see_nothing_from_the_moment_it_is_published(aging: AgingLake) -> None:
    """E1: loads, listings, state and SQL of all processes show nothing, warm or cold."""
    handles = _peopled(aging)
    warm = aging.open()
    assert len(warm.sql("select * from events").fetchall()) == 8
    service = aging.service_of(warm)
    assert service.get_user_state(app_name=APP, user_id=USER)
    receipt = erase_user(aging.open(), APP, USER, wait=False)
    assert (receipt.status, receipt.removed) == ("published", ())
    for step in range(2):
        for lake in (warm, aging.open()):
            shown = lake.sql("select user_id from events union select user_id from sessions")
            assert shown.fetchall() == [(OTHER,)], step
            service = aging.service_of(lake)
            assert service.list_sessions(app_name=APP, user_id=USER).sessions == []
            assert service.get_user_events(app_name=APP, user_id=USER) == []
            for handle in handles.values():
                found = service.get_session(
                    app_name=APP, user_id=handle.user_id, session_id=handle.id
                )
                assert (found is None) == (handle.user_id == USER)
        receipt = receipt.finish(aging.open())
        assert receipt.status == "pending"
        assert service.get_user_state(app_name=APP, user_id=USER) == {}
        receipt = EraseReceipt(APP, USER, "published", receipt.sessions)


def test_the_apps_own_state_stays_without_its_source(aging: AgingLake) -> None:
    """What the user's sessions set for the whole app is the app's: it stays, the ids do not."""
    handles = _peopled(aging)
    other = handles[f"chat-{OTHER}-0"]
    before = aging.load(other)
    assert before is not None
    assert before.state["app:both"] == len(USER)
    _erase(aging).finish(aging.open())
    after = aging.load(other)
    assert after is not None
    assert after.state == before.state


def test_an_append_after_it_finds_no_session(aging: AgingLake) -> None:
    """E2: what was acknowledged before is erased; later appends raise SessionNotFoundError."""
    from google.adk.errors.session_not_found_error import SessionNotFoundError

    handles = _peopled(aging)
    _erase(aging)
    with pytest.raises(SessionNotFoundError):
        aging.say(handles[f"chat-{USER}-0"], "too late")


def test_the_user_may_begin_again(aging: AgingLake) -> None:
    """Under the same id versions go on; the new session is whole, and no trace of the old one."""
    _peopled(aging)
    receipt = _erase(aging)
    again = aging.create(f"chat-{USER}-0", user_id=USER, state={"k": "new", "user:v": 1})
    aging.say(again, "hello again")
    compact(aging.open())
    receipt = receipt.finish(aging.open())
    assert (receipt.status, receipt.verify(aging.open())) == ("done", ())
    for _ in range(2):
        found = aging.load(again)
        assert found is not None
        assert texts(found.events) == ["hello again"]
        assert found.state["user:v"] == 1
        assert "user:u" not in found.state
        shown = aging.open().sql("select text from events where user_id = ?", [USER]).fetchall()
        assert shown == [("hello again",)]
        assert aging.ids(user_id=USER) == [f"chat-{USER}-0"]
        compact(aging.open())
    second = erase_user(aging.open(), APP, USER).finish(aging.open())
    assert second.status == "done"
    assert _mentions(aging.store, "hello again", USER) == []


@pytest.mark.parametrize("what", ["events/log", "state/entries"])
def test_what_lands_late_is_not_read_and_goes(aging: AgingLake, what: str) -> None:
    """E4, E5: an entry or commit in flight lands after the removal; the second look takes it."""
    _peopled(aging)
    old = {
        stored.key: aging.store.get(stored.key)
        for stored in aging.store.list(what)
        if f"user={USER}" in stored.key
    }
    assert old
    receipt = _erase(aging)
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
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == []


def test_a_stalled_rollup_is_not_read(aging: AgingLake) -> None:
    """E3: a rollup that a stalled writer puts after the removal counts for nobody, and goes."""
    handles = _peopled(aging, compactions=0)
    (key,) = aging.lake.sessions.find(f"chat-{USER}-0")
    late = LateStore(aging.store, Nth("put", times=9, holding="r.parquet"))
    stalled = aging.open(late)
    stalled.sessions.load(key)
    stalled.sessions.roll_up(key, force=True)
    receipt = _erase(aging)
    assert late.release() == [True]
    assert aging.load(handles[f"chat-{USER}-0"]) is None
    assert receipt.finish(aging.open()).status == "done"
    assert _mentions(aging.store, SECRET + "-" + USER, USER) == []


@pytest.mark.parametrize("moment", ["packs/", "runs/", "manifests/"])
def test_a_compaction_that_was_under_way_brings_nothing_back(aging: AgingLake, moment: str) -> None:
    """E1: a compaction that read before and publishes after the erase packs nothing of it."""
    _peopled(aging)
    before = _others(aging)
    receipts: list[EraseReceipt] = []
    picked = Nth("put", holding=moment)
    store = InterruptedStore(aging.store, picked, lambda: receipts.append(_erase(aging)))
    with suppress(ConflictError):  # its pack was named for deletion: it is to start over
        compact(aging.open(store))
    assert aging.ids(user_id=USER) == []
    assert receipts[0].finish(aging.open()).status == "done"
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert _others(aging) == before


def test_an_append_during_the_delete_is_erased_too(aging: AgingLake) -> None:
    """What is acknowledged while the sessions are being ended is before their end, or refused."""
    handles = _peopled(aging)
    session = handles[f"chat-{USER}-0"]
    picked = Nth("put", holding=f"session=chat-{USER}-0")
    store = InterruptedStore(aging.store, picked, lambda: aging.say(session, "acknowledged"))
    receipt = erase_user(aging.open(store), APP, USER)
    assert receipt.finish(aging.open()).status == "done"
    assert _mentions(aging.store, "acknowledged", USER) == []


def test_a_damaged_session_is_erased_as_well(aging: AgingLake) -> None:
    """What cannot be read can be removed: the session is ended unread."""
    handles = _peopled(aging, compactions=0)
    key = next(
        stored.key for stored in aging.store.list("events/log") if f"chat-{USER}-0" in stored.key
    )
    aging.store.delete(key)
    aging.store.put_if_absent(key, b"PAR1" + f"{SECRET}-{USER}".encode())
    receipt = _erase(aging).finish(aging.open())
    assert receipt.status == "done"
    assert _mentions_raw(aging.store, f"{SECRET}-{USER}") == []
    assert aging.load(handles[f"chat-{USER}-0"]) is None


def _mentions_raw(store: ObjectStore, word: str) -> list[str]:
    return [s.key for s in store.list("") if word.encode() in store.get(s.key)]


def test_sessions_that_were_deleted_before_are_erased_too(aging: AgingLake) -> None:
    """Deleted and pruned content that still lies in packs goes with the user."""
    handles = _peopled(aging)
    compact(aging.lake)
    gone = handles[f"chat-{USER}-1"]
    aging.service.delete_session(app_name=APP, user_id=USER, session_id=gone.id)
    compact(aging.lake)
    aging.pass_days(100)
    prune_events(aging.lake)
    assert _erase(aging).finish(aging.open()).status == "done"
    assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == []


@pytest.mark.parametrize("kind", ["put", "get", "get_range", "list", "delete"])
def test_a_crash_at_any_request_is_mended_by_running_again(kind: Kind) -> None:
    """Whichever request ends the job, running it again erases the user, and nobody else."""
    for nth in range(1, 200, 3 if kind in ("get", "get_range") else 1):
        aging = AgingLake(MemoryStore(clock=ManualClock()))
        _peopled(aging, compactions=1)
        before = _others(aging)
        failing = Nth(kind, nth)
        with suppress(StorageError):
            erase_user(aging.open(FailingStore(aging.store, failing)), APP, USER)
        assert _others(aging) == before
        receipt = _erase(aging).finish(aging.open())
        assert receipt.status == "done", f"{kind} {nth}"
        assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == [], f"{kind} {nth}"
        assert _others(aging) == before
        if failing.met < nth:
            return
    raise AssertionError("the loop is too short")


@pytest.mark.parametrize("kind", ["put", "get", "list", "delete"])
def test_a_crash_of_the_second_look_is_mended_by_another(kind: Kind) -> None:
    """Whichever request ends `finish`, calling it again is done, also where much landed late."""
    for nth in range(1, 200):
        aging = AgingLake(MemoryStore(clock=ManualClock()))
        _peopled(aging, compactions=1)
        before = _others(aging)
        old = {s.key: aging.store.get(s.key) for s in aging.store.list("") if USER in s.key}
        packs = {s.key: aging.store.get(s.key) for s in aging.store.list("packs/")}
        receipt = _erase(aging)
        for key, body in {**old, **packs}.items():
            with suppress(AlreadyExistsError):
                aging.store.put_if_absent(key, body)
        failing = Nth(kind, nth)
        with suppress(StorageError):
            receipt = receipt.finish(aging.open(FailingStore(aging.store, failing)))
        receipt = receipt.finish(aging.open())
        assert receipt.status == "done", f"{kind} {nth}"
        assert _mentions(aging.store, f"{SECRET}-{USER}", USER) == [], f"{kind} {nth}"
        assert _others(aging) == before
        if failing.met < nth:
            return
    raise AssertionError("the loop is too short")


def test_deletes_that_fail_are_told_and_done_later(aging: AgingLake) -> None:
    """R074: what a store refuses to delete is among what is left, and goes with the next look."""
    _peopled(aging)
    failing = FailingStore(aging.store, Nth("delete", nth=2, times=3))
    receipt = erase_user(aging.open(failing), APP, USER)
    assert len(receipt.left) == 3
    assert receipt.verify(aging.open()) == receipt.left
    assert not set(receipt.left) & set(receipt.removed)
    last = receipt.finish(aging.open())
    assert (last.status, last.left) == ("done", ())
    assert set(receipt.left) <= set(last.removed)


@pytest.mark.parametrize("known", ["fresh", "packed"])
def test_long_ids_of_which_keys_hold_a_digest(aging: AgingLake, known: str) -> None:
    """Ids that are too long for a key are found by what the columns say."""
    user, session = "L" * 300, "s" * 300
    aging.say(aging.create(session, user_id=user, state={"user:u": SECRET}), SECRET)
    aging.say(aging.create("s1", user_id=OTHER), "mine")
    if known == "packed":
        compact(aging.lake)
    warm = aging.open()
    assert len(warm.sql("select * from events").fetchall()) == 2
    before = _others(aging)
    old = {
        s.key: aging.store.get(s.key) for s in aging.store.list("events/log/app=travel/user=%4c")
    }
    receipt = erase_user(aging.open(), APP, user)
    for lake in (warm, aging.open()):
        assert lake.sql("select text from events").fetchall() == [("mine",)]
    for key, body in old.items():
        aging.store.put_if_absent(key, body)
    for lake in (warm, aging.open()):
        assert lake.sql("select text from events").fetchall() == [("mine",)]
        assert aging.service_of(lake).list_sessions(app_name=APP, user_id=user).sessions == []
    assert receipt.finish(aging.open()).status == "done"
    assert _mentions(aging.store, SECRET, user, "%4c%4c", "ssss") == []
    assert _others(aging) == before
    again = aging.create(session, user_id=user)
    assert aging.load(again) is not None
    assert list(aging.ids(user_id=user)) == [session]


def test_strays_stay(aging: AgingLake) -> None:
    """R070: what is no part of the format is nobody's to delete."""
    _peopled(aging)
    stray = f"events/log/app={APP}/user={USER}/README.txt"
    aging.store.put_if_absent(stray, b"not ours")
    assert _erase(aging).finish(aging.open()).status == "done"
    assert aging.store.get(stray) == b"not ours"


def test_another_user_that_was_erased_is_no_part_of_it(aging: AgingLake) -> None:
    """Each receipt speaks of its own user, whatever is still left of others."""
    _peopled(aging)
    late = {s.key: aging.store.get(s.key) for s in aging.store.list("events/") if OTHER in s.key}
    erase_user(aging.open(), APP, OTHER)
    for key, body in late.items():
        aging.store.put_if_absent(key, body)
    receipt = _erase(aging)
    assert receipt.verify(aging.open()) == ()
    assert receipt.finish(aging.open()).status == "done"


def test_it_waits_on_its_own_clock(aging: AgingLake) -> None:
    """Twice the view age limit before the removal; the rest of the grace before the second look."""
    _peopled(aging)
    limits = aging.lake.environment.limits
    receipt = _erase(aging)
    assert aging.clock.slept == [2 * limits.view_age]
    assert receipt.finish(aging.open(), wait=False) == receipt
    aging.clock.advance(1_000)
    receipt.finish(aging.open())
    assert aging.clock.slept[1] == pytest.approx(limits.grace - 1_000)


def test_a_user_of_whom_nothing_is_there(aging: AgingLake) -> None:
    """Erasing nobody does nothing, and is done after the grace."""
    _peopled(aging)
    receipt = erase_user(aging.open(), APP, "nobody")
    assert (receipt.sessions, receipt.removed, receipt.left) == ((), (), ())
    assert receipt.finish(aging.open()).status == "done"
    assert erase_user(aging.open(), "no app", USER).removed == ()


def test_arguments_that_make_no_sense(aging: AgingLake) -> None:
    """Ids are texts that are not empty, and a read-only lake is refused."""
    wrong: list[Any] = ["", None, 7]
    for user_id in wrong:
        with pytest.raises(InputError):
            erase_user(aging.lake, APP, user_id)
    with pytest.raises(ReadOnlyError):
        erase_user(aging.open(read_only=True), APP, USER)


def test_the_receipt_says_what_it_cannot_see(aging: AgingLake) -> None:
    """It names what is outside of the lake, and its repr shows nobody's name."""
    _peopled(aging)
    receipt = _erase(aging)
    assert any("versioning" in each for each in receipt.not_seen)
    assert any("backups" in each for each in receipt.not_seen)
    assert USER not in repr(receipt)
    assert pa.array([row.digest for row in receipt.sessions]).null_count == 0
