"""Readers, writers and jobs that stall while others compact and sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from lakestore import Lake
from lakestore.errors import ConflictError, UnknownOutcomeError
from lakestore.jobs import compact, sweep
from lakestore.log.keys import Scope, SessionKey
from tests.support.faulty_store import FailingStore, InterruptedStore, Kind, Nth, interrupting
from tests.support.histories import said, several
from tests.support.sites import APP, GRACE, LIMIT, Site, Work, packed_site

KEY = SessionKey(APP, "ana", "s1")


def with_session(site: Site, events: int = 4) -> None:
    """Begin the session `KEY` and append to it, shared state included."""
    marker = site.lake.sessions.create(KEY, {"user:a": 0, "app:a": 0}, generated=True).marker
    for draft in several(events):
        marker = site.lake.sessions.append(KEY, marker, [draft]).marker


def others_go_on(site: Site) -> None:
    """Let others append, compact and sweep twice, with all the time that it takes."""
    with site.open() as other:
        marker = other.sessions.load(KEY).marker
        for number in range(2):
            draft = said(f"b{site.clock.elapsed()}", {"n": number, "user:a": number})
            marker = other.sessions.append(KEY, marker, [draft]).marker
            compact(other)
            site.clock.advance(GRACE)
            sweep(other)


@pytest.mark.parametrize(("kind", "nths"), [("list", 5), ("get", 7), ("get_range", 5)])
def test_a_reader_that_stalls_reads_on(kind: Kind, nths: int) -> None:
    """Wherever a reader stalls for hours, it reads what is there now, and misses nothing."""
    for nth in range(1, nths):
        site = Site()
        with_session(site)
        compact(site.lake)
        site.lake.sessions.append(KEY, site.lake.sessions.load(KEY).marker, [said("fresh")])
        stalled = site.open(interrupting(Nth(kind, nth=nth), partial(others_go_on, site)))
        read = stalled.sessions.read(KEY)
        assert read is not None
        if stalled.sessions.events([read[0]])[0]:
            expected = site.open(read_only=True).sessions.read(KEY)
            assert expected is not None
            if read[0].version == expected[0].version:
                assert (
                    read[1][Scope(APP, "ana")].values() == expected[1][Scope(APP, "ana")].values()
                )
            # A reader that was done with the log may show the session as it was a moment before.
            assert read[0].version in (expected[0].version - 2, expected[0].version)


@pytest.mark.parametrize("kind", ["list", "get", "get_range"])
def test_all_sessions_are_read_past_a_sweep(kind: Kind) -> None:
    """What reads many sessions meets no object that is gone for good."""
    for nth in range(1, 6):
        site = packed_site(30)
        Work(site.lake, seed=2).some(20)

        def go_on(site: Site = site) -> None:
            compact(site.lake)
            site.clock.advance(GRACE)
            sweep(site.lake)

        expected = site.answers()
        stalled = site.open(interrupting(Nth(kind, nth=nth), go_on))
        assert site.answers(stalled) == expected


def test_a_warm_reader_is_not_fooled() -> None:
    """A view that was cached before all was swept is not taken for the last one."""
    site = Site()
    with_session(site)
    warm = site.open()
    assert warm.sessions.read(KEY) is not None
    others_go_on(site)
    read = warm.sessions.read(KEY)
    assert read is not None
    assert read[0].version == 7
    assert site.answers(warm) == site.answers()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stalled_append_is_not_acknowledged(when: str) -> None:
    """S1: a commit that lands where one was swept is no acknowledgement, and goes next time."""
    site = Site()
    with_session(site)
    stalls: list[Callable[[], object]] = [lambda: others_go_on(site)]
    writer = site.open(
        lambda inner: InterruptedStore(
            inner, Nth("put", holding="events/log"), lambda: stalls.pop()()
        )
    )
    marker = writer.sessions.load(KEY).marker
    if when == "after":
        site.clock.advance(LIMIT)
    with pytest.raises(UnknownOutcomeError):
        writer.sessions.append(KEY, marker, [said("straggler")])
    before = site.answers()
    assert "straggler" not in str(before)
    site.pass_grace()
    sweep(site.lake)
    assert site.stored("events/log/") == []
    assert site.answers() == before


def test_a_stalled_create_is_not_acknowledged() -> None:
    """S5: with a given id, version 1 may be created where it was swept; the load tells."""
    site = Site()
    act: list[Callable[[], object]] = []

    def go_on() -> None:
        with_session(site)
        compact(site.lake)
        site.clock.advance(GRACE)
        sweep(site.lake)

    act.append(go_on)
    writer = site.open(interrupting(Nth("put", holding="events/log"), lambda: act.pop()()))
    with pytest.raises(UnknownOutcomeError):
        writer.sessions.create(KEY, {"straggler": 1}, generated=False)
    assert "straggler" not in str(site.answers())
    site.pass_grace()
    sweep(site.lake)
    assert site.stored("events/log/") == []


def test_a_session_may_begin_again_after_its_log_was_swept() -> None:
    """Log versions go on where a deleted session ended, though nothing of its log is left."""
    site = Site()
    with_session(site)
    site.lake.sessions.delete(KEY)
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    assert site.stored("events/log/") == []
    with site.open() as other:
        assert other.sessions.read(KEY) is None
        assert other.sessions.create(KEY, {"new": 1}, generated=False).version == 7
    compact(site.lake)
    site.pass_grace()
    before = site.answers()
    sweep(site.lake)
    assert site.answers() == before


@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_a_stalled_compaction_starts_over(sweeps: int) -> None:
    """K1: a job whose upload was taken for an orphan publishes none of it, however late it is."""
    site = packed_site(30)
    Work(site.lake, seed=2).some(20)
    before = site.answers()
    acts: list[Callable[[], object]] = []

    def go_on() -> None:
        for _ in range(sweeps):
            site.clock.advance(GRACE)
            sweep(site.lake)

    acts.append(go_on)
    stalled = site.open(
        lambda inner: InterruptedStore(
            inner, Nth("put", holding="packs/"), lambda: acts.pop()(), when="after"
        )
    )
    with pytest.raises(ConflictError):
        compact(stalled)
    assert site.answers() == before
    compact(stalled)
    site.pass_grace()
    sweep(site.lake)
    assert site.answers() == before


def test_a_name_is_dropped_and_the_stalled_job_still_starts_over() -> None:
    """An upload that was named, deleted, and whose name was dropped is not published either."""
    site = packed_site(30)
    Work(site.lake, seed=2).some(20)
    acts: list[Callable[[], object]] = []

    def go_on() -> None:
        for seed in (3, 4, 5):
            site.clock.advance(GRACE)
            sweep(site.lake)
            Work(site.lake, seed=seed).some(5)
            compact(site.lake)

    acts.append(go_on)
    stalled = site.open(
        lambda inner: InterruptedStore(
            inner, Nth("put", holding="packs/"), lambda: acts.pop()(), when="after"
        )
    )
    with pytest.raises(ConflictError):
        compact(stalled)
    before = site.answers()
    site.pass_grace()
    sweep(site.lake)
    assert site.answers() == before


def test_a_stalled_sweep_deletes_nothing_that_counts() -> None:
    """A sweep that wakes up hours later deletes what was needless then, and still is."""
    for nth in (1, 4, 9):
        site = packed_site(40)
        Work(site.lake, seed=2).some(20)
        compact(site.lake)
        site.pass_grace()

        def go_on(site: Site = site) -> None:
            for seed in (3, 4):
                Work(site.lake, seed=seed).some(20)
                compact(site.lake)
                site.clock.advance(GRACE)
                sweep(site.lake)

        stalled = site.open(interrupting(Nth("delete", nth=nth), go_on))
        sweep(stalled)
        assert site.answers() == site.answers(site.lake)
        before = site.answers()
        site.pass_grace()
        sweep(site.lake)
        assert site.answers() == before


def damaged(site: Site, key: str) -> None:
    """Flip a byte in the middle of an object."""
    body = bytearray(site.store.get(key))
    body[len(body) // 2] ^= 0xFF
    site.store.delete(key)
    site.store.put_if_absent(key, bytes(body))


def test_what_a_damaged_pack_was_made_of_stays() -> None:
    """R068: nothing goes that only a damaged pack would hold then; all else does."""
    site = Site()
    with_session(site)
    compact(site.lake)
    (pack,) = site.stored("packs/")
    Work(site.lake, seed=2).some(20)
    compact(site.lake)
    damaged(site, pack)
    site.pass_grace()
    report = sweep(site.lake)
    assert report.failures == 1
    assert pack in report.reasons[0]
    assert len(site.stored("events/log/")) == 5
    assert all(KEY.log in key for key in site.stored("events/log/"))


@pytest.mark.parametrize("what", ["runs/app=travel/events/", "manifests/"])
def test_of_an_app_with_a_damaged_run_or_manifest_nothing_goes(what: str) -> None:
    """While it is not known what is packed nothing of the app is deleted; of others all is."""
    site = packed_site(30)
    Work(site.lake, seed=2, app="other").some(10)
    compact(site.lake, app_name="other")
    broken = [key for key in site.stored(what) if "other" not in key][-1]
    body = site.store.get(broken)
    site.store.delete(broken)
    site.store.put_if_absent(broken, body[: len(body) // 2])
    site.pass_grace()
    before = site.stored("app=travel")
    report = sweep(site.open())
    assert report.failures == 1
    assert broken in report.reasons[0]
    assert site.stored("app=travel") == before
    assert site.stored("events/log/app=other") == []


def test_a_store_that_fails_for_one_app_stops_no_other() -> None:
    """What cannot be listed is reported, and the other apps are swept."""
    site = packed_site(30)
    Work(site.lake, seed=2, app="other").some(10)
    compact(site.lake, app_name="other")
    site.pass_grace()
    failing: Lake = site.open(
        lambda inner: FailingStore(inner, Nth("list", times=99, holding="packs/app=travel"))
    )
    assert sweep(failing).failures == 1
    assert site.stored("events/log/app=other") == []
