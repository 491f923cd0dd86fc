"""Notebooks, a server and jobs in processes of their own, on one lake: every answer is exact."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakestore import Lake, Limits
from tests.endurance.sql_worker import ALIKE

ROOT = Path(__file__).parents[2]
WRITERS = ("w1", "w2")
WORKERS = [
    *(("write", name) for name in WRITERS),
    *(("pack", name) for name in ("p1", "p2")),
    *(("notebook", name) for name in ("n1", "n2")),
    ("cached", "server"),
    ("cached", "second"),
]
AT_MOST = 120.0

Told = list[tuple[float, float, int]]
"""When a step began and ended, and what was told."""


def _start(
    stack: ExitStack, url: Path, folder: Path, kind: str, name: str
) -> subprocess.Popen[str]:
    command = ["-m", "tests.endurance.sql_worker", kind, str(url), str(folder), name]
    pipe = subprocess.PIPE
    worker = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdin=pipe, stderr=pipe, text=True
    )
    stack.callback(worker.kill)
    return worker


def _told(folder: Path, kind: str, name: str) -> Told:
    path = folder / f"{kind}-{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(one[0], one[1], one[2]) for one in map(json.loads, lines)]


def _bounds(writers: list[Told], began: float, ended: float) -> tuple[int, int]:
    """Return how many events were acknowledged before a query, and begun before its end."""
    stored = sum(sum(done <= began for _, done, _ in told) for told in writers)
    begun = sum(sum(start <= ended for start, *_ in told) for told in writers)
    return stored, begun + len(writers)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_answer_is_exact(tmp_path: Path) -> None:
    """Each answer has all that was acknowledged before it was asked, once, and all views agree."""
    url, folder = tmp_path / "lake", tmp_path / "told"
    folder.mkdir()
    Lake.open(url, limits=Limits(view_age=1.5, grace=4.0)).close()
    with ExitStack() as stack:
        workers = [_start(stack, url, folder, *each) for each in WORKERS]
        begun, least = time.monotonic(), 8.0
        while (passed := time.monotonic() - begun) < AT_MOST:
            steps = [len(_told(folder, *each)) for each in WORKERS]
            if passed > least and min(steps) >= 8:
                break
            time.sleep(0.5)
        errors = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), errors
    writers = [_told(folder, "write", name) for name in WRITERS]
    for kind, name in WORKERS:
        if kind in ("notebook", "cached"):
            told = _told(folder, kind, name)
            counts = [count for *_, count in told]
            assert counts == sorted(counts)
            assert counts[0] < counts[-1]
            for began, ended, count in told:
                least_events, most = _bounds(writers, began, ended)
                assert least_events <= count <= most
    with Lake.open(url, read_only=True, catalog_cache=folder / "cache") as lake:
        ((*found,),) = lake.sql(ALIKE).fetchall()
        assert found == [sum(told[-1][2] for told in writers)] * len(found)
    assert sum(count for _, _, count in _told(folder, "pack", "p1")) > 0
