"""What jobs make of an app whose manifest was lost, and of one of whom a job has died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakestore import LakeMemoryService
from lakestore.errors import FormatError, StorageError
from lakestore.history.archive import ERASED
from lakestore.jobs import (
    check,
    compact,
    erase_user,
    prune_events,
    prune_sessions,
    prune_user_state,
    sweep,
)
from lakestore.log.keys import MANIFESTS, Scope, SessionKey, manifest_key, run_key
from tests.support.faulty_store import FailingStore, Nth
from tests.support.histories import said
from tests.support.rebuilding import entry
from tests.support.sites import APP, USERS, Site, Work, packed_site


def lose(site: Site, above: int = 0) -> dict[str, bytes]:
    """Delete all manifests behind everyone's back, or those above a number; return them."""
    last = manifest_key(APP, above)
    lost = {key: site.store.get(key) for key in site.stored("manifests/") if key > last}
    for key in lost:
        site.store.delete(key)
    return lost


def packed(site: Site) -> list[str]:
    """Return the keys of all packs and runs."""
    return site.stored("packs/") + site.stored("runs/")


def swept_site() -> Site:
    """Return a lake at rest: logs and superseded manifests are swept."""
    site = packed_site()
    sweep(site.lake)
    site.pass_grace()
    sweep(site.lake)
    assert len(site.stored("manifests/")) == 1
    return site


@pytest.mark.parametrize("grace", [None, 0])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_sweep_leaves_what_a_lost_manifest_named(grace: float | None, dry_run: bool) -> None:
    """Packs and runs stay, with a reason; the manifest, put back, makes the lake whole again."""
    site = swept_site()
    before, answers = packed(site), site.answers()
    lost = lose(site)
    for _ in range(3):
        site.pass_grace()
        with site.open() as lake:
            report = sweep(lake, grace=grace, dry_run=dry_run)
        assert (report.named, report.objects, report.failures) == (0, 0, 1)
        assert "manifest of the app is lost" in report.reasons[0]
    assert packed(site) == before
    assert site.stored("manifests/") == []
    for key, body in lost.items():
        site.store.put_if_absent(key, body)
    assert site.answers() == answers
    assert check(site.open(read_only=True)).healthy


def test_a_check_tells_of_a_lost_manifest() -> None:
    """It is lost, at once, and no pack or run is called an orphan."""
    site = swept_site()
    lose(site)
    report = check(site.open(read_only=True))
    found = [(each.severity, each.kind, each.key) for each in report.findings]
    assert found == [("lost", "missing manifest", f"manifests/app={APP}/")]


@pytest.mark.parametrize("job", [compact, prune_events, prune_user_state])
def test_no_job_begins_anew_where_a_manifest_is_lost(job: Callable[..., Any]) -> None:
    """It says what to do, and publishes nothing; the manifest, put back, makes all as it was."""
    site = swept_site()
    answers = site.answers()
    lost = lose(site)
    sessions = site.open().sessions
    sessions.create(SessionKey(APP, "ana", "new"), {"user:new": 1}, generated=True)
    with site.open() as lake, pytest.raises(FormatError, match=r"Restore .*manifests/app=travel/"):
        job(lake)
    assert site.stored("manifests/") == []
    for key, body in lost.items():
        site.store.put_if_absent(key, body)
    sessions.end(sessions.load(SessionKey(APP, "ana", "new")))
    assert site.answers() != answers
    job(site.open())
    assert check(site.open(read_only=True)).healthy


def test_a_lost_manifest_is_told_where_an_older_one_is_left() -> None:
    """Logs were swept by the newest: what only it has named is lost, stays, and can be restored."""
    site = packed_site()
    older = site.manifest().number
    Work(site.lake, 2).some(40)
    compact(site.lake)
    answers = site.answers()
    delete_packed_logs(site)
    lost = lose(site, above=older)
    assert lost
    # Something of now: it tells what is old.
    site.pass_grace()
    site.store.put_if_absent(run_key(APP, "folded", "0" * 16), b"of a job at work")
    found = {(each.severity, each.kind) for each in check(site.open(read_only=True)).findings}
    assert ("lost", "missing manifest") in found
    assert ("note", "orphan") not in found
    with site.open() as lake:
        report = sweep(lake)
    assert report.named == 0
    assert any("manifest of the app is lost" in reason for reason in report.reasons)
    for key, body in lost.items():
        site.store.put_if_absent(key, body)
    assert site.answers() == answers
    assert check(site.open(read_only=True)).healthy


@pytest.mark.parametrize("job", [compact, prune_events, prune_user_state])
def test_no_job_goes_on_from_an_older_manifest(job: Callable[..., Any]) -> None:
    """It would make the loss final; the newest, put back, makes all as it was."""
    site = packed_site()
    older = site.manifest().number
    Work(site.lake, 2).some(40)
    compact(site.lake)
    answers = site.answers()
    delete_packed_logs(site)
    lost = lose(site, above=older)
    site.clock.advance(100 * 86_400.0)
    before = site.stored("manifests/")
    sessions = site.open().sessions
    key = SessionKey(APP, "ana", "new")
    sessions.create(key, {"user:new": 1}, generated=True)
    with site.open() as lake, pytest.raises(FormatError, match=r"Restore .*manifests/app=travel/"):
        job(lake)
    assert site.stored("manifests/") == before
    for name, body in lost.items():
        site.store.put_if_absent(name, body)
    sessions.end(sessions.load(key))
    assert site.answers() != answers
    job(site.open())
    assert check(site.open(read_only=True)).healthy


def test_what_logs_hold_still_is_packed_again() -> None:
    """Within the grace nothing was swept for what the lost manifest said: nothing is lost."""
    site = packed_site()
    older = site.manifest().number
    Work(site.lake, 2).some(40)
    compact(site.lake)
    answers = site.answers()
    lose(site, above=older)
    compact(site.open())
    assert site.answers() == answers
    site.pass_grace()
    compact(site.open())
    with site.open() as lake:
        assert sweep(lake).failures == 0
    assert check(site.open(read_only=True)).healthy
    assert site.answers() == answers


@pytest.mark.parametrize("job", [prune_user_state, prune_events, prune_sessions])
def test_a_dead_job_that_pruned_is_no_lost_manifest(job: Callable[..., Any]) -> None:
    """What it was about to forget is there still; sweeps take its runs, and jobs go on."""
    site = swept_site()
    number = site.manifest().number
    site.clock.advance(400 * 86_400.0)
    with site.open() as lake:
        job(lake)
        compact(lake)
    lose(site, above=number)  # as if it had died before it published
    site.pass_grace()
    answers = site.answers()
    with site.open() as lake:
        compact(lake)
        assert sweep(lake).failures == 0
    assert check(site.open(read_only=True)).healthy
    assert site.answers() == answers


def test_runs_of_no_manifest_are_read_once_by_a_job() -> None:
    """A job reads the old ones that nobody names, and a lake at rest has none of them."""
    site = swept_site()
    site.pass_grace()
    counts = []
    for dead in (False, True):
        if dead:
            body = site.store.get(next(k for k in packed(site) if "/events/" in k and "runs" in k))
            site.store.put_if_absent(run_key(APP, "events", "0" * 16), body)
            site.pass_grace()
        with site.open() as lake:
            sessions = lake.sessions
            sessions.create(SessionKey(APP, "ana", f"more{dead}"), {}, generated=True)
            before = lake.metrics.requests
            compact(lake)
            counts.append(lake.metrics.requests_since(before)["GET"])
    assert counts[1] <= counts[0] + 4


def delete_packed_logs(site: Site) -> None:
    """Delete the commits that the newest manifest covers, as a sweep that then stops."""
    with site.open() as lake:
        for each in lake.sessions.archive.sessions(site.manifest()):
            for key in list(site.store.names(each.key.log)):
                site.store.delete(key)


@pytest.mark.parametrize("older", [False, True])
def test_what_a_dead_job_left_is_no_lost_manifest(*, older: bool) -> None:
    """Rollups and folds hold what commits and entries held that writers have swept since."""
    site = packed_site() if older else Site()
    number = site.manifest().number
    Work(site.lake, 2).some(40)
    compact(site.lake)
    lose(site, above=number)  # as if it had died before it published
    with site.open() as lake:
        for view in list(lake.sessions.read_all(APP, None)):
            lake.sessions.roll_up(view.key, force=True)
        for user in (*USERS, None):
            lake.sessions.shared.fold_entries(Scope(APP, user))
    answers = site.answers()
    site.pass_grace()
    with site.open() as lake:
        report = sweep(lake)
        assert (report.failures, report.deleted["commits"].objects > 0) == (0, True)
    assert check(site.open(read_only=True)).healthy
    compact(site.open())
    assert site.answers() == answers


def test_sessions_that_went_on_make_nothing_packed_again() -> None:
    """A log that goes on above what is packed, or of another session, holds none of that."""
    site = swept_site()
    sessions = site.lake.sessions
    key = next(view.key for view in sessions.read_all(APP, None))
    sessions.append(key, sessions.load(key).marker, [said("later")])
    sessions.create(SessionKey(APP, "new", "s"), {}, generated=True)
    lose(site)
    site.pass_grace()
    before = packed(site)
    with site.open() as lake:
        assert sweep(lake).named == 0
    assert packed(site) == before
    findings = check(site.open(read_only=True)).findings
    assert ("lost", "missing manifest") in {(each.severity, each.kind) for each in findings}


def test_what_a_first_job_left_is_swept() -> None:
    """Where logs and entries hold all that was packed, packs and runs are a dead job's."""
    site = Site()
    Work(site.lake).some(30)
    compact(site.lake)
    site.pass_grace()
    answers = site.answers()
    lose(site)  # as if it had died before it published
    left = set(packed(site))
    assert check(site.open(read_only=True)).healthy
    with site.open() as lake:
        assert sweep(lake).named == len(left)
        site.pass_grace()
        sweep(lake)
    assert not left & set(packed(site))
    assert site.answers() == answers


def test_what_a_dead_eraser_left_is_no_lost_manifest() -> None:
    """Sessions have ended by then, and what was remembered is there still: jobs go on."""
    site = packed_site()
    whose: dict[str, Any] = {"app_name": APP, "user_id": USERS[0]}
    remembering = LakeMemoryService(site.lake).sync
    remembering.add_memory(**whose, memories=[entry("tea", id="m")])
    dying = site.open(lambda inner: FailingStore(inner, Nth("put", holding=MANIFESTS, nth=3)))
    with pytest.raises(StorageError):
        erase_user(dying, APP, USERS[0])
    assert site.stored(f"/{ERASED.name}/")
    answers = site.answers()
    for _ in range(3):
        site.pass_grace()
        assert sweep(site.open()).failures == 0
        compact(site.open())
    assert site.answers() == answers
    assert not site.stored(f"/{ERASED.name}/")
    assert remembering.search_memory(**whose, query="tea").memories
