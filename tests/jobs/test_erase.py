"""What is left of a user who was erased, and what others see of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakestore.errors import InputError, ReadOnlyError
from lakestore.jobs import EraseReceipt, Progress, compact, erase_user, prune_events
from lakestore.storage import ObjectStore
from tests.support.aging import APP, AgingLake, texts
from tests.support.erasures import OTHER, SECRET, USER, erase, mentions, others_answers, peopled


def test_nothing_of_the_user_is_left(aging: AgingLake) -> None:
    """No byte of any object under the root holds an id or a word of the user; others keep all."""
    peopled(aging)
    before = others_answers(aging)
    assert mentions(aging.store, f"{SECRET}-{USER}", USER)
    receipt = erase(aging)
    assert receipt.pending
    receipt = receipt.finish(aging.open())
    assert (receipt.status, receipt.left) == ("done", ())
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert receipt.verify(aging.open(read_only=True)) == ()
    assert receipt.removed
    assert len(receipt.sessions) == 2
    assert others_answers(aging) == before
    assert receipt.finish(aging.open()) is receipt


@pytest.mark.parametrize("compactions", [0, 1])
def test_also_what_was_never_packed_or_rolled_up(aging: AgingLake, compactions: int) -> None:
    """Commits, rollups and folds of entries go as packs and runs do."""
    handles = peopled(aging, compactions=compactions)
    keys = [key for each in handles for key in aging.lake.sessions.find(each)]
    for key in keys:
        aging.lake.sessions.load(key)
        aging.lake.sessions.roll_up(key, force=True)
        aging.lake.sessions.shared.fold_entries(_scope(key.user_id))
    aging.lake.sessions.shared.fold_entries(_scope(None))
    before = others_answers(aging)
    receipt = erase(aging).finish(aging.open())
    assert receipt.status == "done"
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []
    assert others_answers(aging) == before


def _scope(user_id: str | None) -> Any:
    from lakestore.log.keys import Scope

    return Scope(APP, user_id)


def test_readers_see_nothing_from_the_moment_it_is_published(aging: AgingLake) -> None:
    """E1: loads, listings, state and SQL of all processes show nothing, warm or cold."""
    handles = peopled(aging)
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
    handles = peopled(aging)
    other = handles[f"chat-{OTHER}-0"]
    before = aging.load(other)
    assert before is not None
    assert before.state["app:both"] == len(USER)
    erase(aging).finish(aging.open())
    after = aging.load(other)
    assert after is not None
    assert after.state == before.state


def test_an_append_after_it_finds_no_session(aging: AgingLake) -> None:
    """E2: what was acknowledged before is erased; later appends raise SessionNotFoundError."""
    from google.adk.errors.session_not_found_error import SessionNotFoundError

    handles = peopled(aging)
    erase(aging)
    with pytest.raises(SessionNotFoundError):
        aging.say(handles[f"chat-{USER}-0"], "too late")


def test_the_user_may_begin_again(aging: AgingLake) -> None:
    """Under the same id versions go on; the new session is whole, and no trace of the old one."""
    peopled(aging)
    receipt = erase(aging)
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
    assert mentions(aging.store, "hello again", USER) == []


def test_a_damaged_session_is_erased_as_well(aging: AgingLake) -> None:
    """What cannot be read can be removed: the session is ended unread."""
    handles = peopled(aging, compactions=0)
    key = next(
        stored.key for stored in aging.store.list("events/log") if f"chat-{USER}-0" in stored.key
    )
    aging.store.delete(key)
    aging.store.put_if_absent(key, b"PAR1" + f"{SECRET}-{USER}".encode())
    receipt = erase(aging).finish(aging.open())
    assert receipt.status == "done"
    assert _mentions_raw(aging.store, f"{SECRET}-{USER}") == []
    assert aging.load(handles[f"chat-{USER}-0"]) is None


def _mentions_raw(store: ObjectStore, word: str) -> list[str]:
    return [s.key for s in store.list("") if word.encode() in store.get(s.key)]


def test_sessions_that_were_deleted_before_are_erased_too(aging: AgingLake) -> None:
    """Deleted and pruned content that still lies in packs goes with the user."""
    handles = peopled(aging)
    compact(aging.lake)
    gone = handles[f"chat-{USER}-1"]
    aging.service.delete_session(app_name=APP, user_id=USER, session_id=gone.id)
    compact(aging.lake)
    aging.pass_days(100)
    prune_events(aging.lake)
    assert erase(aging).finish(aging.open()).status == "done"
    assert mentions(aging.store, f"{SECRET}-{USER}", USER) == []


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
    before = others_answers(aging)
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
    assert mentions(aging.store, SECRET, user, "%4c%4c", "ssss") == []
    assert others_answers(aging) == before
    again = aging.create(session, user_id=user)
    assert aging.load(again) is not None
    assert list(aging.ids(user_id=user)) == [session]


def test_strays_stay(aging: AgingLake) -> None:
    """R070: what is no part of the format is nobody's to delete."""
    peopled(aging)
    stray = f"events/log/app={APP}/user={USER}/README.txt"
    aging.store.put_if_absent(stray, b"not ours")
    assert erase(aging).finish(aging.open()).status == "done"
    assert aging.store.get(stray) == b"not ours"


def test_another_user_that_was_erased_is_no_part_of_it(aging: AgingLake) -> None:
    """Each receipt speaks of its own user, whatever is still left of others."""
    peopled(aging)
    late = {s.key: aging.store.get(s.key) for s in aging.store.list("events/") if OTHER in s.key}
    erase_user(aging.open(), APP, OTHER)
    for key, body in late.items():
        aging.store.put_if_absent(key, body)
    receipt = erase(aging)
    assert receipt.verify(aging.open()) == ()
    assert receipt.finish(aging.open()).status == "done"


def test_it_waits_on_its_own_clock(aging: AgingLake) -> None:
    """Twice the view age limit before the removal; the rest of the grace before the second look."""
    peopled(aging)
    limits = aging.lake.environment.limits
    receipt = erase(aging)
    assert sum(aging.clock.slept) == pytest.approx(2 * limits.view_age)
    aging.clock.slept.clear()
    assert receipt.finish(aging.open(), wait=False) == receipt
    aging.clock.advance(1_000)
    receipt.finish(aging.open())
    waited = sum(aging.clock.slept) - 2 * limits.view_age
    assert waited == pytest.approx(limits.grace - 1_000)


def test_a_user_of_whom_nothing_is_there(aging: AgingLake) -> None:
    """Erasing nobody does nothing, and waits for nothing."""
    peopled(aging)
    for app, user in ((APP, "nobody"), ("no app", USER)):
        receipt = erase_user(aging.open(), app, user)
        assert receipt.is_empty
        assert receipt.status == "done"
    assert aging.clock.slept == []


def test_a_second_look_is_the_same_call(aging: AgingLake) -> None:
    """Of a user who was erased it is pending until the grace is over: more may land. Then done."""
    peopled(aging)
    limits = aging.lake.environment.limits
    first = erase(aging)
    assert not first.is_empty
    early = erase_user(aging.open(), APP, USER)
    assert early.is_empty
    assert early.pending
    aging.clock.advance(limits.grace)
    assert erase_user(aging.open(), APP, USER).status == "done"


def test_whoever_watches_sees_the_wait_go_by(aging: AgingLake) -> None:
    """Waits are counted in seconds: they are the longest part of it."""
    peopled(aging)
    told: list[Progress] = []
    erase_user(aging.open(), APP, USER, progress=told.append)
    waits = [it for it in told if it.unit == "second"]
    assert [it.done for it in waits] == list(range(600))
    assert {(it.doing, it.total) for it in waits} == {("waiting until readers have noticed", 600)}


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
    peopled(aging)
    receipt = erase(aging)
    assert any("versioning" in each for each in receipt.not_seen)
    assert any("backups" in each for each in receipt.not_seen)
    assert USER not in repr(receipt)
    assert pa.array([row.digest for row in receipt.sessions]).null_count == 0
