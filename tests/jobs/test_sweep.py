"""What a sweep deletes, and when; and that no answer changes by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from lakestore.errors import InputError
from lakestore.jobs import compact, sweep
from lakestore.log.keys import Scope, SessionKey, pack_key, proof_key, rollup_key, run_key
from lakestore.storage import MemoryStore
from tests.support.clocks import SkewedClock
from tests.support.faulty_store import FailingStore, Nth, interrupting
from tests.support.histories import said, several
from tests.support.sites import APP, GRACE, LIMIT, Site, Work, packed_site

KEY = SessionKey(APP, "ana", "s1")
ID = "0123456789abcdef"


@pytest.fixture
def site() -> Iterator[Site]:
    """A lake that is packed, its manifest older than the grace."""
    made = packed_site()
    yield made
    made.lake.close()


def test_what_an_old_manifest_covers_goes(site: Site) -> None:
    """Commits, rollups and entries that are packed go when the manifest is older than the grace."""
    before = site.answers()
    report = sweep(site.lake)
    assert site.stored("events/log/") == site.stored("state/entries/") == []
    assert report.deleted["commits"].objects > 20
    assert report.deleted["entries"].objects > 10
    assert report.failures == 0
    assert site.answers() == before
    assert site.answers(site.lake) == before


def test_what_a_young_manifest_covers_stays() -> None:
    """Nothing goes before the manifest that covers it is older than the grace."""
    site = Site()
    Work(site.lake).some(30)
    site.pass_grace()
    compact(site.lake)
    site.clock.advance(GRACE - 10)
    before = site.stored()
    assert sweep(site.lake).objects == 0
    assert site.stored() == before


def test_only_what_the_old_one_of_several_manifests_covers_goes(site: Site) -> None:
    """Of what only a younger manifest covers, all stays until that one is old too."""
    Work(site.lake, seed=2).some(30)
    compact(site.lake)
    fresh = {key for key in site.stored("events/log/") if "=%532-" in key}
    sweep(site.lake)
    assert fresh
    assert set(site.stored("=%532-")) == fresh
    site.pass_grace()
    before = site.answers()
    sweep(site.lake)
    assert site.stored("events/log/") == site.stored("state/entries/") == []
    assert len(site.stored("manifests/")) == 1
    assert site.answers() == before


def test_what_is_not_packed_stays(site: Site) -> None:
    """What was committed after the manifest stays, however old."""
    work = Work(site.lake, seed=2)
    work.some(30)
    fresh = set(site.stored("=%532-"))
    site.clock.advance(10 * GRACE)
    before = site.answers()
    sweep(site.lake)
    assert set(site.stored("events/log/")) == fresh
    assert site.answers() == before


def test_the_store_tells_the_age_and_nobody_else() -> None:
    """A sweeper whose own clock is ahead by a grace, or behind, deletes what any other would."""
    for skew in (GRACE * 2, -GRACE * 2):
        site = Site()
        Work(site.lake).some(30)
        compact(site.lake)
        hasty = site.open(clock=SkewedClock(site.clock, skew))
        assert sweep(hasty).objects == 0
        site.pass_grace()
        assert sweep(hasty).objects > 0


def test_a_job_whose_clock_is_ahead_makes_nothing_old() -> None:
    """What a manifest says of the time counts for nothing."""
    site = Site()
    Work(site.lake).some(30)
    compact(site.open(clock=SkewedClock(site.clock, -GRACE * 2)))
    assert sweep(site.lake).objects == 0


def test_an_old_rollup_covers_what_is_below() -> None:
    """With no compaction at all, a sweep does what writers of long logs do in passing."""
    site = Site()
    marker = site.lake.sessions.create(KEY, {}, generated=True).marker
    for draft in several(5):
        marker = site.lake.sessions.append(KEY, marker, [draft]).marker
    site.lake.sessions.roll_up(KEY, force=True)
    site.lake.sessions.append(KEY, marker, [said("later")])
    assert sweep(site.lake).objects == 0
    site.pass_grace()
    before = site.answers()
    report = sweep(site.lake)
    assert report.deleted["commits"].objects == 5
    assert [key.rpartition("/")[2] for key in site.stored("events/log/")] == [
        f"{6:020}.parquet",
        f"{6:020}r.parquet",
        f"{7:020}.parquet",
    ]
    assert site.answers() == before


def test_a_rollup_that_is_packed_goes(site: Site) -> None:
    """A rollup that a slow writer puts at what is packed long since is no use to anyone."""
    key = site.lake.sessions.archive.sessions(site.manifest())
    row = next(iter(key)).row
    log = SessionKey(row.app_name, row.user_id, row.session_id).log
    site.store.put_if_absent(rollup_key(log, row.version), b"late")
    report = sweep(site.lake)
    assert report.deleted["rollups"].objects == 1


def test_an_old_fold_covers_entries() -> None:
    """With no compaction at all, entries that an old fold holds go, and the fold stays."""
    site = Site()
    marker = site.lake.sessions.create(KEY, {"user:a": 0}, generated=True).marker
    for number in range(5):
        marker = site.lake.sessions.append(
            KEY, marker, [said(f"e{number}", {"user:a": number, f"user:k{number}": 1})]
        ).marker
    site.lake.sessions.shared.fold_entries(Scope(APP, "ana"))
    site.pass_grace()
    site.lake.sessions.append(KEY, marker, [said("last", {"user:a": "last"})])
    before = site.answers()
    report = sweep(site.lake)
    assert report.deleted["entries"].objects == 6
    assert len(site.stored("state/entries/")) == 2
    assert site.answers() == before


def test_an_entry_that_is_late_stays() -> None:
    """An entry that landed after the compaction is in no run, however early its stamp."""
    site = Site()
    slow = site.open(clock=SkewedClock(site.clock, -100 * GRACE))
    Work(site.lake).some(20)
    compact(site.lake)
    key = SessionKey(APP, "ana", "slow")
    slow.sessions.create(key, {"user:slow": 1}, generated=True)
    site.pass_grace()
    before = site.answers()
    sweep(site.lake)
    assert before["ana", "user"]["slow"] == 1
    assert site.answers() == before


def test_superseded_manifests_go_and_the_newest_stays(site: Site) -> None:
    """A manifest goes when a later one is old; so do the runs that it alone named."""
    for seed in (2, 3, 4):
        Work(site.lake, seed).some(30)
        compact(site.lake)
        site.clock.advance(LIMIT)
    sweep(site.lake)
    assert len(site.stored("manifests/")) >= 4
    site.pass_grace()
    before = site.answers()
    report = sweep(site.lake)
    manifest = site.manifest()
    assert site.stored("manifests/") == [f"manifests/app=travel/{manifest.number:020}.json"]
    assert report.deleted["runs"].objects > 0
    named = {key for key, _ in manifest.files()}
    assert set(site.stored("packs/")) | set(site.stored("runs/")) == named
    assert site.answers() == before


def test_orphans_are_named_first_and_deleted_later(site: Site) -> None:
    """What a dead job has uploaded is named in a manifest, and goes when that one is old."""
    orphans = {pack_key(APP, "events", ID), run_key(APP, "state", ID)}
    for key in orphans:
        site.store.put_if_absent(key, b"half a job")
    assert sweep(site.lake).named == 0
    site.pass_grace()
    report = sweep(site.lake)
    assert report.named == 2
    assert orphans < set(site.stored())
    assert {each.key for each in site.manifest().doomed} >= orphans
    assert sweep(site.lake).named == 0
    site.pass_grace()
    report = sweep(site.lake)
    assert report.deleted["packs"].objects == 1
    assert not orphans & set(site.stored())


def test_names_of_what_is_gone_are_dropped(site: Site) -> None:
    """The list of what may be deleted does not grow for ever."""
    for seed in range(2, 8):
        Work(site.lake, seed).some(20)
        compact(site.lake)
        site.pass_grace()
        sweep(site.lake)
    assert len(site.manifest().doomed) <= 6


def test_a_dry_run_tells_what_a_sweep_does(site: Site) -> None:
    """A dry run deletes nothing, names nothing, and tells the same figures."""
    Work(site.lake, seed=2).some(30)
    site.store.put_if_absent(pack_key(APP, "events", ID), b"half a job")
    compact(site.lake)
    for grace in (None, 0):
        before = site.stored()
        told = sweep(site.lake, grace=grace, dry_run=True)
        assert site.stored() == before
        done = sweep(site.lake, grace=grace)
        assert (told.deleted, told.named) == (done.deleted, done.named)
        assert done.objects
        assert sweep(site.lake, grace=grace).objects == 0


def test_a_grace_of_none_sweeps_all_at_once() -> None:
    """With a grace of 0 all that is needless goes at once, what dead jobs left too."""
    site = Site()
    Work(site.lake).some(40)
    compact(site.lake)
    Work(site.lake, seed=2).some(40)
    compact(site.lake)
    site.store.put_if_absent(pack_key(APP, "events", ID), b"half a job")
    site.store.put_if_absent(proof_key(ID), b"{}")
    before = site.answers()
    report = sweep(site.lake, grace=timedelta(0))
    named = {key for key, _ in site.manifest().files()}
    assert set(site.stored()) == {"lakestore.json", *site.stored("manifests/"), *named}
    assert len(site.stored("manifests/")) == 1
    assert report.named == 0
    assert site.answers() == before


def test_a_lake_that_was_swept_too_early_forgets_what_it_has_read() -> None:
    """What this process has read before a sweep with a shorter grace is not believed after it."""
    site = Site()
    marker = site.lake.sessions.create(KEY, {"user:a": 1}, generated=True).marker
    text = site.lake.sessions.confirmations.text(KEY.log, marker)
    with site.open() as other:
        other.sessions.append(KEY, marker, [said("other", {"user:a": 2, "b": 2})])
        compact(other)
    sweep(site.lake, grace=0)
    assert site.answers(site.lake) == site.answers()
    parsed = site.lake.sessions.confirmations.parse(KEY.log, text)
    assert parsed is not None
    assert parsed.seen is None


def test_one_app_alone(site: Site) -> None:
    """A sweep of one app touches no other."""
    other = SessionKey("other", "ana", "s")
    site.lake.sessions.create(other, {"user:a": 1}, generated=True)
    compact(site.lake)
    site.pass_grace()
    before = site.stored("app=travel")
    assert sweep(site.lake, app_name="other").objects == 2
    assert site.stored("app=travel") == before
    assert sweep(site.lake, app_name="none such").objects == 0


def test_strays_are_never_touched(site: Site) -> None:
    """What FORMAT.md does not describe is not ours, wherever it lies."""
    strays = [
        "README",
        "proof-of-concept.json",
        "events/log/app=travel/.DS_Store",
        "events/log/app=travel/user=ana/session=s/notes/1.parquet",
        "packs/app=travel/README.parquet",
        "packs/app=travel/events/readme.parquet",
        "manifests/app=travel/1.json",
        "state/entries/app=travel/user=ana/mine.parquet",
    ]
    for key in strays:
        site.store.put_if_absent(key, b"?")
    site.clock.advance(3 * GRACE)
    sweep(site.lake, grace=0)
    assert set(strays) < set(site.stored())


def test_leftover_proofs_go(site: Site) -> None:
    """A probe of the store that its writer could not delete goes when it is old."""
    site.store.put_if_absent(proof_key(ID), b"{}")
    sweep(site.lake)
    assert proof_key(ID) in site.stored()
    site.pass_grace()
    assert sweep(site.lake).deleted["proofs"].objects == 1
    assert proof_key(ID) not in site.stored()


def test_an_empty_lake() -> None:
    """In a lake with nothing in it a sweep finds nothing."""
    site = Site()
    report = sweep(site.lake)
    assert (report.objects, report.bytes, report.failures, report.named) == (0, 0, 0, 0)


def test_a_failing_delete_stops_nothing(site: Site) -> None:
    """Deletes that fail are reported with their keys; all else goes, and a later sweep ends it."""
    all_there = len(site.stored("events/log/"))
    failing = site.open(
        lambda inner: FailingStore(inner, Nth("delete", nth=5, times=3, holding="events/log/"))
    )
    before = site.answers()
    report = sweep(failing)
    assert report.failures == 3
    assert all("events/log/" in reason for reason in report.reasons)
    assert report.deleted["commits"].objects == all_there - 3
    assert site.answers() == before
    assert sweep(site.lake).deleted["commits"].objects == 3


@pytest.mark.parametrize("nth", range(1, 60, 7))
def test_a_sweep_may_stop_anywhere(nth: int) -> None:
    """Whatever a sweep was doing when it was killed, answers stay, and the next one ends it."""

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    site = packed_site()
    Work(site.lake, seed=2).some(20)
    compact(site.lake)
    site.pass_grace()
    before = site.answers()
    dying = site.open(interrupting(Nth("delete", nth=nth), die))
    with pytest.raises(Killed):
        sweep(dying)
    assert site.answers() == before
    sweep(site.lake)
    assert site.answers() == before
    assert site.stored("events/log/") == []


def test_two_sweeps_side_by_side(site: Site) -> None:
    """A sweep in the middle of which another one does all the work ends well."""
    Work(site.lake, seed=2).some(20)
    compact(site.lake)
    site.pass_grace()
    before = site.answers()
    for nth in (1, 3, 6):
        racing = site.open(
            interrupting(Nth("list", nth=nth, holding="app=travel"), partial(sweep, site.lake))
        )
        assert sweep(racing).failures == 0
        assert site.answers() == before


def test_answers_stay_the_same_for_ever() -> None:
    """Over many rounds of work, compactions and sweeps everything is read as it was before."""
    site = Site()
    busy = site.open()
    for seed in range(1, 7):
        Work(busy, seed).some(25)
        before = site.answers()
        compact(site.lake, pack_bytes=2_000 if seed % 2 else 2**20)
        assert site.answers() == before
        site.clock.advance(LIMIT if seed % 3 else GRACE)
        sweep(site.lake)
        assert site.answers() == before
        assert site.answers(busy) == before


def test_arguments_are_checked(site: Site) -> None:
    """A read-only lake, and a grace that is none, are refused by name."""
    with pytest.raises(InputError, match="read_only"):
        sweep(site.open(read_only=True))
    for wrong in (-1, float("nan"), timedelta(seconds=-1)):
        with pytest.raises(InputError, match="grace"):
            sweep(site.lake, grace=wrong)
    with pytest.raises(InputError, match="dry_run"):
        sweep(site.lake, dry_run="yes")  # type: ignore[arg-type]  # what a shell might pass


def test_requests_are_counted() -> None:
    """The report tells what the sweep asked of the store, by kind."""
    site = Site(MemoryStore("counted"))
    report = sweep(site.lake)
    assert report.requests["PUT"] == report.requests["DELETE"] == 1
    assert set(report.requests) == {"PUT", "DELETE", "LIST"}
