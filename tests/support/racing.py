"""Racers: what a thread or a process does in a race for names. Importable by a new process.

A body names its writer and proves by a digest that it is whole, so a reader can tell parts and
mixtures from objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lakestore.clock import SystemClock, new_token
from lakestore.errors import AlreadyExistsError, NotFoundError
from lakestore.storage import LocalStore, Metrics, ObjectStore, RetryingStore, open_store

R = TypeVar("R")


class WaitsForAll(Protocol):
    """A barrier of threads or of processes."""

    def wait(self) -> int:
        """Return when everyone has come."""


class HasSet(Protocol):
    """An event of threads or of processes."""

    def is_set(self) -> bool:
        """Tell whether it has happened."""


def body_of(writer: int, size: int) -> bytes:
    """Return `size` bytes that name their writer and end with a digest of the rest."""
    text = (b"%08d" % writer) * (size // 8)
    return text + sha256(text).digest()


def writer_of(body: bytes) -> int:
    """Return who wrote `body`, sure that it is whole."""
    text, digest = body[:-32], body[-32:]
    assert text
    assert sha256(text).digest() == digest, f"a part or a mixture of {len(body)} bytes"
    return int(text[:8])


def race_key(turn: int) -> str:
    """Return what is raced for in a turn: now in a folder that is there, now in a new one."""
    return f"race/{turn:04}" if turn % 2 else f"race/new={turn:04}/below/{turn:04}"


def race(store: ObjectStore, writer: int, turns: int, size: int, barrier: WaitsForAll) -> list[int]:
    """Try to create one key a turn, all at the same moment; return the turns that were won."""
    won = []
    body = body_of(writer, size)
    for turn in range(turns):
        barrier.wait()
        try:
            store.put_if_absent(race_key(turn), body)
        except AlreadyExistsError:
            continue
        won.append(turn)
    return won


def race_in_folder(
    root: Path, writer: int, turns: int, size: int, barrier: WaitsForAll
) -> list[int]:
    """Race as a process of its own."""
    with short_switches():
        return race(LocalStore(root), writer, turns, size, barrier)


def race_in_bucket(
    url: str,
    options: Mapping[str, Any],
    writer: int,
    turns: int,
    size: int,
    barrier: WaitsForAll,
) -> list[int]:
    """Race as a process of its own, in a bucket."""
    store = open_bucket(url, options)
    try:
        return race(store, writer, turns, size, barrier)
    finally:
        store.close()


def open_bucket(url: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return a store as a lake has it, which sends again what was refused for the moment."""
    return RetryingStore(open_store(url, options), Metrics(), SystemClock(), new_token)


def watch(store: ObjectStore, keys: list[str], size: int, done: HasSet) -> int:
    """Read `keys` again and again until `done`; return how many whole objects were met.

    Fails on anything that is neither absent nor whole, by content, by size or in a listing.
    """
    met = 0
    last_round = False
    while not last_round:
        last_round = done.is_set()  # and once more after that
        for key in keys:
            try:
                writer_of(store.get(key))
                assert store.size(key) == size
                assert len(store.get_range(key, 0, size + 1)) == size
            except NotFoundError:
                continue
            met += 1
        assert {stored.size for stored in store.list("")} <= {size}
    return met


def watch_folder(root: Path, turns: int, size: int, done: HasSet) -> int:
    """Watch as a process of its own."""
    keys = [race_key(turn) for turn in range(turns)]
    return watch(LocalStore(root), keys, size, done)


@contextmanager
def short_switches() -> Iterator[None]:
    """Let threads of this process take turns a thousand times as often as they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(calls: list[Callable[[], R]]) -> list[R]:
    """Return the results of `calls`, each run in a thread of its own at the same time."""
    with short_switches(), ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
        return [future.result() for future in futures]


class Processes:
    """New processes that run functions, and what they return."""

    def __init__(self) -> None:
        # A fork would carry over locks of threads that it does not carry over.
        self.context = get_context("spawn")
        self._results = self.context.Queue()
        self._started: list[SpawnProcess] = []

    def start(self, call: Callable[..., R], *args: object) -> None:
        """Run `call(*args)` in a new process; both must be found by an import, or pickle."""
        number = len(self._started)
        process = self.context.Process(target=_report, args=(self._results, number, call, args))
        process.start()
        self._started.append(process)

    def results(self) -> list[object]:
        """Wait for all, and return what they returned, in the order of their start."""
        found = dict(self._results.get(timeout=60) for _ in self._started)
        for process in self._started:
            process.join()
        failures = [result for result in found.values() if isinstance(result, BaseException)]
        if failures:
            raise failures[0]
        return [found[number] for number in range(len(self._started))]

    def close(self) -> None:
        """End what still runs."""
        for process in self._started:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()
        self._results.close()
        self._results.join_thread()


class _Takes(Protocol):
    def put(self, item: tuple[int, object]) -> None: ...


def _report(
    results: _Takes, number: int, call: Callable[..., object], args: tuple[object, ...]
) -> None:
    result: object
    try:
        result = call(*args)
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever asks
        result = RuntimeError(f"{type(error).__name__}: {error}")
    results.put((number, result))
