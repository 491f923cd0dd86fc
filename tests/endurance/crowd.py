"""Processes that work on one lake, and come and go. Owns how they are started and ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.endurance.journal import read_journals
from tests.support.children import mortal
from tests.support.servers import Bucket

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 90.0


class Crowd:
    """Workers that come and go."""

    def __init__(self, bucket: Bucket, url: str, journals: Path, grace: float = 0.0) -> None:
        """Take where they work.

        Args:
            bucket: How they reach it.
            url: Of the lake.
            journals: The folder of their journals.
            grace: The lake's, for `disturb`.
        """
        self._grace = grace
        self._bucket = bucket
        self._url = url
        self._journals = journals
        self._draw = Random(7)
        self._started = 0
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def start(self, job: str = "", *, final: bool = False) -> None:
        """Start a worker, one that runs a job, or a reader of what is there in the end."""
        self._started += 1
        settings: dict[str, Any] = {
            "url": self._url,
            "storage_options": dict(self._bucket.storage_options),
            "journal": str(self._journals),
            "name": f"W{self._started}",
            "seed": self._draw.random(),
            "final": final,
            "job": job,
        }
        program = "tests.endurance.upkeep" if job else "tests.endurance.worker"
        command = [sys.executable, "-m", program, json.dumps(settings)]
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
            time.sleep(self._grace * self._draw.choice((0.2, 1.1)))
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
