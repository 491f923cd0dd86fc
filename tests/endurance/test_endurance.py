"""Eight processes on a real server, killed and stopped, behind a network that fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from lakestore import Lake, Limits
from tests.endurance.journal import read_journals
from tests.endurance.worker import NAMES
from tests.simulator.checker import check
from tests.support.children import mortal
from tests.support.fault_proxy import Fault, FaultProxy, Sent, fault_proxy
from tests.support.servers import Bucket, Restartable, restartable

ROOT = Path(__file__).parents[2]
PROCESSES = 8
LIMITS = Limits(view_age=4, grace=12)
_PATIENCE_SECONDS = 90.0

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


class Crowd:
    """Workers that come and go."""

    def __init__(self, bucket: Bucket, url: str, journals: Path) -> None:
        self._bucket = bucket
        self._url = url
        self._journals = journals
        self._draw = Random(7)
        self._started = 0
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def start(self, *, final: bool = False) -> None:
        """Start a worker, or a reader of what is there in the end."""
        self._started += 1
        settings: dict[str, Any] = {
            "url": self._url,
            "storage_options": dict(self._bucket.storage_options),
            "journal": str(self._journals),
            "name": f"W{self._started}",
            "seed": self._draw.random(),
            "final": final,
        }
        command = [sys.executable, "-m", "tests.endurance.worker", json.dumps(settings)]
        with (self._journals / "workers.log").open("ab") as log:
            worker = subprocess.Popen(mortal(command), cwd=ROOT, stdout=log, stderr=log)
        self._running.append(worker)

    def disturb(self) -> None:
        """Kill a worker and start another one, or let one stand still for longer than the grace."""
        worker = self._draw.choice(self._running)
        if worker.poll() is not None:
            return
        if self._draw.random() < 0.6:
            worker.kill()
            worker.wait()
            self._running.remove(worker)
            self.killed += 1
            self.start()
        else:
            worker.send_signal(signal.SIGSTOP)
            time.sleep(LIMITS.grace * self._draw.choice((0.2, 1.1)))
            worker.send_signal(signal.SIGCONT)

    def endure(self, seconds: float) -> None:
        """Disturb for so long, and on until one append for each second was acknowledged.

        A server that was started a moment ago, or a machine that is busy, takes its time.
        """
        begun, enough = time.monotonic(), self._acknowledged() + seconds
        while (passed := time.monotonic() - begun) < seconds or self._acknowledged() < enough:
            assert passed < seconds + _PATIENCE_SECONDS, self._log()
            time.sleep(1.5)
            self.disturb()

    def _acknowledged(self) -> int:
        calls = read_journals(self._journals)
        return sum(call.kind == "append" and call.is_ok for call in calls)

    def wait_until_at_work(self) -> None:
        """Wait until each has begun its first call: to import ADK takes longer than most calls."""
        until = time.monotonic() + 90
        while len(list(self._journals.glob("*.jsonl"))) < self._started:
            assert time.monotonic() < until, self._log()
            time.sleep(0.1)

    def _log(self) -> str:
        return (self._journals / "workers.log").read_text()[-4000:]

    def end(self) -> None:
        """Tell all to end, and wait for them; none may have failed."""
        (self._journals / "stop").touch()
        for worker in self._running:
            assert worker.wait(120) == 0, self._log()
        self._running.clear()

    def kill(self) -> None:
        """End whatever runs, so that nothing outlives the test."""
        for worker in self._running:
            worker.kill()
            worker.wait()


def _endure(server: Restartable, weather: FaultProxy, journals: Path, seconds: float) -> Crowd:
    through = server.bucket.at(weather.url)
    url = through.fresh()
    with Lake.open(url, storage_options=server.bucket.storage_options, limits=LIMITS):
        pass
    crowd = Crowd(through, url, journals)
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
