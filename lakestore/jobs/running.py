"""Running tasks of a job in this thread or in any executor. Owns how a process comes by its lake.

A task is a plain value, and so is what it returns, so that a process which is spawned anywhere can
run it: it opens the lake by its URL, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.storage import ClientName

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

_lakes: WeakValueDictionary[str, Lake] = WeakValueDictionary()
"""The lakes that jobs of this process are called with, by the name in their addresses."""

_opened: dict[tuple[int, str, str, str], Lake] = {}
"""The lakes that tasks have opened here, for as long as the process lives."""
_opening = Lock()

_MEMORY = "memory://"


class Task(Protocol[R_co]):
    """A plain value that says what is to be done."""

    def run(self, lake: Lake) -> R_co:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Address:
    """How a process comes by a lake."""

    url: str
    storage_options: Mapping[str, Any] = field(repr=False)
    """They may hold credentials."""
    client: ClientName
    name: str
    """Names the lake in the process that the job was called in."""
    pid: int
    """That process."""

    @classmethod
    def of(cls, lake: Lake) -> Address:
        """Return the address of a lake that is open here, for as long as it lives."""
        name = f"{os.getpid()}:{id(lake)}"
        _lakes[name] = lake
        return cls(lake.url, dict(lake.storage_options), lake.client, name, os.getpid())

    def lake(self) -> Lake:
        """Return the lake.

        Raises:
            InputError: it is in the memory of another process.
        """
        if os.getpid() == self.pid:
            return _lakes[self.name]
        if self.url.startswith(_MEMORY):
            raise InputError(
                "a lake in memory is one process's own: run its jobs here, or in threads."
                f" url={self.url!r}"
            )
        # Options may hold dictionaries, which cannot be keys; a forked process opens its own.
        options = repr(sorted(self.storage_options.items()))
        with _opening:
            place = (os.getpid(), self.url, self.client, options)
            if place not in _opened:
                _opened[place] = Lake.open(
                    self.url,
                    storage_options=self.storage_options,
                    client=self.client,
                    rollups=False,
                )
            return _opened[place]


@dataclass(frozen=True, slots=True)
class _Call(Generic[R]):
    address: Address
    task: Task[R]

    def __call__(self) -> R:
        return self.task.run(self.address.lake())


def run_all(lake: Lake, tasks: Sequence[Task[R]], executor: Executor | None) -> Iterator[R]:
    """Yield what `tasks` return, in any order, each as soon as it is there.

    Whoever stops early leaves those that have not begun undone.

    Args:
        lake: Where they are run, if it is in this process.
        tasks: What to run.
        executor: Where to run them; None for this thread.

    Raises:
        InputError: the lake is in memory, and the executor in another process.
        Exception: the first that a task raised.
    """
    if executor is None:
        yield from (task.run(lake) for task in tasks)
        return
    address = Address.of(lake)
    futures = [executor.submit(_Call(address, task)) for task in tasks]
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
