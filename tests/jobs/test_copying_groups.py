"""Packs whose sessions do not interleave are merged by copying their row groups."""

from __future__ import annotations

import logging

import pytest

from lakestore import LakeSessionService
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.jobs.changes import Publisher
from lakestore.jobs.repacking import RepackTask
from lakestore.lake import Lake
from lakestore.log.keys import pack_key
from lakestore.tables.groups import group_places
from tests.support.answers import answers
from tests.support.archives import APP, Site, delete_packed, event, newest

PACK_BYTES = 128 * 2**20
USERS = ("ana", "ben", "cem", "dan")


def packed(site: Site, events: int) -> tuple[Lake, list[str]]:
    """Return a lake with a pack a user, each of so many events of one session, and their ids."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(events)])
        compact(lake)
    return lake, [pack.id for pack in newest(lake).table(EVENTS.name).packs]


def groups(site: Site, pack: str, size: int, footer: int) -> list[bytes]:
    """Return the row groups of a pack, each with its footer."""
    body = site.store.get(pack_key(APP, EVENTS.name, pack))
    return [body[at : at + length] for at, length in group_places(body[size - footer :], size)]


@pytest.mark.parametrize(("events", "copied"), [(1_500, 4), (300, 0)], ids=["large", "small"])
def test_large_groups_are_copied(site: Site, events: int, copied: int) -> None:
    """Byte for byte, if they are large, and no answer changes."""
    lake, packs = packed(site, events)
    there = {pack.id: pack for pack in newest(lake).table(EVENTS.name).packs}
    before = answers(site.lake(), APP, USERS)
    old = [one for it in packs for one in groups(site, it, there[it].size, there[it].footer)]
    (changes,) = RepackTask(APP, tuple(packs), PACK_BYTES).run(lake)
    assert Publisher(lake.environment, lake.sessions.archive, APP).publish(changes)
    (pack,) = newest(lake).table(EVENTS.name).packs
    assert (pack.dead, pack.rows) == (0, 4 * (events + 1))
    new = groups(site, pack.id, pack.size, pack.footer)
    assert len(set(new) & set(old)) == copied
    delete_packed(lake, site.store)
    assert answers(site.lake(), APP, USERS) == before


def test_groups_with_dead_rows_are_not_copied(site: Site) -> None:
    """What does not count any more stays behind."""
    lake, packs = packed(site, 1_500)
    LakeSessionService(lake).sync.delete_session(app_name=APP, user_id="ben", session_id="s")
    compact(lake)
    before = answers(site.lake(), APP, USERS)
    (changes,) = RepackTask(APP, tuple(packs), PACK_BYTES).run(lake)
    assert changes.packs[0].rows == 3 * 1_501
    assert Publisher(lake.environment, lake.sessions.archive, APP).publish(changes)
    delete_packed(lake, site.store)
    assert answers(site.lake(), APP, USERS) == before


def test_damage_is_not_copied(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A pack with a changed byte is found out, though none of its rows was decoded."""
    lake, packs = packed(site, 1_500)
    key = pack_key(APP, EVENTS.name, packs[-1])
    body = bytearray(site.store.get(key))
    body[5_000] ^= 1
    site.store.delete(key)
    site.store.put_if_absent(key, bytes(body))
    with caplog.at_level(logging.ERROR):
        assert RepackTask(APP, tuple(packs), PACK_BYTES).run(lake) == []
    assert [record for record in caplog.records if key in record.getMessage()]
