"""What a check tells of a lake that is whole, also beside others, and how it is called."""

from __future__ import annotations

import pytest

from lakestore.errors import InputError
from lakestore.jobs import Progress, check, compact, sweep
from tests.support.checked import (
    full_site,
)
from tests.support.faulty_store import Kind, Nth, interrupting
from tests.support.sites import APP, GRACE, LIMIT, Site, Work


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
