"""Readers and writers in processes of their own, while jobs pack, merge, prune and sweep."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from lakestore import Lake, Limits
from lakestore.jobs import check as check_lake
from lakestore.jobs import compact, sweep
from tests.endurance.crowd import Crowd
from tests.endurance.journal import read_journals
from tests.endurance.worker import NAMES
from tests.simulator.checker import check
from tests.support.servers import Bucket

LIMITS = Limits(view_age=1.5, grace=4.0)
"""So short that sweeps delete what readers have just seen."""
WORKERS = 3
DONE = ("events", "merged", "commits", "entries", "packs", "runs", "old")
"""What jobs must have done: packed and merged, deleted some of each kind, pruned."""
AT_MOST = 200.0
JOBS = ("compact", "compact", "sweep", "prune")


def _jobs(journals: Path) -> Counter[str]:
    """Return what all jobs did."""
    did: Counter[str] = Counter()
    for path in journals.glob("*.jobs"):
        *lines, _ = path.read_text(encoding="utf-8").split("\n")  # the last may be half written
        for line in lines:
            did.update(json.loads(line))
            did["turns"] += 1
    return did


def _work(bucket: Bucket, url: str, journals: Path, seconds: float) -> None:
    crowd = Crowd(bucket, url, journals)
    try:
        for _ in range(WORKERS):
            crowd.start()
        for job in JOBS:
            crowd.start(job)
        crowd.wait_until_at_work()
        begun = time.monotonic()
        # The time that is to pass; on a busy machine longer, until there was something of all.
        while (passed := time.monotonic() - begun) < seconds or (
            passed < AT_MOST and not all(_jobs(journals)[name] for name in DONE)
        ):
            time.sleep(0.5)
        crowd.end()
        reader = Crowd(bucket, url, journals / "final")
        reader.start(final=True)
        reader.end()
    finally:
        crowd.kill()


@pytest.mark.parametrize(
    "seconds", [10, pytest.param(60, marks=pytest.mark.slow)], ids=["short", "a-minute"]
)
@pytest.mark.timeout(400)
def test_nobody_notices(seconds: float, seaweedfs: Bucket, tmp_path: Path) -> None:
    """No call fails, no event is lost or doubled, and what is stored is as it should be."""
    journals, url = tmp_path / "journals", seaweedfs.fresh()
    (journals / "final").mkdir(parents=True)
    options = seaweedfs.storage_options
    Lake.open(url, storage_options=options, limits=LIMITS).close()
    _work(seaweedfs, url, journals, seconds)
    calls, did = [*read_journals(journals), *read_journals(journals / "final")], _jobs(journals)
    outcomes = Counter((call.kind, call.outcome) for call in calls if not call.final)
    print(f"calls {dict(outcomes)}, jobs {dict(did)}")  # noqa: T201 - what was endured
    for name in DONE:
        assert did[name], f"no {name}"
    assert outcomes["append", "ok"] > 10
    assert not [call for call in calls if call.outcome in ("failed", "unknown")]
    assert check(calls, NAMES) == []
    with Lake.open(url, storage_options=options) as lake:
        assert check_lake(lake).healthy
        compact(lake)
        sweep(lake, grace=0)
        assert check_lake(lake).findings == ()
