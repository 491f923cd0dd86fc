"""How far a job is, as someone at a terminal sees it, and as a log does."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_JOB = """
import sys, time
from lakestore import Lake
from lakestore.jobs import Progress
from lakestore.shell.progress import ProgressLine
with Lake.open("memory://progress") as lake, ProgressLine(lake) as progress:
    progress(Progress("packing", "a\x1b[31m", 1_000, 2_000, "commit"))
    time.sleep(float(sys.argv[1]))
print("done")
"""


def command(seconds: float) -> list[str]:
    """Return how to run a job that takes so long."""
    return [sys.executable, "-c", _JOB, str(seconds)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


def on_a_terminal(seconds: float) -> str:
    """Return all that reaches a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command(seconds), env=ENVIRONMENT, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                more = os.read(leader, 65_536)
            except OSError:  # Linux says so at its end
                break
            if not more:
                break
            shown += more
        process.wait(60)
    os.close(leader)
    return shown.decode()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_a_bar_moves_on_a_terminal() -> None:
    """It shows share, counts and time in one line, and nothing of it stays."""
    *lines, last = on_a_terminal(1.5).split("\r")
    shown = [line for line in lines if "packing" in line]
    assert len(shown) > 2
    for line in shown:
        assert line.startswith("a�[31m: packing  ████████░░░░░░░░  50 %  1,000 of 2,000 commits")
        assert len(line) < 80
    assert len({line.split("commits")[1] for line in shown}) > 1
    assert "packing" not in last
    assert lines[-2].strip() == ""
    assert "done" in lines[-1] + last


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_what_is_quick_shows_nothing() -> None:
    """Who does not have to wait is not told for how long."""
    assert on_a_terminal(0.0) == "done\r\n"


@pytest.mark.parametrize(
    ("seconds", "lines"), [(1.5, 0), pytest.param(10.5, 1, marks=pytest.mark.slow)]
)
def test_plain_lines_elsewhere(seconds: float, lines: int) -> None:
    """A log gets a line after ten seconds, then more rarely, with nothing that moves a cursor."""
    done = subprocess.run(
        command(seconds), env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"
    told = done.stderr.splitlines()
    assert len(told) == lines
    for line in told:
        assert line.startswith("a�[31m: packing, 50 %, 1,000 of 2,000 commits, 0:10, ")
