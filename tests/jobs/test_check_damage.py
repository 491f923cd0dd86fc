"""What a check tells of a lake in which one object is not what it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakestore.errors import LakeError
from lakestore.jobs import check, compact, sweep
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.log.entries import parse_entry
from lakestore.log.keys import Scope, commit_key, pack_key, rollup_key
from lakestore.log.manifests import decode, encode
from lakestore.storage import UnreadableError
from tests.support.checked import (
    BOTH,
    LONG,
    NEW,
    OLD,
    change,
    flipped,
    full_site,
    readable,
    told,
    truncated,
)
from tests.support.faulty_store import FailingStore, Nth
from tests.support.histories import said
from tests.support.sites import APP, LIMIT, Site, Work

HOW = pytest.mark.parametrize("how", [flipped, truncated, None], ids=["flipped", "short", "gone"])


@HOW
def test_a_commit(how: Callable[[bytes], bytes] | None) -> None:
    """A damaged commit costs its own session, which is named."""
    site = full_site()
    key = commit_key(NEW.log, 2)
    change(site, key, how)
    report = check(site.lake)
    assert told(report) == [("lost", "gap" if how is None else "damaged commit")]
    assert NEW.log in report.findings[0].key
    assert not report.healthy
    assert readable(site) >= {OLD, BOTH, LONG}


@HOW
def test_a_commit_above_what_is_packed(how: Callable[[bytes], bytes] | None) -> None:
    """So does one that continues a packed session; one that is gone leaves no trace."""
    site = full_site()
    change(site, commit_key(BOTH.log, 5), how)
    report = check(site.lake)
    assert told(report) == ([] if how is None else [("lost", "damaged commit")])
    assert readable(site) >= {OLD, LONG, NEW}


@HOW
def test_a_commit_below_a_rollup(how: Callable[[bytes], bytes] | None) -> None:
    """What a rollup holds costs nothing when it is damaged."""
    site = full_site()
    change(site, commit_key(LONG.log, 2), how)
    report = check(site.lake)
    assert told(report) == ([] if how is None else [("note", "damaged commit")])
    assert report.healthy
    assert readable(site) == {OLD, BOTH, LONG, NEW}


@HOW
def test_a_rollup(how: Callable[[bytes], bytes] | None) -> None:
    """A damaged rollup can be mended while the commits are there: compaction reads those."""
    site = full_site()
    change(site, rollup_key(LONG.log, 4), how)
    report = check(site.lake)
    assert told(report) == ([] if how is None else [("mendable", "damaged rollup")])
    assert readable(site) == {OLD, BOTH, LONG, NEW}
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    assert check(site.lake).findings == ()


def test_a_rollup_whose_commits_are_gone() -> None:
    """A damaged rollup that alone holds its session costs that session."""
    site = full_site()
    for version in (1, 2, 3):
        site.store.delete(commit_key(LONG.log, version))
    assert check(site.lake).findings == ()
    change(site, rollup_key(LONG.log, 4), flipped)
    report = check(site.lake)
    assert told(report) == [("lost", "damaged rollup")]
    assert readable(site) == {OLD, BOTH, NEW}


@HOW
def test_a_pack(how: Callable[[bytes], bytes] | None) -> None:
    """A damaged pack costs the sessions in it, each of which is named, and no other."""
    site = full_site()
    (key,) = site.stored("packs/")
    change(site, key, how)
    report = check(site.lake)
    assert told(report)[0] == ("lost", "damaged pack")
    assert report.findings[0].key == key
    unreadable = {each.key for each in report.findings if each.kind == "unreadable session"}
    assert unreadable <= {OLD.log, BOTH.log}
    assert {key.log for key in {OLD, BOTH} - readable(site)} <= unreadable
    assert readable(site) >= {LONG, NEW}


@HOW
@pytest.mark.parametrize("table", ["events", "state"])
def test_a_run(table: str, how: Callable[[bytes], bytes] | None) -> None:
    """A damaged run is named; nothing that depends on it is told as if it were damaged too."""
    site = full_site()
    (key,) = site.stored(f"runs/app={APP}/{table}/")
    change(site, key, how)
    report = check(site.lake)
    assert [each.key for each in report.findings if each.kind == "damaged run"] == [key]
    assert {each.severity for each in report.findings} == {"lost"}


@pytest.mark.parametrize("how", [flipped, truncated], ids=["flipped", "short"])
def test_the_newest_manifest(how: Callable[[bytes], bytes]) -> None:
    """Without its newest manifest nothing of an app can be told, and other apps can."""
    site = full_site()
    Work(site.lake, seed=3, app="other").some(5)
    (key,) = site.stored("manifests/")
    change(site, key, how)
    report = check(site.open())
    assert told(report) == [("lost", "damaged manifest")]
    assert key in report.findings[0].problem
    assert report.sessions > 0


def test_a_superseded_manifest() -> None:
    """One that is superseded costs nothing."""
    site = full_site()
    (key,) = site.stored("manifests/")
    compact(site.lake)
    change(site, key, truncated)
    report = check(site.lake)
    assert told(report) == [("note", "damaged manifest")]
    assert report.healthy


def entry_of(site: Site, scope: Scope, *, fold: bool = False) -> str:
    """Return the key of the last entry of a scope."""
    entries = map(parse_entry, site.stored(scope.entries))
    return [entry.key for entry in entries if entry and entry.is_fold == fold][-1]


@HOW
def test_an_entry(how: Callable[[bytes], bytes] | None) -> None:
    """A damaged or missing entry is put again from its commit, and only when that was asked for."""
    site = full_site()
    change(site, entry_of(site, Scope(APP, "ana")), how)
    before = site.stored()
    report = check(site.lake)
    expected = [("mendable", "missing entry")]
    assert told(report) == (expected if how is None else [*expected, ("note", "damaged entry")])
    assert site.stored() == before
    assert "both" not in site.answers()["ana", "user"]
    report = check(site.lake, repair=True)
    assert report.repaired == 1
    assert report.healthy
    assert site.answers()["ana", "user"]["both"] == 2
    assert check(site.lake).healthy


@HOW
def test_a_fold(how: Callable[[bytes], bytes] | None) -> None:
    """A damaged fold costs nothing while the entries that it was made of are there."""
    site = full_site()
    change(site, entry_of(site, Scope(APP, "Bo"), fold=True), how)
    report = check(site.lake)
    assert told(report) == ([] if how is None else [("lost", "damaged entry")])


def test_an_entry_whose_commit_is_packed_elsewhere() -> None:
    """A damaged entry that a run holds costs nothing."""
    site = full_site()
    key = entry_of(site, Scope(APP, "ana"))
    compact(site.lake)
    change(site, key, truncated)
    assert told(check(site.lake)) == [("note", "damaged entry")]


@HOW
def test_an_entry_and_the_run_that_holds_it(how: Callable[[bytes], bytes] | None) -> None:
    """Both are told where a damaged entry may or may not be in a run that cannot be read."""
    site = full_site()
    entry = entry_of(site, Scope(APP, "Bo"))
    compact(site.lake)
    for key in [entry, *site.stored(f"runs/app={APP}/state/")]:
        change(site, key, truncated if key == entry else how)
    assert {("lost", "damaged run"), ("note", "damaged entry")} <= set(told(check(site.lake)))


def test_a_writer_that_died_between_commit_and_entry() -> None:
    """Its entry is missing, which is told once it cannot be under way any more."""
    site = full_site()
    dying = site.open(lambda inner: FailingStore(inner, Nth("put", times=99, holding="state/")))
    with pytest.raises(LakeError):
        dying.sessions.append(NEW, dying.sessions.load(NEW).marker, [said("x", {"app:x": 1})])
    assert check(site.lake).findings == ()
    site.clock.advance(LIMIT)
    assert told(check(site.lake)) == [("mendable", "missing entry")]
    assert check(site.lake, repair=True).repaired == 1
    assert site.answers()["app"]["x"] == 1


def test_strays_and_orphans_are_noted() -> None:
    """What is not ours, and what dead jobs have left, is noted, and nothing is done to it."""
    site = full_site()
    strays = [
        "README",
        "events/log/app=travel/notes.parquet",
        "state/entries/app=travel/user=ana/mine.parquet",
        "packs/app=travel/events/mine.parquet",
        "manifests/app=travel/1.json",
        pack_key(APP, "events", "0123456789abcdef"),
    ]
    for key in strays:
        site.store.put_if_absent(key, b"?")
    site.pass_grace()
    compact(site.lake)
    before = site.stored()
    report = check(site.lake)
    assert sorted(each.key for each in report.findings) == sorted(strays)
    assert {each.severity for each in report.findings} == {"note"}
    assert report.healthy
    assert site.stored() == before


def test_a_row_that_lies() -> None:
    """A run whose row says another state than the packed events give is told."""
    site = full_site()
    archive = site.lake.sessions.archive
    packed = archive.session(site.manifest(), OLD)
    assert packed is not None
    changes = Changes()
    changes.add(Change(packed.row, replace(packed.row, state='{"a":2}', events=9)))
    Publisher(site.lake.environment, archive, APP).publish(changes)
    report = check(site.lake)
    assert told(report) == [("mendable", "wrong row of a run")]
    assert report.findings[0].key == OLD.log
    assert "state" in report.findings[0].problem
    assert "9" in report.findings[0].problem


def test_a_manifest_that_miscounts() -> None:
    """Rows of a pack that are counted wrongly are noted."""
    site = full_site()
    (key,) = site.stored("manifests/")
    manifest = decode(key, site.store.get(key))
    table = manifest.table("events")
    wrong = replace(table, packs=tuple(replace(pack, dead=1) for pack in table.packs))
    change(
        site, key, lambda _: encode(replace(manifest, tables={**manifest.tables, "events": wrong}))
    )
    assert told(check(site.open())) == [("note", "wrong count")]


def test_what_is_closed_to_us() -> None:
    """An object that cannot be read is told like one that is damaged."""
    site = full_site()
    closed = site.open(
        lambda inner: FailingStore(
            inner, Nth("get", times=99, holding=commit_key(NEW.log, 2)), UnreadableError
        )
    )
    assert told(check(closed)) == [("lost", "damaged commit")]
