"""Processes that write, compact and sweep one lake at once, whose grace is over every second."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestore import Lake, Limits
from lakestore.jobs import check, compact, sweep
from lakestore.log.keys import Scope
from tests.support.processes import race
from tests.support.race_workers import APP, USER, event_ids, work


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(3.0, id="short"), pytest.param(30.0, id="long", marks=pytest.mark.slow)],
)
def test_nothing_acknowledged_is_lost(tmp_path: Path, seconds: float) -> None:
    """Each acknowledged event is there once, shared state too, and a check finds nothing wrong."""
    url = str(tmp_path / "lake")
    Lake.open(url, limits=Limits(view_age=0.4, grace=1.0)).close()
    roles = [("write", 1), ("write", 2), ("compact", 3), ("sweep", 4)]
    told = race(work, [(url, role, number, seconds) for role, number in roles])
    with Lake.open(url) as lake:
        for (_, number), result in zip(roles[:2], told[:2], strict=True):
            assert not isinstance(result, int)
            acknowledged, unknown, last = result
            for key, expected in acknowledged.items():
                found = event_ids(lake, key)
                assert [each for each in found if each not in unknown] == expected
                assert len(set(found)) == len(found)
            state = lake.sessions.shared.read([Scope(APP, USER)])[Scope(APP, USER)].values()
            assert state.get(f"w{number}", 0) >= last
        assert check(lake).healthy  # jobs that were overtaken leave orphans, which are noted
        compact(lake)
        sweep(lake, grace=0)
        assert check(lake).findings == ()
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) < 60
