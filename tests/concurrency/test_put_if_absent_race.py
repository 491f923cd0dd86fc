"""Races for names: of any number of racers exactly one wins, and nobody sees part of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Barrier, Event

import pytest

from lakestore.log.commits import put_commit
from lakestore.storage import LocalStore, MemoryStore, Metrics, ObjectStore
from tests.support.clocks import ManualClock
from tests.support.racing import (
    Processes,
    body_of,
    in_threads,
    race,
    race_in_folder,
    race_key,
    watch,
    watch_folder,
    writer_of,
)

THREADS = 8
PROCESSES = 4
PATIENCE = 30.0  # a racer that fails must not leave the others waiting
TURNS = 200
SIZE = 4_096 + 32
LARGE = 262_144 + 32


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store that threads can share."""
    return LocalStore(tmp_path) if request.param == "folder" else MemoryStore("race")


@pytest.fixture
def processes() -> Iterator[Processes]:
    """New processes, none of which outlives the test."""
    started = Processes()
    yield started
    started.close()


def check_winners(store: ObjectStore, won: list[list[int]], turns: int) -> None:
    """Every turn has one winner, whose bytes stand there whole."""
    winners = {turn: [w for w, wins in enumerate(won) if turn in wins] for turn in range(turns)}
    assert {turn: len(who) for turn, who in winners.items()} == dict.fromkeys(range(turns), 1)
    standing = {turn: [writer_of(store.get(race_key(turn)))] for turn in range(turns)}
    assert standing == winners
    assert len(list(store.list(""))) == turns


def test_one_thread_wins(store: ObjectStore) -> None:
    """Of threads that create one key at the same moment exactly one returns, every time."""
    barrier = Barrier(THREADS, timeout=PATIENCE)
    won = in_threads([partial(race, store, w, TURNS, SIZE - 32, barrier) for w in range(THREADS)])

    check_winners(store, won, TURNS)


def test_one_thread_wins_over_stores_of_its_own(tmp_path: Path) -> None:
    """Threads that each opened the folder for themselves are no less excluded."""
    barrier = Barrier(THREADS, timeout=PATIENCE)
    stores = [LocalStore(tmp_path) for _ in range(THREADS)]
    turns = TURNS // 2
    won = in_threads(
        [partial(race, store, w, turns, SIZE - 32, barrier) for w, store in enumerate(stores)]
    )

    check_winners(stores[0], won, turns)


def test_one_process_wins(tmp_path: Path, processes: Processes) -> None:
    """Of processes that create one key at the same moment exactly one returns, every time."""
    barrier = processes.context.Barrier(PROCESSES, timeout=PATIENCE)
    for writer in range(PROCESSES):
        processes.start(race_in_folder, tmp_path, writer, TURNS, SIZE - 32, barrier)

    won = [result for result in processes.results() if isinstance(result, list)]
    check_winners(LocalStore(tmp_path), won, TURNS)


def test_threads_see_whole_objects_only(store: ObjectStore) -> None:
    """A reader that looks all the time meets an object absent or whole, never in between."""
    turns, readers, writers = 20, 2, 3
    barrier, done = Barrier(writers, timeout=PATIENCE), Event()
    keys = [race_key(turn) for turn in range(turns)]

    def write(writer: int) -> int:
        try:
            return len(race(store, writer, turns, LARGE - 32, barrier))
        finally:
            done.set()

    calls: list[Callable[[], int]] = [partial(write, writer) for writer in range(writers)]
    calls += [partial(watch, store, keys, LARGE, done) for _ in range(readers)]
    results = in_threads(calls)

    assert sum(results[:writers]) == turns
    assert min(results[writers:]) > 0


def test_processes_see_whole_objects_only(tmp_path: Path, processes: Processes) -> None:
    """So does a reader in another process."""
    turns, writers = 30, 2
    done = processes.context.Event()
    processes.start(watch_folder, tmp_path, turns, LARGE, done)
    store = LocalStore(tmp_path)
    threads = Barrier(writers, timeout=PATIENCE)
    try:
        in_threads([partial(race, store, w, turns, LARGE - 32, threads) for w in range(writers)])
    finally:
        done.set()

    (met,) = processes.results()
    assert isinstance(met, int)
    assert met >= turns


def test_one_commit_a_version(store: ObjectStore) -> None:
    """Racing writers of a log each learn the truth: one that it won, the others who did."""
    barrier = Barrier(THREADS, timeout=PATIENCE)
    metrics, clock = Metrics(), ManualClock()

    def commit(writer: int) -> list[int]:
        seen = []
        ours = body_of(writer, 64)
        for turn in range(TURNS // 4):
            barrier.wait()
            there = put_commit(
                store,
                race_key(turn),
                ours,
                is_ours=lambda body: body == ours,
                clock=clock,
                metrics=metrics,
            )
            seen.append(writer if there is None else writer_of(there))
        return seen

    seen = in_threads([partial(commit, writer) for writer in range(THREADS)])

    assert all(each == seen[0] for each in seen)
    assert [writer_of(store.get(race_key(turn))) for turn in range(TURNS // 4)] == seen[0]
    assert metrics.conflicts == (THREADS - 1) * (TURNS // 4)
    assert clock.slept == []
