"""Rows of deleted sessions: when they go, and that nothing comes back from the dead by it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.clock import Clock
from lakestore.errors import AlreadyExistsError, StorageError
from lakestore.history.archive import EVENTS
from lakestore.history.view import SessionView
from lakestore.jobs import check, compact, sweep
from lakestore.log.keys import SessionKey, app_manifests, commit_key
from lakestore.tables.runs import SessionRow
from tests.support.clocks import SkewedClock
from tests.support.faulty_store import FailingStore, Kind, Nth, interrupting
from tests.support.histories import said
from tests.support.sites import APP, GRACE, LIMIT, Site

KEY = SessionKey(APP, "ana", "gone")
OTHER = SessionKey(APP, "ben", "alive")
DAY = 86_400.0


def row_of(site: Site, key: SessionKey = KEY) -> SessionRow | None:
    """Return what the newest runs say of a session."""
    with site.open(read_only=True) as lake:
        archive = lake.sessions.archive
        found = archive.session(archive.newest(app_manifests(APP)), key)
        return None if found is None else found.row


def begin(lake: Lake, key: SessionKey = KEY, events: int = 2) -> SessionView:
    """Begin a session with some events."""
    marker = lake.sessions.create(key, {"a": 1}, generated=False).marker
    for number in range(events):
        marker = lake.sessions.append(key, marker, [said(f"e{number}", {"n": number})]).marker
    return lake.sessions.load(key)


def swept(site: Site, days: float = 0.0) -> None:
    """Let time pass, and a new process sweep."""
    site.clock.advance(days * DAY + GRACE)
    with site.open() as lake:
        assert sweep(lake).failures == 0


def deleted_site(*, marked: bool = True) -> Site:
    """Return a lake with a living session, and a deleted one of which only the row is left."""
    site = Site()
    begin(site.lake, OTHER)
    begin(site.lake)
    site.lake.sessions.delete(KEY)
    compact(site.lake)
    if marked:
        swept(site)
        assert site.stored("=gone/") == []
        row = row_of(site)
        assert row is not None
        assert row.emptied_at is not None
    return site


def lives(site: Site, key: SessionKey = KEY) -> SessionView:
    """Return the session as a new process loads it."""
    with site.open(read_only=True) as lake:
        return lake.sessions.load(key)


def test_the_row_goes_30_days_after_its_log_was_seen_empty() -> None:
    """The row of a deleted session stays 30 days after its log was seen empty, and goes then."""
    site = deleted_site()
    before = site.answers()
    swept(site, 29)
    assert row_of(site) is not None
    swept(site, 1)
    assert row_of(site) is None
    assert row_of(site, OTHER) is not None
    assert site.answers() == before
    assert check(site.lake).healthy


def test_the_days_count_from_the_emptiness_and_not_from_the_deletion() -> None:
    """However long ago a session was deleted, its row stays while there is anything of its log."""
    site = deleted_site(marked=False)
    site.clock.advance(90 * DAY)
    with site.open() as lake:
        sweep(lake, dry_run=True)
    assert site.stored("=gone/")
    row = row_of(site)
    assert row is not None
    assert row.emptied_at is None
    swept(site)  # deletes the log, sees it empty
    swept(site, 29)
    assert row_of(site) is not None


def test_only_the_time_of_the_store_counts() -> None:
    """A sweeper whose own clock is a year ahead drops no row early."""
    site = deleted_site()
    with site.open(clock=_ahead(site)) as lake:
        sweep(lake)
    site.clock.advance(2 * DAY)
    with site.open(clock=_ahead(site)) as lake:
        sweep(lake)
    assert row_of(site) is not None


def _ahead(site: Site) -> Clock:
    return SkewedClock(site.clock, 365 * DAY)


def test_what_lands_late_is_swept_and_the_days_count_anew() -> None:
    """A commit that lands in an emptied log does not count, goes, and makes the row stay longer."""
    site = deleted_site(marked=False)
    late = site.store.get(commit_key(KEY.log, 2))
    swept(site)
    site.clock.advance(29 * DAY)
    site.store.put_if_absent(commit_key(KEY.log, 2), late)
    assert not lives(site).alive
    swept(site)  # says that the log is not empty any more
    swept(site)  # deletes by the row that says so
    assert site.stored("=gone/") == []
    swept(site, 1)
    swept(site, 29)
    assert row_of(site) is not None
    swept(site, 1)
    assert row_of(site) is None


def test_a_half_swept_log_keeps_its_row() -> None:
    """R1: while any commit of a deleted session is left, its row is, so that none comes back."""
    site = deleted_site(marked=False)
    left = {key: site.store.get(key) for key in site.stored("=gone/")}
    swept(site)
    for key in list(left)[:2]:  # of a sweep that was stopped
        site.store.put_if_absent(key, left[key])
    site.clock.advance(60 * DAY)
    for _ in range(2):
        assert not lives(site).alive
        assert lives(site).version == 4
        with site.open() as lake:
            sweep(lake)
        site.clock.advance(2 * DAY)
    assert row_of(site) is not None


def test_a_sweeper_that_knows_the_row_spares_what_began_anew() -> None:
    """S8: a session that begins again at version 1, its row gone, is no prey of an old manifest."""
    site = deleted_site()
    site.clock.advance(30 * DAY)
    with site.open() as dropping:
        sweep(dropping)  # publishes that the row is gone; that manifest is young
    assert row_of(site) is None
    assert begin(site.lake).version == 3
    with site.open() as lake:
        sweep(lake)  # goes by the manifest before, which has the row still
    assert lives(site).version == 3
    swept(site)
    compact(site.lake)
    swept(site)
    assert (lives(site).version, lives(site).alive) == (3, True)


def test_a_session_that_began_anew_goes_on_above_its_row() -> None:
    """S8: within the 30 days the versions of a session that begins anew go on above its row."""
    site = deleted_site()
    site.clock.advance(29 * DAY)
    assert begin(site.lake).version == 7
    for days in (0.5, 30, 2):
        swept(site, days)
        assert (lives(site).version, lives(site).alive) == (7, True)
    compact(site.lake)
    swept(site, 40)
    assert (lives(site).version, lives(site).alive) == (7, True)
    assert site.manifest().revived == ()


@pytest.mark.parametrize(
    ("kind", "holding"), [("put", "manifests/"), ("put", "events/log/"), ("list", "events/log/")]
)
def test_who_begins_anew_meets_who_drops_the_row(kind: Kind, holding: str) -> None:
    """Wherever a creator is when the row is dropped, what it acknowledges is there to stay."""
    site = deleted_site()
    site.clock.advance(31 * DAY)
    other = site.open()
    nth = Nth(kind, holding=holding)
    with site.open(interrupting(nth, partial(sweep, other))) as creator:
        version = begin(creator).version
    for _ in range(3):
        assert (lives(site).version, lives(site).alive) == (version, True)
        swept(site, 2)
    with pytest.raises(AlreadyExistsError):
        site.lake.sessions.create(KEY, {}, generated=False)


@pytest.mark.parametrize("holding", ["runs/", "manifests/"])
def test_who_drops_the_row_meets_who_begins_anew(holding: str) -> None:
    """Wherever a sweep is when a session begins anew, the session stays."""
    site = deleted_site()
    site.clock.advance(31 * DAY)
    other = site.open()
    nth = Nth("put", holding=holding)
    with site.open(interrupting(nth, lambda: begin(other))) as sweeper:
        sweep(sweeper)
    for _ in range(3):
        assert (lives(site).version, lives(site).alive) == (7, True)
        swept(site, 2)


def test_a_creator_that_died_leaves_the_row() -> None:
    """Who said that a row is to stay and went no further keeps it for another 30 days."""
    site = deleted_site()
    site.clock.advance(31 * DAY)

    died = Nth("put", holding="events/log/")
    with (
        site.open(lambda inner: FailingStore(inner, died)) as creator,
        pytest.raises(StorageError),
    ):
        creator.sessions.create(KEY, {}, generated=False)
    assert len(site.manifest().revived) == 1
    swept(site)
    assert row_of(site) is not None
    assert site.manifest().revived == ()
    swept(site, 1)
    swept(site, 31)
    assert row_of(site) is None


def test_a_look_is_once_a_day_and_reads_nothing_where_nothing_was_deleted() -> None:
    """Sweeps within a day of the last look, and of apps without deleted sessions, read no run."""
    site = deleted_site()
    number = site.manifest().number
    swept(site)
    assert site.manifest().number == number
    quiet = Site()
    begin(quiet.lake, OTHER)
    compact(quiet.lake)
    swept(quiet, 2)
    with quiet.open() as lake:
        before = lake.metrics.requests
        sweep(lake)
        assert lake.metrics.requests_since(before).get("PUT", 0) == 1  # to learn the time
    assert all(run.dead == 0 for run in quiet.manifest().table(EVENTS.name).runs)


def test_a_look_that_took_long_marks_nothing() -> None:
    """What was seen longer ago than a view counts is not written down."""
    site = deleted_site(marked=False)
    site.clock.advance(GRACE)
    nth = Nth("list", nth=4, holding="events/log/")
    slow = interrupting(nth, lambda: site.clock.advance(LIMIT))
    with site.open(slow) as lake:
        sweep(lake)
    row = row_of(site)
    assert row is not None
    assert row.emptied_at is None


@pytest.mark.parametrize(("looks", "cached"), [(0, False), (11, False), (11, True)])
def test_sql_of_a_process_that_saw_the_former_life_shows_the_new_one(
    looks: int, cached: bool, tmp_path: Path
) -> None:
    """However often it was asked meanwhile, and if it was told of that life by a file."""
    site = Site()
    begin(site.lake, OTHER)
    begin(site.lake)
    query = "select session_id, version, event_id from events order by all"
    folder = tmp_path if cached else None
    reader = site.open(read_only=True, catalog_cache=folder)
    assert len(reader.sql(query).fetchall()) == 4
    assert reader.sessions.load(KEY).version == 3
    site.lake.sessions.delete(KEY)
    assert len(reader.sql(query).fetchall()) == 2
    compact(site.lake)
    swept(site)
    for _ in range(looks):
        site.clock.advance(2 * DAY)
        reader.sql(query).fetchall()
    if cached:
        reader.close()
        reader = site.open(read_only=True, catalog_cache=folder)
        assert len(reader.sql(query).fetchall()) == 2
    swept(site, 31 - 2 * looks)
    assert row_of(site) is None
    with site.open() as lake:
        assert begin(lake, events=1).version == 2
    for job in (None, compact, sweep):
        with site.open() as lake:
            if job is not None:
                job(lake)
            for asked in (query, "select session_id, events from sessions order by all"):
                assert reader.sql(asked).fetchall() == lake.sql(asked).fetchall()
            assert lake.sql("select count(*) from sessions").fetchall() == [(2,)]
            assert reader.sessions.load(KEY).version == 2
    reader.close()
