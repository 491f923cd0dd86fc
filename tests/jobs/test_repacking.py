"""Packs are packed again when they are small or half dead: in proportion to what is new."""

from __future__ import annotations

import logging

import pytest

from lakestore import LakeSessionService
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.jobs.changes import Publisher
from lakestore.jobs.repacking import RepackTask, plan_repacks
from lakestore.log.keys import SessionKey, pack_key
from lakestore.log.manifests import Manifest, StoredFile, TableFiles
from tests.support.answers import answers
from tests.support.archives import APP, Busy, Site, delete_packed, event, newest
from tests.support.faulty_store import InterruptedStore, Nth

PACK_BYTES = 128 * 2**20
KB = 1024


def manifest(*packs: tuple[int, float]) -> Manifest:
    """Return a manifest with packs of such sizes, of which so much is dead."""
    files = tuple(
        StoredFile(f"p{number}", size, 100, 1_000, "", dead=int(1_000 * dead))
        for number, (size, dead) in enumerate(packs)
    )
    return Manifest(APP, 1, "aa", tables={EVENTS.name: TableFiles((), files)})


def planned(*packs: tuple[int, float]) -> list[tuple[str, ...]]:
    """Return the packs of each task."""
    return [task.packs for task in plan_repacks(manifest(*packs), PACK_BYTES)]


class TestPlan:
    """Which packs are worth it."""

    def test_few_small_ones_stay(self) -> None:
        """Seven of a size are left alone, and so are many of different sizes."""
        assert planned(*[(90 * KB, 0.0)] * 7) == []
        assert planned(*[(8**n, 0.0) for n in range(3, 9)] * 7) == []

    def test_eight_of_a_size_become_one(self) -> None:
        """Those of about that size, and no other."""
        small = [(90 * KB, 0.1)] * 8
        (chosen,) = planned((70_000 * KB, 0.0), *small, (9_000 * KB, 0.0))
        assert chosen == tuple(f"p{number}" for number in range(1, 9))

    def test_large_ones_stay(self) -> None:
        """However many there are."""
        assert planned(*[(PACK_BYTES // 4, 0.0)] * 50) == []

    @pytest.mark.parametrize(("dead", "chosen"), [(0.5, []), (0.501, [("p0",)]), (0.9, [("p0",)])])
    def test_what_is_mostly_dead(self, dead: float, chosen: list[tuple[str, ...]]) -> None:
        """More than half, whatever the size."""
        assert planned((PACK_BYTES, dead)) == chosen
        assert planned((KB, dead)) == chosen

    def test_the_work_is_in_proportion(self) -> None:
        """Each byte is written again as often as packs grow eight times, not at each compaction."""
        packs: list[int] = []
        written = 0
        compactions = 2_000
        for _ in range(compactions):
            packs.append(20 * KB)
            while chosen := planned(*[(size, 0.0) for size in packs]):
                for task in chosen:
                    places = [int(name[1:]) for name in task]
                    merged = sum(packs[place] for place in places)
                    packs = [s for place, s in enumerate(packs) if place not in places]
                    packs.append(merged)
                    written += merged
        assert written / (compactions * 20 * KB) < 5
        assert len(packs) < 8 * 5


def test_small_packs_become_one(site: Site) -> None:
    """No answer changes, nothing dead is left, and a session's rows are one segment again."""
    busy = Busy(site.lake())
    for _ in range(7):
        busy.work(30)
        compact(busy.lake)
    busy.work(30)
    before = answers(site.lake(), APP, busy.users)
    report = compact(busy.lake)
    assert answers(site.lake(), APP, busy.users) == before
    assert report.repacked_bytes > 0
    (pack,) = newest(busy.lake).table(EVENTS.name).packs
    assert pack.dead == 0
    for packed in busy.lake.sessions.archive.sessions(newest(busy.lake)):
        assert len(packed.row.segments) == packed.row.alive
    assert delete_packed(busy.lake, site.store)
    assert [stored.size for stored in site.store.list("packs/")] == [pack.size]
    assert answers(site.lake(), APP, busy.users) == before


def test_a_pack_that_is_mostly_dead_is_written_again(site: Site) -> None:
    """Of deleted sessions nothing is left but that they were."""
    busy = Busy(site.lake(), users=("ana", "ben"))
    busy.work(150)
    compact(busy.lake)
    (pack,) = newest(busy.lake).table(EVENTS.name).packs
    for user, session_id in list(busy.sessions)[1:]:
        busy.service.delete_session(app_name=APP, user_id=user, session_id=session_id)
    before = answers(site.lake(), APP, busy.users)
    compact(busy.lake)
    (left,) = newest(busy.lake).table(EVENTS.name).packs
    assert (left.id != pack.id, left.dead) == (True, 0)
    assert left.rows < pack.rows / 2
    delete_packed(busy.lake, site.store)
    assert answers(site.lake(), APP, busy.users) == before


def test_what_moves_while_it_is_packed_again(site: Site) -> None:
    """A session that another job packs meanwhile stays as that one left it."""
    busy = Busy(site.lake())
    for _ in range(8):
        busy.work(30)
        compact(busy.lake, pack_bytes=1)  # nothing is small then
    task = RepackTask(
        APP, tuple(pack.id for pack in newest(busy.lake).table(EVENTS.name).packs), PACK_BYTES
    )

    def meanwhile() -> None:
        busy.work(40)
        compact(site.lake(), pack_bytes=1)

    store = InterruptedStore(site.store, Nth("put", holding="packs/"), meanwhile, when="after")
    host = site.lake(store)
    (changes,) = task.run(host)
    before = answers(site.lake(), APP, busy.users)
    assert Publisher(host.environment, host.sessions.archive, APP).publish(changes)
    assert answers(site.lake(), APP, busy.users) == before
    delete_packed(busy.lake, site.store)
    assert answers(site.lake(), APP, busy.users) == before


def test_damage_stops_nobody(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Packs with one that is damaged stay as they are, which is logged; the rest goes on."""
    busy = Busy(site.lake(), users=("ana",))
    for _ in range(7):
        busy.work(30)
        compact(busy.lake)
    key = pack_key(APP, EVENTS.name, newest(busy.lake).table(EVENTS.name).packs[0].id)
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[:-200])
    busy.work(30)
    with caplog.at_level(logging.ERROR):
        report = compact(site.lake())
    assert report.events > 0
    assert report.repacked_bytes == 0
    assert [record.getMessage() for record in caplog.records if key in record.getMessage()]
    assert compact(site.lake()).events == 0


def test_a_long_session_is_read_from_its_end(site: Site) -> None:
    """Its last events are one row group of many."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name=APP, user_id="ana", session_id="long")
    for first in range(0, 9_000, 1_000):
        service.append_events(session, [event(number) for number in range(first, first + 1_000)])
    compact(lake)
    delete_packed(lake, site.store)
    reader = site.lake()
    key = SessionKey(APP, "ana", "long")
    packed = reader.sessions.archive.session(newest(reader), key)
    assert packed is not None
    assert len(packed.row.segments) > 1
    read = reader.metrics.bytes_read
    rows = reader.sessions.archive.rows(packed, last=20)
    assert [row.ordinal for row in rows] == list(range(980, 1_000))
    assert reader.metrics.bytes_read - read <= packed.row.segments[-1].length
