"""Many processes that write to one user at once: they must not cost each other requests."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from lakestore import Lake

ROOT = Path(__file__).parents[2]
PROCESSES = 16
EVENTS = 25


def p99(writers: list[dict[str, Any]]) -> float:
    """Return the time in milliseconds that one append in a hundred took longer than."""
    seconds: list[float] = [each for writer in writers for each in writer["seconds"]]
    return statistics.quantiles(seconds, n=100)[98] * 1e3


def test_one_request_a_commit(tmp_path: Path) -> None:
    """16 processes with 16 sessions of one user and no shared state: one PUT a commit, no more."""
    folder = tmp_path / "lake"
    Lake.open(folder).close()
    command = ["-m", "tests.requests.writers", str(folder), str(PROCESSES), str(EVENTS)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=100
    )
    seen = json.loads(done.stdout)
    assert [writer["requests"] for writer in seen["together"]] == [{"PUT": EVENTS}] * PROCESSES
    print(  # noqa: T201 - recorded: how long it takes is the machine's doing
        f"p99 of an append: {p99(seen['alone']):.1f} ms by one process, {p99(seen['apart']):.1f} ms"
        f" by {PROCESSES} with a user each, {p99(seen['together']):.1f} ms by {PROCESSES} of one"
        " user"
    )
