"""`--executor`: where a job of the command line runs, threads and processes here or a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner, Result
from distributed import Client, LocalCluster

from lakestore import Lake
from lakestore.cli import main
from lakestore.errors import InputError, StorageError
from lakestore.jobs import check, compact
from lakestore.shell.executors import Where
from tests.support.answers import answers
from tests.support.archives import APP, Busy
from tests.support.servers import KEY, SECRET, Bucket, free_ports

ROOT = Path(__file__).parents[2]
USERS = ("ana", "ben", "ü/3")


def run(*arguments: str | Path) -> Result:
    """Run a command as the shell would."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two worker processes, which know no credentials from their environment."""
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


def service_url(bucket: Bucket, url: str) -> str:
    """Return the URL with all that a process needs to reach it, credentials too."""
    options = {"key": KEY, "secret": SECRET, "endpoint_url": bucket.endpoint, "region": "us-east-1"}
    return f"lakestore+{url}?{urlencode(options)}"


def filled(url: str, options: Mapping[str, Any] | None = None, steps: int = 60) -> dict[Any, Any]:
    """Fill a lake, and return what it answers."""
    with Lake.open(url, storage_options=options) as lake:
        Busy(lake, USERS).work(steps)
    return answered(url, options)


def answered(url: str, options: Mapping[str, Any] | None = None) -> dict[Any, Any]:
    """Return what a process answers that has just opened the lake, of which nothing is wrong."""
    with Lake.open(url, storage_options=options, read_only=True) as lake:
        assert check(lake).healthy
        return answers(lake, APP, USERS)


def worker_pids(cluster: LocalCluster) -> set[int]:
    """Return the ids of the cluster's processes."""
    with Client(cluster, set_as_default=False) as client:
        return set(client.run(os.getpid).values())


@pytest.mark.slow
def test_dask_packs_a_bucket(cluster: LocalCluster, seaweedfs: Bucket) -> None:
    """Tasks run in the worker processes of a cluster, on S3, and no answer changes."""
    assert len(worker_pids(cluster) - {os.getpid()}) == 2
    url, options = seaweedfs.fresh(), seaweedfs.storage_options
    before = filled(url, options)
    with (
        Client(cluster, set_as_default=False) as client,
        client.get_executor() as executor,
        Lake.open(url, storage_options=options) as lake,
    ):
        assert compact(lake, executor=executor, slice_commits=10).events > 0
        stored = Counter(key.partition("/")[0] for key in lake.environment.store.names(""))
        assert stored["packs"] > 2
        # Packs are the workers' work: this process has put what it published, and no more.
        assert lake.metrics.requests["PUT"] == stored["runs"] + stored["manifests"]
    assert answered(url, options) == before


def test_dask_on_the_command_line(cluster: LocalCluster, moto: Bucket) -> None:
    """The workers reach the bucket by what the command was given, and no log tells it."""
    url = moto.fresh()
    before = filled(url, moto.storage_options)
    where = cluster.scheduler_address.replace("tcp://", "dask://")
    done = run("compact", service_url(moto, url), "--executor", where)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("packed ")
    assert answered(url, moto.storage_options) == before
    assert SECRET not in str(cluster.get_logs()) + done.output


def test_what_fails_on_a_cluster_tells_no_credentials(
    cluster: LocalCluster, seaweedfs: Bucket
) -> None:
    """A worker that is refused says so; neither its error nor a log holds what is secret."""
    url, wrong = seaweedfs.fresh(), "not-the-secret-0123456789"
    filled(url, seaweedfs.storage_options)
    with (
        Lake.open(url, storage_options=seaweedfs.storage_options) as lake,
        Client(cluster, set_as_default=False) as client,
        client.get_executor() as executor,
    ):
        lake.storage_options = {**seaweedfs.storage_options, "secret": wrong}
        with pytest.raises(StorageError) as refused:
            compact(lake, executor=executor)
    logs = str(cluster.get_logs())
    assert "Compute Failed" in logs
    assert wrong not in logs + str(refused.value)
    assert SECRET not in logs


@pytest.mark.parametrize("where", ["threads:3", "processes:2"])
def test_here(where: str, tmp_path: Path) -> None:
    """Threads and processes are made for the job, and gone with it; a prune packs there, too."""
    url = str(tmp_path / "lake")
    before = filled(url)
    assert run("compact", url, "--executor", where).exit_code == 0
    assert answered(url) == before
    with Lake.open(url) as lake:
        Busy(lake, ("dan",), seed=2).work(20)
    days = ("--older-than-days", "9000")
    assert run("prune", "events", url, *days, "--yes", "--executor", where).exit_code == 0
    assert "0 rows" in run("compact", url).output
    assert not {"lakestore-task"} & {each.name.rpartition("_")[0] for each in enumerate_threads()}


@pytest.mark.parametrize(
    "where", ["threads", "threads:0", "threads:-1", "fibers:2", "dask://host", "dask://host:0", ""]
)
def test_a_value_that_makes_no_sense(where: str, tmp_path: Path) -> None:
    """Whoever mistypes is told how to write it, with exit code 2, before anything is opened."""
    refused = run("compact", tmp_path / "lake", "--executor", where)
    assert refused.exit_code == 2
    assert "threads:4, processes:2 or dask://host:port" in refused.output


def test_dask_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra; whoever lacks it is told how to install it."""
    filled(str(tmp_path / "lake"), steps=5)
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused = run("compact", tmp_path / "lake", "--executor", "dask://127.0.0.1:8786")
    assert refused.exit_code == 1
    assert refused.output.count("\n") == 1
    assert "pip install 'lakestore[dask]'" in refused.output


def test_a_scheduler_that_is_not_there(tmp_path: Path) -> None:
    """One line says that nobody answers, and where."""
    filled(str(tmp_path / "lake"), steps=5)
    (port,) = free_ports(1)
    refused = run("compact", tmp_path / "lake", "--executor", f"dask://127.0.0.1:{port}")
    assert refused.exit_code == 1
    assert refused.output == f"Error: no Dask scheduler answers. address='127.0.0.1:{port}'\n"


def test_sessions_are_pruned_here(tmp_path: Path) -> None:
    """Where there is nothing to pack, an executor would do nothing, and that is said."""
    options = ("--idle-days", "3", "--executor", "threads:2")
    refused = run("prune", "sessions", tmp_path / "lake", *options)
    assert refused.exit_code == 2
    assert "--executor" in refused.output


def test_another_lake_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """A worker that finds another lake at the URL, or none, does nothing and makes none."""
    filled(str(tmp_path / "lake"), steps=20)
    filled(str(tmp_path / "other"), steps=5)
    with Lake.open(tmp_path / "lake") as lake, Where("processes", "1").open() as executor:
        for url in (str(tmp_path / "other"), str(tmp_path / "none")):
            lake.url = url
            with pytest.raises(InputError, match="must reach the same bucket or folder"):
                compact(lake, executor=executor)
    assert not (tmp_path / "none").exists()


def test_a_process_that_dies() -> None:
    """It is one error, of the kind that says to run it again."""
    with (
        pytest.raises(StorageError, match="has died"),
        Where("processes", "1").open() as executor,
    ):
        executor.submit(os._exit, 1).result()


_PARENT = """
import os, time
from lakestore.shell.executors import Where
if __name__ == "__main__":
    with Where("processes", "2").open() as executor:
        print(*{executor.submit(os.getpid).result() for _ in range(20)}, flush=True)
        time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_no_process_outlives_the_command(tmp_path: Path) -> None:
    """Processes of an executor end with the one that made them, also when that is killed."""
    (tmp_path / "parent.py").write_text(_PARENT)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        children = [Path("/proc") / pid for pid in parent.stdout.readline().split()]
        assert children
        assert all(child.exists() for child in children)
        parent.kill()
    until = time.monotonic() + 30
    while any(child.exists() for child in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(child.exists() for child in children)
