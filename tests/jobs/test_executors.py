"""A compaction runs in any executor, and may be stopped."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from lakestore import Lake
from lakestore.errors import InputError
from lakestore.jobs import Progress, compact
from lakestore.storage import LocalStore
from tests.support.answers import answers
from tests.support.archives import APP, Busy, Site, delete_packed, newest
from tests.support.racing import short_switches
from tests.support.servers import Bucket

USERS = ("ana", "ben", "ü/3", "z" * 200)


def processes(method: str) -> Callable[[], Executor]:
    """Return what makes an executor of two new processes."""
    return lambda: ProcessPoolExecutor(2, multiprocessing.get_context(method))


@pytest.mark.parametrize(
    "make",
    [lambda: ThreadPoolExecutor(3), processes("spawn"), processes("forkserver")],
    ids=["threads", "spawned", "forkserver"],
)
def test_it_runs_in(tmp_path: Path, make: Callable[[], Executor]) -> None:
    """What others pack, the caller publishes."""
    with Lake.open(tmp_path / "lake") as lake, make() as executor:
        busy = Busy(lake, USERS)
        for _ in range(2):
            busy.work(60)
            with Lake.open(tmp_path / "lake") as before_it:
                before = answers(before_it, APP, USERS)
            steps: list[Progress] = []
            report = compact(lake, executor=executor, progress=steps.append, slice_commits=20)
            assert report.events > 0
            packing = [step for step in steps if step.doing == "packing"]
            assert [step.done for step in packing] == sorted(step.done for step in packing)
            assert len(packing) > 2
            assert packing[-1].done == packing[-1].total
            delete_packed(lake, LocalStore(tmp_path / "lake"))
            with Lake.open(tmp_path / "lake") as after_it:
                assert answers(after_it, APP, USERS) == before
        assert compact(lake, executor=executor).events == 0


def test_processes_reach_a_bucket_as_their_caller_does(moto: Bucket) -> None:
    """Storage options go with a task, whatever they hold, and so does the client."""
    options = moto.storage_options
    assert any(isinstance(value, dict) for value in options.values())
    url = moto.fresh()
    with (
        Lake.open(url, storage_options=options, client="obstore") as lake,
        processes("spawn")() as executor,
    ):
        Busy(lake, USERS).work(40)
        before = answers(lake, APP, USERS)
        assert compact(lake, executor=executor, slice_commits=10).events > 0
        with Lake.open(url, storage_options=options) as after_it:
            assert answers(after_it, APP, USERS) == before


def test_a_lake_in_memory_is_one_processs_own() -> None:
    """That is said, in words, and threads are fine."""
    with Lake.open("memory://executors") as lake:
        Busy(lake, USERS).work(20)
        with processes("spawn")() as executor, pytest.raises(InputError, match="in memory"):
            compact(lake, executor=executor)
        with ThreadPoolExecutor(2) as threads:
            assert compact(lake, executor=threads).events > 0


class StopError(Exception):
    """What a caller's progress raises."""


def test_it_may_be_stopped_at_any_step(site: Site) -> None:
    """What was published until then stays, and the next one does the rest."""
    busy = Busy(site.lake())
    busy.work(100)
    before = answers(site.lake(), APP, busy.users)
    whole = compact(site.lake(), app_name="nobody's").events
    assert whole == 0

    def stop(_progress: Progress) -> None:
        if newest(busy.lake).number > known:
            raise StopError

    for _ in range(3):
        known = newest(busy.lake).number
        with pytest.raises(StopError):
            compact(busy.lake, progress=stop, slice_commits=15)
        assert answers(site.lake(), APP, busy.users) == before
    assert compact(busy.lake, slice_commits=15).events > 0
    delete_packed(busy.lake, site.store)
    assert answers(site.lake(), APP, busy.users) == before


def test_two_hosts_at_once(tmp_path: Path) -> None:
    """They do no harm, and most of the work once: they begin apart and see what the other did."""
    with Lake.open(tmp_path / "lake") as lake:
        busy = Busy(lake, tuple(f"user{number}" for number in range(12)))
        busy.work(400)
        with Lake.open(tmp_path / "lake") as other:
            before = answers(other, APP, busy.users)
        events = []

        def work() -> None:
            with Lake.open(tmp_path / "lake") as host:
                events.append(compact(host, slice_commits=20).events)

        with short_switches():
            hosts = [Thread(target=work) for _ in range(2)]
            for host in hosts:
                host.start()
            for host in hosts:
                host.join()
        total = compact(lake).events + sum(events)
        stored = sum(pack.rows - pack.dead for pack in newest(lake).table("events").packs)
        print(f"two hosts packed {events} rows, of which {stored} count")  # noqa: T201
        assert total < 2 * stored
        with Lake.open(tmp_path / "lake") as after_it:
            assert answers(after_it, APP, busy.users) == before
