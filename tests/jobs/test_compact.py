"""Compaction changes no answer, at any instant."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events.event import Event

from lakestore import Lake, LakeSessionService
from lakestore.errors import InputError
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.log.keys import STATE_ENTRIES, Scope, SessionKey
from lakestore.storage import ObjectStore
from tests.support.answers import answers
from tests.support.archives import (
    APP,
    ODD_USERS,
    Busy,
    Site,
    delete_packed,
    event,
    keys_of,
    newest,
)
from tests.support.faulty_store import InterruptedStore, Nth

STEPS = 60


def everything(lake: Lake) -> dict[object, Any]:
    """Return all answers of the lake."""
    return answers(lake, APP, ODD_USERS)


@pytest.mark.parametrize("pack_bytes", [128 * 2**20, 20_000], ids=["one pack", "small packs"])
def test_no_answer_changes(site: Site, pack_bytes: int) -> None:
    """Before, after, and when all that is packed is gone from logs and entries; round by round."""
    busy = Busy(site.lake())
    for _ in range(3):
        busy.work(STEPS)
        before = everything(site.lake())
        compact(busy.lake, pack_bytes=pack_bytes)
        assert everything(site.lake()) == before
        assert everything(busy.lake) == before, "the host that has compacted"
        assert delete_packed(busy.lake, site.store)
        assert everything(site.lake()) == before
        assert everything(site.lake(read_only=True)) == before
        assert everything(busy.lake) == before


def test_readers_that_know_a_lot_already(site: Site) -> None:
    """A host with caches and a catalog from before answers the same after."""
    busy, reader = Busy(site.lake()), site.lake()
    for _ in range(3):
        busy.work(STEPS)
        before = everything(reader)
        compact(site.lake())
        assert everything(reader) == before
        busy.work(STEPS)
        assert everything(reader) == everything(site.lake())


def test_writers_go_on(site: Site) -> None:
    """A session that was packed and swept is appended to, deleted and created again as ever."""
    busy, other = Busy(site.lake(), seed=2), site.lake()
    for _ in range(4):
        busy.work(STEPS)
        compact(other)
        site.clock.advance(400)  # what writers know is confirmed by a load, of a log that is swept
        delete_packed(other, site.store)
    busy.work(STEPS)
    assert everything(site.lake()) == everything(busy.lake)


def test_rollups_are_packed_like_commits(site: Site) -> None:
    """Whether rows come from commits or from a rollup, nobody can tell later."""
    busy = Busy(site.lake())
    for turn in range(3):
        busy.work(STEPS)
        for key in list(keys_of(busy.sessions))[turn::2]:
            busy.lake.sessions.roll_up(key, force=True)
        before = everything(site.lake())
        compact(busy.lake)
        delete_packed(busy.lake, site.store)
        assert everything(site.lake()) == before


def test_what_is_new_is_all_that_is_packed(site: Site) -> None:
    """A second compaction does nothing, and one after an append packs that event alone."""
    busy = Busy(site.lake())
    busy.work(STEPS)
    first = compact(busy.lake)
    assert first.events > 0
    number = newest(busy.lake).number
    again = compact(site.lake())
    assert (again.sessions, again.events, newest(busy.lake).number) == (0, 0, number)
    session = next(iter(busy.sessions.values()))
    busy.service.append_event(session, event(9_999))
    assert (compact(site.lake()).sessions, newest(busy.lake).number) == (1, number + 1)


def test_a_rollup_from_before_brings_nothing_back(site: Site) -> None:
    """What stands in the log at or below the packed version is never read again (P2)."""
    busy = Busy(site.lake())
    busy.work(STEPS)
    logs = {stored.key: site.store.get(stored.key) for stored in site.store.list("events/")}
    compact(busy.lake)
    delete_packed(busy.lake, site.store)
    busy.work(STEPS)
    before = everything(site.lake())
    for key, body in logs.items():  # as slow writers and sweeps that failed half-way leave them
        if not any(True for _ in site.store.list(key)):
            site.store.put_if_absent(key, body)
    assert everything(site.lake()) == before
    compact(site.lake())
    assert everything(site.lake()) == before


def test_state_whose_entries_are_missing_is_packed(site: Site) -> None:
    """A commit is the truth: what its writer did not live to put as entries is in the runs."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name=APP, user_id="ana", session_id="s")
    service.append_event(session, event(1, **{"user:k": 1, "app:k": 2}))
    service.append_event(session, event(2))
    for stored in list(site.store.list(STATE_ENTRIES)):
        site.store.delete(stored.key)
    compact(site.lake())
    shared = site.lake().sessions.shared.read([Scope(APP, "ana"), Scope(APP, None)])
    assert [fold.values() for fold in shared.values()] == [{"k": 1}, {"k": 2}]


def test_a_session_that_moves_while_it_is_packed(site: Site) -> None:
    """Appended, deleted or made anew between packing and publishing: nothing is lost or shown."""
    busy = Busy(site.lake())
    busy.work(STEPS)
    first, second, third = list(busy.sessions.values())[:3]

    def meanwhile() -> None:
        busy.service.append_event(first, event(5_000, k=1))
        for session in (second, third):
            busy.service.delete_session(
                app_name=APP, user_id=session.user_id, session_id=session.id
            )
        busy.service.create_session(
            app_name=APP, user_id=third.user_id, session_id=third.id, state={"again": 1}
        )

    store = InterruptedStore(site.store, Nth("put", holding="packs/"), meanwhile, when="after")
    compact(site.lake(store))
    after = everything(site.lake())
    assert after[first.user_id, first.id][0][0]["events"][-1]["id"] == "e5000"
    assert (second.user_id, second.id) not in after
    assert after[third.user_id, third.id][0][0]["events"] == []
    compact(site.lake())
    delete_packed(site.lake(), site.store)
    assert everything(site.lake()) == after


class Sweeping(InterruptedStore):
    """Compacts, packs again and deletes all that is needless before the picked request."""

    def __init__(
        self, inner: ObjectStore, picked: Nth, site: Site, busy: Busy, seconds: float
    ) -> None:
        def sweep() -> None:
            for _ in range(2):
                for session in busy.sessions.values():
                    number = int(session.last_update_time * 10) + 10_000
                    busy.service.append_event(session, Event(id=f"x{number}", author="agent"))
                compact(busy.lake, pack_bytes=2**20)
            site.clock.advance(seconds)
            delete_packed(busy.lake, site.store)
            for pack in newest(busy.lake).table(EVENTS.name).packs:
                assert pack.rows

        super().__init__(inner, picked, sweep)


@pytest.mark.parametrize("holding", ["runs/", "packs/"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("seconds", [0.0, 4_000.0], ids=["too early", "in time"])
def test_what_is_swept_while_it_is_read(site: Site, holding: str, nth: int, seconds: float) -> None:
    """A reader that meets an object that is gone begins again with the newest manifest.

    Also when it was swept before its time, for which somebody has vouched.
    """
    busy = Busy(site.lake(), users=("ana", "ben"))
    for _ in range(9):
        busy.work(20)
        compact(busy.lake, pack_bytes=2**20)
    picked = Nth("get_range", nth, holding=holding)
    reader = site.lake(Sweeping(site.store, picked, site, busy, seconds))
    session = next(iter(busy.sessions.values()))
    known = len(session.events)
    found = LakeSessionService(reader).sync.get_session(
        app_name=APP, user_id=session.user_id, session_id=session.id
    )
    assert found is not None
    shown, stored = ([each.id for each in one.events] for one in (found, session))
    assert shown == stored[: len(shown)]
    assert len(shown) >= (len(stored) if seconds else known)
    if seconds:
        assert answers(reader, APP, busy.users) == answers(site.lake(), APP, busy.users)


def test_sessions_of_a_long_id_alone(site: Site) -> None:
    """Where only digests are in the keys, the ids come from the rows."""
    app, user = "A" * 300, "ü" * 150
    lake = site.lake()
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name=app, user_id=user, session_id="i" * 400)
    service.append_event(session, event(1, **{"user:k": 1}))
    before = answers(site.lake(), app, [user])
    assert compact(lake).sessions == 1
    delete_packed(lake, site.store, app)
    assert answers(site.lake(), app, [user]) == before
    assert site.lake().sessions.find("i" * 400) == [SessionKey(app, user, "i" * 400)]
    assert compact(site.lake()).sessions == 0


def test_a_read_only_lake_is_not_compacted(site: Site) -> None:
    """It says so, and writes nothing."""
    site.lake()
    with pytest.raises(InputError, match="read_only"):
        compact(site.lake(read_only=True))


@pytest.mark.parametrize("given", [{"pack_bytes": 0}, {"slice_commits": 0}, {"app_name": ""}])
def test_odd_arguments(site: Site, given: dict[str, Any]) -> None:
    """What makes no sense is an InputError."""
    with pytest.raises(InputError):
        compact(site.lake(), **given)
