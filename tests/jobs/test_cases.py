"""Cases from other people's bug reports that meet jobs, each with its input."""

from __future__ import annotations

from threading import Event, Thread

from lakestore import Lake
from lakestore.errors import StorageError
from lakestore.jobs import check, compact, prune_events, sweep
from lakestore.log.keys import SessionKey
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake, texts
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FailingStore, Nth
from tests.support.histories import said, several
from tests.support.sites import APP, Site, Work, packed_site

COUNT = "select count(*) from events"


def talk(lake: Lake, sessions: int, events: int) -> None:
    """Store that many one-event commits in each of some sessions."""
    for number in range(sessions):
        key = SessionKey(APP, f"u{number}", "s")
        marker = lake.sessions.create(key, {}, generated=True).marker
        for draft in several(events):
            marker = lake.sessions.append(key, marker, [draft]).marker


def requests_of(site: Site) -> int:
    """Return how many requests a new process makes for a count, a list and a read."""
    with site.open(read_only=True) as lake:
        assert lake.sql(COUNT).fetchall() == [(400,)]
        assert len(list(lake.sessions.read_all(APP, None))) == 10
        assert len(lake.user_events(APP, "u3")) == 40
        return sum(lake.metrics.requests.values())


def test_many_small_parts_become_few_requests() -> None:
    """R019: compacted, the same answers take at least twenty times fewer requests."""
    site = Site()
    talk(site.lake, sessions=10, events=40)
    before = requests_of(site)
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    assert requests_of(site) * 20 <= before


def test_a_connection_goes_on_through_compactions() -> None:
    """R067: nothing is written in place, so one connection is right after each compaction."""
    site = Site()
    work = Work(site.lake)
    with site.open() as reader:
        connection = reader.connect()
        for _ in range(4):
            work.some(25)
            reader.refresh(connection)
            expected = connection.sql(COUNT).fetchall()
            compact(site.lake, pack_bytes=2_000)
            assert connection.sql(COUNT).fetchall() == expected
            reader.refresh(connection)
            assert connection.sql(COUNT).fetchall() == expected
            assert reader.sql(COUNT).fetchall() == expected


def test_a_count_never_moves_while_others_compact() -> None:
    """R086: whoever counts in a loop while packs are published sees each row once."""
    site = Site()
    talk(site.lake, sessions=6, events=20)
    over, seen = Event(), set[int]()

    def count() -> None:
        while not over.is_set():
            with site.open(read_only=True) as lake:
                seen.update(number for (number,) in lake.sql(COUNT).fetchall())
                seen.add(sum(len(lake.user_events(APP, f"u{n}")) for n in range(6)))

    reader = Thread(target=count)
    reader.start()
    try:
        for size in (1_000, 3_000, 2**20):
            with site.open() as lake:
                compact(lake, pack_bytes=size, slice_commits=10)
    finally:
        over.set()
        reader.join()
    assert seen == {120}


def test_what_crashed_jobs_left_goes_once_and_all() -> None:
    """R088: after ten crashes a dry run tells what a sweep removes, and a second finds nothing."""
    site = packed_site()
    for number in range(10):
        Work(site.lake, seed=10 + number).some(10)
        crash = FailingStore(site.store, Nth("put", holding="manifests/"))
        with Lake(crash, clock=site.clock) as lake:
            try:
                compact(lake)
            except StorageError:
                continue
        raise AssertionError("the compaction was to crash")
    for grace in (None, 0):
        site.pass_grace()
        before = site.answers()
        would = sweep(site.lake, grace=grace, dry_run=True)
        kept = set(site.stored())
        done = sweep(site.lake, grace=grace)
        assert {**done.deleted} == {**would.deleted}
        assert done.objects > 0
        assert len(kept - set(site.stored())) == done.objects
        assert sweep(site.lake, grace=grace).objects == 0
        assert site.answers() == before
    assert check(site.lake).findings == ()


def test_a_session_of_200_days_keeps_the_last_90() -> None:
    """R091: what is younger stays, in order and with all of the state, and the session goes on."""
    clock = ManualClock()
    aging = AgingLake(MemoryStore(clock=clock), clock)
    session = aging.create("long", state={"begun": True})
    for day in range(0, 201, 10):
        aging.say(session, f"day {day}", delta={"day": day, f"d{day}": 1})
        aging.pass_days(10)
    assert prune_events(aging.open(), older_than_days=90)["deleted_count"] == 13
    found = aging.load(session)
    assert found is not None
    assert texts(found.events) == [f"day {day}" for day in range(130, 201, 10)]
    assert found.state == session.state
    assert len(found.state) == 23
    aging.say(session, "today", delta={"day": 210})
    found = aging.load(session)
    assert found is not None
    assert texts(found.events)[-1] == "today"
    assert found.state["day"] == 210


def test_a_writer_that_pauses_before_its_commit_loses_nothing() -> None:
    """R007: what was uploaded and not yet named survives compaction and sweeps in between."""
    site = packed_site()
    key = SessionKey(APP, "ana", "slow")
    marker = site.lake.sessions.create(key, {"user:a": 1}, generated=True).marker
    with site.open() as other:
        compact(other)
        sweep(other)
        site.lake.sessions.append(key, marker, [said("late", {"user:a": 2})])
        compact(other)
        site.pass_grace()
        sweep(other)
    with site.open(read_only=True) as lake:
        view = lake.sessions.load(key)
        assert view.version == 2
        assert len(lake.user_events(APP, "ana", session_ids=["slow"])) == 1
