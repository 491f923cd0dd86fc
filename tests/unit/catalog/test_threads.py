from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Lock

import pytest

from lakestore.catalog import Catalog
from lakestore.storage import LocalStore, MemoryStore, Metrics, ObjectStore
from tests.support.faulty_store import InterruptedStore, Nth
from tests.support.lake_builder import a_log

Follow = Callable[[ObjectStore], Catalog]

COUNT = "select count(*) from events"


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Let threads take turns often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


class Progress:
    """How many events writers have begun to commit, and how many they have committed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begun = 0
        self.done = 0

    def commit(self, write: Callable[[], object]) -> None:
        """Do one commit of one event."""
        with self._lock:
            self.begun += 1
        write()
        with self._lock:
            self.done += 1


def test_every_count_is_exact_while_others_commit(tmp_path: Path, follow: Follow) -> None:
    """After a refresh all is there that was committed before it, and nothing twice."""
    store = LocalStore(tmp_path)
    catalog = follow(store)
    progress = Progress()
    writers, each = 3, 80

    def write(writer: int) -> None:
        log = a_log(store, f"s{writer}").create()
        for number in range(each):
            progress.commit(partial(log.say, f"{writer}-{number}"))
            if number % 25 == 24:
                log.roll_up().sweep(log.version - 5)

    def read(_reader: int) -> int:
        looks = 0
        while progress.done < writers * each:
            before = progress.done
            catalog.refresh()
            ((n, distinct),) = catalog.sql(
                "select count(*), count(distinct event_id) from events"
            ).fetchall()
            assert before <= n <= progress.begun
            assert n == distinct
            looks += 1
        return looks

    with ThreadPoolExecutor() as threads:
        writing = [threads.submit(write, writer) for writer in range(writers)]
        reading = [threads.submit(read, reader) for reader in range(2)]
        for written in writing:
            written.result()
        for looked in reading:
            assert looked.result() > 0
    catalog.refresh()
    assert catalog.sql(COUNT).fetchall() == [(writers * each,)]
    dense = "select bool_and(version - 2 = n) from (select version, row_number() over"
    dense += " (partition by session_id order by version) - 1 as n from events)"
    assert catalog.sql(dense).fetchall() == [(True,)]


def test_many_threads_query_at_once(store: MemoryStore, catalog: Catalog) -> None:
    """Each query has a cursor of its own: no thread gets another's answer."""
    for number in range(8):
        log = a_log(store, f"s{number}").create()
        log.say(*(str(i) for i in range(number + 1)))
    catalog.refresh()
    barrier = Barrier(8)

    def ask(number: int) -> None:
        barrier.wait()
        for _ in range(40):
            query = "select count(*) from events where session_id = ?"
            assert catalog.sql(query, [f"s{number}"]).fetchall() == [(number + 1,)]
            table = catalog.scan("sessions", ["events"], "session_id = ?", [f"s{number}"])
            assert table.read_all()["events"].to_pylist() == [number + 1]

    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(ask, number) for number in range(8)]:
            future.result()


def test_refreshes_at_once_are_shared(store: MemoryStore, follow: Follow, metrics: Metrics) -> None:
    """Calls that wait for a running refresh share the next one, and see what came before them."""
    log = a_log(store).create()
    waiting, go = Event(), Event()

    def stall() -> None:
        waiting.set()
        assert go.wait(60)

    catalog = follow(InterruptedStore(store, Nth("list"), stall, when="after"))
    with ThreadPoolExecutor(6) as threads:
        first = threads.submit(catalog.refresh)
        assert waiting.wait(60)
        log.say("a")
        begun = Barrier(6)

        def refresh() -> int:
            begun.wait()
            catalog.refresh()
            ((n,),) = catalog.sql(COUNT).fetchall()
            return int(n)

        others = [threads.submit(refresh) for _ in range(5)]
        begun.wait()
        go.set()
        first.result()
        assert [other.result() for other in others] == [1] * 5
    # One each would be six, of three; how many wait together is the scheduler's choice.
    assert metrics.requests["LIST"] < 6 * 3
