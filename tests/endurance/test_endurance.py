"""Eight processes on a real server, killed and stopped, behind a network that fails."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from typing_extensions import override

from lakestore import Lake, Limits
from tests.endurance.crowd import Crowd
from tests.endurance.journal import read_journals
from tests.endurance.worker import NAMES
from tests.simulator.checker import check
from tests.support.fault_proxy import Fault, FaultProxy, Sent, fault_proxy
from tests.support.servers import Restartable, restartable

PROCESSES = 8
LIMITS = Limits(view_age=4, grace=12)

_FAULTS = (
    Fault("answer", status=503),
    Fault("answer", status=429),
    Fault("answer", status=500),
    Fault("reset"),
    Fault("swallow"),
    Fault("delay", seconds=0.5),
)
_FAULTY = 0.02


@dataclass(slots=True)
class Weather(FaultProxy):
    """A proxy that keeps no record, and lets something happen to one request in fifty."""

    draw: Random = field(default_factory=lambda: Random(1))
    passed: int = 0
    met: Counter[str] = field(default_factory=Counter)

    @override
    def fault(self, sent: Sent) -> Fault | None:
        self.passed += 1
        if self.draw.random() >= _FAULTY:
            return None
        fault = self.draw.choice(_FAULTS)
        self.met[str(fault.status) if fault.does == "answer" else fault.does] += 1
        return fault


def _endure(server: Restartable, weather: FaultProxy, journals: Path, seconds: float) -> Crowd:
    through = server.bucket.at(weather.url)
    url = through.fresh()
    with Lake.open(url, storage_options=server.bucket.storage_options, limits=LIMITS):
        pass
    crowd = Crowd(through, url, journals, LIMITS.grace)
    try:
        for _ in range(PROCESSES):
            crowd.start()
        crowd.wait_until_at_work()
        crowd.endure(seconds / 2)
        server.stop()
        time.sleep(2)
        server.start()
        crowd.endure(seconds / 2)
        crowd.end()
        readers = Crowd(server.bucket, url, journals / "final")
        for _ in range(2):  # the first completes what was left undone, then all see the same
            readers.start(final=True)
            readers.end()
    finally:
        crowd.kill()
    return crowd


# SeaweedFS takes a minute to stop, start and answer again: the slow tests have it.
@pytest.mark.parametrize("name", ["fake_gcs", pytest.param("seaweedfs", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "seconds", [10, pytest.param(60, marks=pytest.mark.slow)], ids=["short", "a-minute"]
)
@pytest.mark.timeout(400)
def test_every_promise_is_kept(name: str, seconds: float, tmp_path: Path) -> None:
    """Whatever happens to processes, server and network, the checker finds nothing wrong."""
    journals = tmp_path / "journals"
    (journals / "final").mkdir(parents=True)
    (tmp_path / "server").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(restartable(tmp_path / "server", name))
        weather = Weather("")
        stack.enter_context(fault_proxy(server.bucket.endpoint, weather))
        crowd = _endure(server, weather, journals, seconds)
    calls = [*read_journals(journals), *read_journals(journals / "final")]
    outcomes = Counter((call.kind, call.outcome) for call in calls)
    happened = f"killed {crowd.killed}, requests {weather.passed}, faults {dict(weather.met)}"
    print(f"{name} {seconds} s: {happened}, calls {dict(outcomes)}")  # noqa: T201 - the figures
    assert outcomes["append", "ok"] >= seconds
    assert crowd.killed
    assert check(calls, NAMES) == []
