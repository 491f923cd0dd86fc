"""What a check tells of a lake that is whole, and of one in which one object is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakestore.errors import InputError, LakeError
from lakestore.jobs import CheckReport, Progress, check, compact, sweep
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.log.entries import parse_entry
from lakestore.log.keys import Scope, SessionKey, commit_key, pack_key, rollup_key
from lakestore.log.manifests import decode, encode
from lakestore.storage import UnreadableError
from tests.support.faulty_store import FailingStore, Kind, Nth, interrupting
from tests.support.histories import said, several
from tests.support.sites import APP, GRACE, LIMIT, Site, Work

OLD = SessionKey(APP, "ana", "old")
"""All of it is packed."""
BOTH = SessionKey(APP, "ana", "both")
"""Its first commits are packed."""
LONG = SessionKey(APP, "Bo", "long")
"""It has a rollup."""
NEW = SessionKey(APP, "Bo", "new")
"""Nothing of it is packed."""


def full_site() -> Site:
    """Return a lake with objects of every kind, and nothing wrong."""
    site = Site()
    sessions = site.lake.sessions
    for key in (OLD, BOTH):
        marker = sessions.create(key, {"a": 1, "user:old": 1, "app:old": 1}, generated=True).marker
        for draft in several(3):
            marker = sessions.append(key, marker, [draft]).marker
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    sessions.append(BOTH, sessions.load(BOTH).marker, [said("fresh", {"b": 2, "user:both": 2})])
    for key in (LONG, NEW):
        marker = sessions.create(key, {"a": 1, f"user:{key.session_id}": 1}, generated=True).marker
        for draft in several(3):
            marker = sessions.append(key, marker, [draft]).marker
    sessions.roll_up(LONG, force=True)
    sessions.append(LONG, sessions.load(LONG).marker, [said("after", {"app:long": 3})])
    sessions.shared.fold_entries(Scope(APP, "Bo"))
    site.clock.advance(LIMIT)
    return site


def flipped(body: bytes) -> bytes:
    """Return `body` with a run of bytes changed in its middle."""
    half = len(body) // 2
    return body[:half] + bytes(byte ^ 0xFF for byte in body[half : half + 8]) + body[half + 8 :]


def truncated(body: bytes) -> bytes:
    """Return the first half of `body`."""
    return body[: len(body) // 2]


def change(site: Site, key: str, how: Callable[[bytes], bytes] | None) -> None:
    """Change an object behind everyone's back, or (None) delete it."""
    body = site.store.get(key)
    site.store.delete(key)
    if how is not None:
        site.store.put_if_absent(key, how(body))


def told(report: CheckReport) -> list[tuple[str, str]]:
    """Return severity and kind of all findings."""
    return sorted({(each.severity, each.kind) for each in report.findings})


def readable(site: Site) -> set[SessionKey]:
    """Return the sessions that a new process can read, with all events."""
    found = set()
    with site.open(read_only=True) as lake:
        for key in (OLD, BOTH, LONG, NEW):
            try:
                if lake.sessions.read(key) is not None:
                    lake.user_events(key.app_name, key.user_id, session_ids=[key.session_id])
                    found.add(key)
            except LakeError:
                pass
    return found


def test_nothing_is_wrong_with_a_whole_lake() -> None:
    """A lake with objects of all kinds is healthy, and all of it was read."""
    site = full_site()
    before = site.stored()
    report = check(site.lake)
    assert report.findings == ()
    assert report.healthy
    assert (report.apps, report.sessions, report.events) == (1, 4, 8 + 1 + 4 + 5)
    kinds = {"packs/": 1, "runs/": 2, "manifests/": 1, "events/log": 11, "state/": 6}
    assert {kind: len(site.stored(kind)) for kind in kinds} == kinds
    assert site.stored() == before
    assert set(report.requests) == {"LIST", "GET"}
    with site.open(read_only=True) as lake:
        assert check(lake).healthy


def test_nothing_is_wrong_with_an_empty_lake() -> None:
    """A lake with nothing in it is healthy."""
    assert check(Site().lake).findings == ()


def test_busy_lakes_stay_healthy() -> None:
    """After any rounds of work, compactions and sweeps a check finds nothing."""
    site = Site()
    for seed in range(1, 6):
        Work(site.lake, seed).some(25)
        compact(site.lake, pack_bytes=2_000 if seed % 2 else 2**20)
        site.clock.advance(GRACE if seed % 2 else LIMIT)
        sweep(site.lake)
        assert check(site.lake).findings == ()


@pytest.mark.parametrize("kind", ["list", "get", "get_range"])
def test_others_may_be_at_work(kind: Kind) -> None:
    """What changes in the middle of a check is looked at again before it is told."""
    for nth in range(1, 12, 2):
        site = full_site()

        def go_on(site: Site = site) -> None:
            Work(site.lake, seed=7).some(10)
            compact(site.lake)
            site.clock.advance(GRACE)
            sweep(site.lake)

        picked = Nth(kind, nth=nth, holding=f"app={APP}")
        lake = site.open(interrupting(picked, go_on))
        assert check(lake).findings == ()


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


def test_progress_is_told() -> None:
    """Who waits is told what is read, and how much of it is done."""
    site = full_site()
    said_: list[Progress] = []
    check(site.lake, progress=said_.append)
    assert {step.doing for step in said_} == {
        "reading packs and runs",
        "reading packed sessions",
        "reading logs",
        "reading shared state",
    }


def test_arguments_are_checked() -> None:
    """A read-only lake cannot be repaired, and a text is no flag."""
    site = Site()
    with pytest.raises(InputError, match="read_only"):
        check(site.open(read_only=True), repair=True)
    with pytest.raises(InputError, match="repair"):
        check(site.lake, repair="no")  # type: ignore[arg-type]  # what a shell might pass
