"""Where a job runs its tasks, as the command line names it. Owns no scheduler: each is another's.

`threads:4` and `processes:2` are made for the one job and gone with it; `dask://host:port` is a
cluster that runs already.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import click

from lakestore.errors import InputError, StorageError

_HERE = re.compile(r"(threads|processes):([1-9][0-9]{0,3})")
_DASK = re.compile(r"dask://((?:[^/:@\s\[\]]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5})/?")
_CONNECT_SECONDS = 5.0
_WORKER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Where:
    """Names an executor."""

    kind: str
    """`threads`, `processes` or `dask`."""
    what: str
    """How many, or the address of the scheduler."""

    @contextmanager
    def open(self) -> Iterator[Executor]:
        """Yield the executor, and end it; when the job has failed, without waiting for its tasks.

        Raises:
            InputError: there is no such cluster, or what is needed to reach it is not installed.
            StorageError: a process or the cluster has died; what was published stands.
        """
        opened = {"threads": _threads, "processes": _processes, "dask": _dask}[self.kind]
        try:
            with opened(self.what) as executor:
                yield executor
        except (BrokenExecutor, CancelledError) as error:
            raise StorageError(
                f"{self.kind}: what ran a part of the work has died, as when memory is short or a"
                f" cluster is stopped ({type(error).__name__}). What was done stands: run it again"
            ) from error


class ExecutorName(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """An executor such as threads:4, processes:2 or dask://host:8786."""

    name = "where"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        """Return what was written."""
        if isinstance(value, Where):
            return value
        text = str(value).strip()
        if here := _HERE.fullmatch(text):
            return Where(here[1], here[2])
        cluster = _DASK.fullmatch(text)
        if cluster is None or not 0 < int(cluster[1].rpartition(":")[2]) < 65_536:
            self.fail("write threads:4, processes:2 or dask://host:port", param, ctx)
        return Where("dask", cluster[1])


@contextmanager
def _threads(count: str) -> Iterator[Executor]:
    executor = ThreadPoolExecutor(int(count), "lakestore-task")
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _processes(count: str) -> Iterator[Executor]:
    # Forked ones would share connections and locks with this process and its threads.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(int(count), context, initializer=_end_with_parent)
    try:
        with _ignoring_interrupts():  # so do those that are started then; they are ended below
            for _ in range(int(count)):
                executor.submit(_nothing)
        yield executor
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _nothing() -> None:
    pass


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that has ended."""

    def end() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=end, daemon=True).start()


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise InputError(
            "dask:// needs the package distributed: pip install 'lakestore[dask]'"
            f" ({error.name} is missing)"
        ) from None
    try:
        client = Client(f"tcp://{address}", timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers. address={address!r}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise InputError(f"the Dask scheduler has no workers. address={address!r}") from error
        try:
            with client.get_executor() as executor:
                yield executor
        except KilledWorker as error:
            raise BrokenExecutor(str(error)) from error
