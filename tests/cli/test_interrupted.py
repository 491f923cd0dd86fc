"""Ctrl-C ends a job at any time, without harm: a real signal to a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakestore import Lake
from lakestore.jobs import check
from lakestore.storage import LocalStore
from tests.support.answers import answers
from tests.support.clocks import ManualClock
from tests.support.sites import APP, USERS, Work

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start a command as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "lakestore.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(*arguments: str) -> str:
    """Run a command to its end, which must be a good one; return what it printed."""
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return output


def interrupted(is_time: Callable[[], bool], *arguments: str) -> str:
    """Start a command, send it SIGINT when it is time, and return its last words.

    It must end with 130 then, at once.
    """
    with start(*arguments) as process:
        until = time.monotonic() + PATIENCE
        while not is_time():
            assert process.poll() is None, "it ended before it was time"
            assert time.monotonic() < until
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        output, errors = process.communicate(timeout=PATIENCE)
        took = time.monotonic() - sent
    assert process.returncode == 130, errors
    assert took < 10, took
    assert output == ""
    (line,) = errors.splitlines()
    return line


def packs(folder: Path) -> int:
    """Return how many packs are stored."""
    return len(list((folder / "packs").rglob("*.parquet")))


def objects(folder: Path) -> int:
    """Return how many objects are stored."""
    return sum(1 for path in folder.rglob("*") if path.is_file() and ".tmp" not in path.parts)


def answered(folder: Path) -> dict[Any, Any]:
    """Return what a process answers that has just opened the lake, of which nothing is wrong."""
    with Lake.open(folder, read_only=True) as lake:
        report = check(lake)
        assert report.healthy, report.findings
        return answers(lake, APP, USERS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake whose jobs take a while, of which all is years old."""
    with Lake(LocalStore(tmp_path / "lake"), clock=ManualClock(), rollups=False) as lake:
        Work(lake).some(600)
    return tmp_path / "lake"


EXECUTORS: Sequence[tuple[str, ...]] = [
    (),
    ("--executor", "threads:2"),
    ("--executor", "processes:2"),
]


@pytest.mark.parametrize("executor", EXECUTORS, ids=["inline", "threads", "processes"])
def test_compact(executor: tuple[str, ...], folder: Path) -> None:
    """What was packed stands, no answer has changed, and the next one does the rest."""
    before = answered(folder)
    line = interrupted(lambda: is_at_work(folder), "compact", str(folder), *executor)
    assert line == (
        "stopped: what was packed stands, no answer has changed; the same command does the rest"
    )
    assert answered(folder) == before
    finished("compact", str(folder), *executor)
    assert "packed 0 events" in finished("compact", str(folder))
    assert answered(folder) == before
