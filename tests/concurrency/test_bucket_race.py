"""Races for names in buckets, and what a fork or an exit leaves of a client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from lakestore.log.commits import put_commit
from lakestore.storage import Metrics, ObjectStore
from tests.support.clocks import ManualClock
from tests.support.racing import (
    Processes,
    body_of,
    in_threads,
    open_bucket,
    race,
    race_in_bucket,
    race_key,
    writer_of,
)
from tests.support.servers import Bucket

ROOT = Path(__file__).parents[2]
THREADS = 8
PROCESSES = 3
PATIENCE = 60.0
SIZE = 4_096
TURNS = {"moto": 60, "fake_gcs": 200, "seaweedfs": 3, "ceph": 60}
"""SeaweedFS stalls for seconds when several write to one name."""
MARKS = {"ceph": [pytest.mark.ceph]}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in TURNS])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket on each server."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def turns(request: pytest.FixtureRequest) -> int:
    """How many rounds that server is given."""
    return TURNS[request.node.callspec.params["bucket"]]


@pytest.fixture
def processes() -> Iterator[Processes]:
    """New processes, none of which outlives the test."""
    started = Processes()
    yield started
    started.close()


FORKED = """
import os, sys
from lakestore.errors import UnsupportedStoreError
from lakestore.storage import open_store
store = open_store({url!r}, {options!r}, client="obstore")
store.put_if_absent("parent", b"x")
child = os.fork()
if child == 0:
    try:
        store.get("parent")
    except UnsupportedStoreError as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
store.put_if_absent("after", b"x")
sys.exit(code)
"""


def test_a_forked_child_is_told_that_obstore_is_not_for_it(moto: Bucket) -> None:
    """Obstore's threads stay with the parent: a child that went on would hang, and its parent."""
    program = FORKED.format(url=moto.fresh(), options=dict(moto.storage_options))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=PATIENCE, check=False)
    assert done.returncode == 7


def check_winners(store: ObjectStore, won: list[list[int]], turns: int) -> None:
    """Every turn has one winner, whose bytes stand there whole."""
    winners = {turn: [w for w, wins in enumerate(won) if turn in wins] for turn in range(turns)}
    assert {turn: len(who) for turn, who in winners.items()} == dict.fromkeys(range(turns), 1)
    standing = {turn: [writer_of(store.get(race_key(turn)))] for turn in range(turns)}
    assert standing == winners
    assert len(list(store.list(""))) == turns


def test_one_thread_wins(bucket: Bucket, turns: int) -> None:
    """Of threads that create one key at the same moment exactly one returns, every time."""
    store = open_bucket(bucket.fresh(), bucket.storage_options)
    barrier = Barrier(THREADS, timeout=PATIENCE)
    won = in_threads([partial(race, store, w, turns, SIZE, barrier) for w in range(THREADS)])

    check_winners(store, won, turns)
    store.close()


def test_one_process_wins(bucket: Bucket, turns: int, processes: Processes) -> None:
    """Of processes that create one key at the same moment exactly one returns, every time."""
    url = bucket.fresh()
    barrier = processes.context.Barrier(PROCESSES, timeout=PATIENCE)
    for writer in range(PROCESSES):
        processes.start(race_in_bucket, url, bucket.storage_options, writer, turns, SIZE, barrier)

    won = [result for result in processes.results() if isinstance(result, list)]
    store = open_bucket(url, bucket.storage_options)
    check_winners(store, won, turns)
    store.close()


def test_one_commit_a_version(bucket: Bucket, turns: int) -> None:
    """Racing writers of a log each learn the truth: one that it won, the others who did."""
    store = open_bucket(bucket.fresh(), bucket.storage_options)
    barrier = Barrier(THREADS, timeout=PATIENCE)
    rounds = min(turns, 30)

    def commit(writer: int) -> list[int]:
        seen = []
        ours = body_of(writer, 64)
        for turn in range(rounds):
            barrier.wait()
            there = put_commit(
                store,
                race_key(turn),
                ours,
                is_ours=lambda body: body == ours,
                clock=ManualClock(),
                metrics=Metrics(),
            )
            seen.append(writer if there is None else writer_of(there))
        return seen

    seen = in_threads([partial(commit, writer) for writer in range(THREADS)])

    assert all(each == seen[0] for each in seen)
    assert [writer_of(store.get(race_key(turn))) for turn in range(rounds)] == seen[0]
    store.close()


FORKING = """
import json, os, sys, threading
from lakestore.storage import open_store

url, options = sys.argv[1], json.loads(sys.argv[2])
store = open_store(url, options)
store.put_if_absent("before", b"x")
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        assert store.get("before") == b"x"
        store.put_if_absent(f"child-{number}", b"x")
        sys.exit(0)
    children.append(pid)
    store.put_if_absent(f"parent-{number}", b"x")
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
store.put_if_absent("after", b"x")
print(*(stored.key for stored in store.list("")))
"""


def test_a_fork_makes_a_client_of_its_own(bucket: Bucket) -> None:
    """Children that are forked while a client is connected, and their parent, go on, and end."""
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("there is no fork here")
    options = json.dumps(dict(bucket.storage_options))
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", FORKING, bucket.fresh(), options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    names = [f"{who}-{number}" for who in ("child", "parent") for number in range(3)]
    assert ended.stdout.split() == sorted(["before", "after", *names])
    # Nobody closed anything, and nothing complains.
    assert "Unclosed" not in ended.stderr
    assert "Traceback" not in ended.stderr
