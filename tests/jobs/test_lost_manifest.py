"""What jobs make of an app whose manifest was lost, and of one whose first job has died."""

from __future__ import annotations

import pytest

from lakestore.jobs import check, compact, sweep
from lakestore.log.keys import SessionKey
from tests.support.histories import said
from tests.support.sites import APP, Site, Work, packed_site


def lose(site: Site) -> dict[str, bytes]:
    """Delete all manifests behind everyone's back; return them."""
    lost = {key: site.store.get(key) for key in site.stored("manifests/")}
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
        assert "has no manifest" in report.reasons[0]
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
