"""The file that keeps what a catalog has read: for the next process, and for nobody else."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from lakestore import Lake
from lakestore.catalog import cache, cache_file
from lakestore.errors import InputError
from lakestore.jobs import compact, sweep
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import SECRET, USER, erase, peopled
from tests.support.lake_builder import a_log
from tests.support.sites import Site, Work

ROOT = Path(__file__).parents[3]
ALL = "from (select * exclude token from events) order by session_id, version, ordinal"
SESSIONS = "from sessions order by session_id"


@pytest.fixture
def clock() -> ManualClock:
    """The time that lakes are told."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """A lake of three sessions."""
    store = MemoryStore("cached", clock=clock)
    Lake(store, clock=clock).close()
    for name in ("s1", "s2", "s3"):
        a_log(store, name).create({"of": name}).say("a", "b", delta={"k": name})
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "caches" / "mine"


def asked(store: MemoryStore, folder: Path | None, clock: ManualClock) -> tuple[object, int]:
    """What a new process shows, and how many objects it reads for that."""
    with Lake(store, clock=clock, read_only=True, catalog_cache=folder) as lake:
        before = lake.metrics.requests
        found = [lake.sql(query).fetchall() for query in (ALL, SESSIONS)]
        return found, lake.metrics.requests_since(before).get("GET", 0)


def same(store: MemoryStore, folder: Path, clock: ManualClock) -> int:
    """Show that the file changes no answer; return how many objects were read."""
    found, read = asked(store, folder, clock)
    assert found == asked(store, None, clock)[0]
    return read


def only(folder: Path) -> Path:
    """The one file that there is."""
    (path,) = folder.iterdir()
    return path


def test_what_was_read_is_not_read_again(
    store: MemoryStore, folder: Path, clock: ManualClock
) -> None:
    """A new process reads the marker and what is new; deleted and renewed sessions are right."""
    assert same(store, folder, clock) == 7
    assert same(store, folder, clock) == 1
    a_log(store, "s4").create()
    log = a_log(store, "s2")
    log.version = 2
    log.delete()
    assert same(store, folder, clock) == 3
    log.create().say("c")
    assert same(store, folder, clock) == 3
    assert same(store, folder, clock) == 1
    assert only(folder).suffix == ".duckdb"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_it_is_right_through_compactions(folder: Path) -> None:
    """Whatever is packed and swept between two processes, each shows what is there."""
    site = Site()
    work = Work(site.lake)
    for number in range(6):
        work.some(15)
        if number % 2:
            compact(site.lake, pack_bytes=2_000)
        if number == 3:
            site.pass_grace()
            sweep(site.lake)
        assert isinstance(site.store, MemoryStore)
        same(site.store, folder, site.clock)


def test_one_that_does_not_fit_is_made_anew(
    store: MemoryStore, folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another version, too old, damaged, or not finished: it is never used; one file is left."""
    assert same(store, folder, clock) == 7
    monkeypatch.setattr(cache_file, "CONTENT_VERSION", 0)
    assert same(store, folder, clock) == 7
    path = only(folder)
    clock.advance(cache_file.LIFE)
    assert same(store, folder, clock) == 7
    path.write_bytes(path.read_bytes()[:5_000])
    assert same(store, folder, clock) == 7
    with duckdb.connect(str(path)) as changed:
        changed.execute("delete from about")
    assert same(store, folder, clock) == 7
    assert only(folder) == path
    assert same(store, folder, clock) == 1


def test_each_lake_has_its_own(store: MemoryStore, folder: Path, clock: ManualClock) -> None:
    """Another lake, also one made anew at the same URL, never sees what is in the file."""
    assert same(store, folder, clock) == 7
    other = MemoryStore("cached", clock=clock)
    Lake(other, clock=clock).close()
    a_log(other, "s1").create()
    assert same(other, folder, clock) == 2
    assert len(list(folder.iterdir())) == 2
    assert same(store, folder, clock) == 1


def test_who_was_erased_is_in_no_byte_of_it(tmp_path: Path, folder: Path) -> None:
    """R104: the first refresh after an erasure leaves no id and no word of the user in the file."""
    clock = ManualClock()
    aging = AgingLake(MemoryStore("aging", clock=clock), clock)
    peopled(aging, compactions=0)
    with aging.open(read_only=True, catalog_cache=folder) as lake:
        count = lake.sql("select count(*) from events").fetchall()
    held = only(folder).read_bytes()
    assert SECRET.encode() in held
    assert USER.encode() in held
    with aging.open(read_only=True, catalog_cache=folder) as lake:
        lake.sql("select 1")
        erase(aging)
        assert lake.sql("select count(*) from events").fetchall() < count
        assert lake.sql("select distinct user_id from events").fetchall() == [("ben",)]
        for path in folder.iterdir():
            assert f"{SECRET}-{USER}".encode() not in path.read_bytes()
            assert USER.encode() not in path.read_bytes()
    assert USER.encode() not in only(folder).read_bytes()
    assert isinstance(aging.store, MemoryStore)
    assert same(aging.store, folder, clock) >= 1
    assert USER.encode() not in only(folder).read_bytes()


def test_what_is_not_needed_goes(
    store: MemoryStore, folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose rows were mostly packed or deleted since is written anew."""
    monkeypatch.setattr(cache_file, "_SPARE_ROWS", 100)
    log = a_log(store, "long").create()
    log.say(*(str(number) for number in range(200)))
    same(store, folder, clock)
    with Lake(store, clock=clock) as lake:
        compact(lake)
    same(store, folder, clock)
    with duckdb.connect(str(only(folder)), read_only=True) as file:
        assert file.sql("select count(*) from rows").fetchall() == [(0,)]
    assert same(store, folder, clock) > 1  # what is packed is read from where it lies


def test_many_new_rows_are_written_at_once(
    store: MemoryStore, folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh that reads much holds no second copy of it; the file has it all the same."""
    same(store, folder, clock)
    monkeypatch.setattr(cache, "_MOST_ROWS", 2)
    a_log(store, "s4").create().say("a", "b", "c")
    assert same(store, folder, clock) == 3
    assert same(store, folder, clock) == 1


def test_only_one_has_it(
    store: MemoryStore, folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A second lake of one process goes on without it, and says so; its answers are right."""
    with Lake(store, clock=clock, catalog_cache=folder) as lake:
        assert lake.sql("select count(*) from events").fetchall() == [(6,)]
        assert same(store, folder, clock) == 7
        assert "in use in this process" in caplog.text
        connection = lake.connect()
        assert connection.sql("select count(*) from events").fetchall() == [(6,)]
    assert same(store, folder, clock) == 1


SCRIPT = """
import os, sys
from lakestore import Lake
from tests.support.lake_builder import a_log
url, folder, mode = sys.argv[1:]
lake = Lake.open(url, read_only=True, catalog_cache=folder)
print(lake.sql("select count(*) from events").fetchall()[0][0], flush=True)
if mode == "fork":
    child = os.fork()
    if child == 0:
        print(lake.sql("select count(*) from events").fetchall()[0][0], flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(lake.sql("select count(*) from events").fetchall()[0][0], flush=True)
if mode == "wait":
    sys.stdin.readline()
while mode == "die":
    lake.sql("select 1")
    print("refreshed", flush=True)
"""


def run(url: Path, folder: Path, mode: str) -> subprocess.Popen[str]:
    """Start a process that asks a lake by way of a file."""
    command = [sys.executable, "-c", SCRIPT, str(url), str(folder), mode]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Lake]:
    """A lake in a folder, of one session with one event."""
    with Lake.open(tmp_path / "lake") as lake:
        a_log(lake.environment.store, "s0").create().say("a")
        yield lake


def test_another_process_goes_on_without_it(local: Lake, folder: Path) -> None:
    """While one process has the file, a second says so and answers from the lake."""
    first = run(Path(local.url), folder, "wait")
    assert first.stdout is not None
    assert first.stdout.readline() == "1\n"
    second = run(Path(local.url), folder, "end")
    out, err = second.communicate(timeout=60)
    assert (out, second.returncode) == ("1\n", 0)
    assert "in use by another process" in err
    assert first.communicate("\n", timeout=60)[1] == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_leaves_it_to_the_parent(local: Lake, folder: Path) -> None:
    """A child answers without the file, both end, and what the parent kept is whole."""
    out, err = run(Path(local.url), folder, "fork").communicate(timeout=60)
    assert (out, err) == ("1\n1\n1\n", "")
    with Lake.open(local.url, read_only=True, catalog_cache=folder) as lake:
        before = lake.metrics.requests
        assert lake.sql("select count(*) from events").fetchall() == [(1,)]
        assert lake.metrics.requests_since(before)["GET"] == 1


@pytest.mark.parametrize("rows", [3, 40])
def test_a_killed_process_leaves_a_whole_file(local: Lake, folder: Path, rows: int) -> None:
    """Killed between or within refreshes, the next process shows all that there is, once."""
    victim = run(Path(local.url), folder, "die")
    assert victim.stdout is not None
    log = a_log(local.environment.store).create()
    for number in range(rows):
        victim.stdout.readline()
        log.say(*(f"{number} {place}" for place in range(20)))
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.communicate()
    with Lake.open(local.url, read_only=True, catalog_cache=folder) as lake:
        before = lake.metrics.requests
        assert lake.sql("select count(*) from events").fetchall() == [(1 + 20 * rows,)]
        assert lake.sql(ALL).fetchall() == local.sql(ALL).fetchall()
        assert lake.metrics.requests_since(before)["GET"] < 3 + rows


def test_what_fails_costs_the_file_alone(
    store: MemoryStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that cannot be made is a warning, and queries are right."""
    with caplog.at_level(logging.WARNING):
        assert same(store, Path("/proc/self/nowhere"), clock) == 6 + 1
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize("given", ["", 3, b"x"])
def test_it_is_a_folder(store: MemoryStore, tmp_path: Path, given: object) -> None:
    """What is no folder is refused when the lake is opened."""
    (tmp_path / "file").touch()
    for wrong in (given, tmp_path / "file"):
        with pytest.raises(InputError, match="catalog_cache"):
            Lake(store, catalog_cache=wrong)  # type: ignore[arg-type]  # what is tried
