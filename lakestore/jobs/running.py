"""Running tasks of a job in this thread or in any executor. Owns how a process comes by its lake.

A task is a plain value, and so is what it returns, so that a process which is spawned anywhere can
run it: it opens the lake by its URL, once, and sees that it is the same lake.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from lakestore.clock import new_token
from lakestore.errors import InputError, NotFoundError
from lakestore.jobs.progress import Watch, unwatched
from lakestore.lake import Lake
from lakestore.log.keys import MARKER_KEY
from lakestore.storage import ClientName

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

Tell = Callable[[int], None]
"""Is told how much more is done of a task; it hears of those that run in its own thread."""


def unheard(more: int) -> None:
    """Tell nobody."""


_HERE = new_token()
"""Names this process, and those that it forks, among those of all machines."""

_lakes: WeakValueDictionary[str, Lake] = WeakValueDictionary()
"""The lakes that jobs of this process are called with, by the name in their addresses."""

_opened: dict[tuple[int, str, str, str], Lake] = {}
"""The lakes that tasks have opened here, for as long as the process lives."""
_opening = Lock()

_MEMORY = "memory://"


def _check_executor(executor: object) -> None:
    if executor is not None and not isinstance(executor, Executor):
        raise InputError(
            "executor is a concurrent.futures.Executor, as ThreadPoolExecutor(4), or None."
            f" type={type(executor).__name__}"
        )


@dataclass(slots=True)
class Total:
    """What was packed so far."""

    sessions: int = 0
    events: int = 0
    packed_bytes: int = 0
    repacked_bytes: int = 0
    artifacts: int = 0


@dataclass(frozen=True, slots=True)
class Running:
    """How a job is run."""

    executor: Executor | None = None
    """Where its tasks are run; None for the caller's thread."""
    watch: Watch = unwatched
    """Who is told how far it is."""
    total: Total = field(default_factory=Total, compare=False)
    """What it has packed, in all of its steps."""

    def __post_init__(self) -> None:
        """Refuse what is no executor.

        Raises:
            InputError: it is none.
        """
        _check_executor(self.executor)


def check_lake(lake: object) -> None:
    """Refuse what is no lake, such as its URL, before a job begins.

    Raises:
        InputError: it is none.
    """
    if not isinstance(lake, Lake):
        raise InputError(f"lake is a Lake, as Lake.open(url) gives it. type={type(lake).__name__}")


class Task(Protocol[R_co]):
    """A plain value that says what is to be done."""

    @property
    def size(self) -> int:
        """How much that is, in what its job counts."""

    def run(self, lake: Lake, tell: Tell = unheard) -> R_co:
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
    marker: bytes = field(repr=False)
    """What the lake's marker holds, as no other lake's does."""

    @classmethod
    def of(cls, lake: Lake) -> Address:
        """Return the address of a lake that is open here, for as long as it lives.

        Raises:
            StorageError: the store failed.
        """
        name = f"{_HERE}:{os.getpid()}:{id(lake)}"
        _lakes[name] = lake
        options, marker = dict(lake.storage_options), lake.environment.store.get(MARKER_KEY)
        return cls(lake.url, options, lake.client, name, os.getpid(), marker)

    def lake(self) -> Lake:
        """Return the lake.

        Raises:
            InputError: it is in the memory of another process, or not what is here at its URL.
            StorageError: the store failed.
        """
        if os.getpid() == self.pid and self.name in _lakes:
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
                _opened[place] = self._open()
            return _opened[place]

    def _open(self) -> Lake:
        """Open the lake, which must be there: none is to be made where a folder is not shared."""
        there = b""
        with suppress(NotFoundError), self._opened(read_only=True) as lake:
            there = lake.environment.store.get(MARKER_KEY)
        if there != self.marker:
            raise InputError(
                "a process that was to do a part of the work finds another lake at this URL, or"
                f" none: it must reach the same bucket or folder. url={self.url!r}"
            )
        return self._opened(read_only=False)

    def _opened(self, *, read_only: bool) -> Lake:
        return Lake.open(
            self.url,
            storage_options=self.storage_options,
            client=self.client,
            read_only=read_only,
            rollups=False,
        )


@dataclass(frozen=True, slots=True)
class _Call(Generic[R]):
    address: Address
    task: Task[R]

    def __call__(self) -> R:
        return self.task.run(self.address.lake())


def _result(future: Future[R], call: _Call[R]) -> R:
    """Return what a call has returned.

    Raises:
        InputError: it could not be sent to another process.
        Exception: what it raised.
    """
    try:
        return future.result()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            pickle.dumps(call)
        except Exception:  # noqa: BLE001 - whatever a value of the caller's raises
            raise InputError(
                "a function that is to be called in other processes must be one that they can"
                f" import, from a module by its name: {error}"
            ) from error
        raise


def run_all(
    lake: Lake, tasks: Sequence[Task[R]], executor: Executor | None, tell: Tell = unheard
) -> Iterator[tuple[int, R]]:
    """Yield what `tasks` return, each with its size, in any order, as soon as it is there.

    Whoever stops early leaves those that have not begun undone.

    Args:
        lake: Where they are run, if it is in this process.
        tasks: What to run.
        executor: Where to run them; None for this thread.
        tell: Is told of what is done of a task that runs in this thread.

    Raises:
        InputError: the lake is in memory, and the executor in another process; or that process
            finds another lake at its URL; or a function of the caller's cannot be sent there.
        StorageError: the store failed.
        Exception: the first that a task raised.
    """
    if executor is None or not tasks:
        yield from ((task.size, task.run(lake, tell)) for task in tasks)
        return
    address = Address.of(lake)
    # Each goes once it is yielded, so that what it has returned is not held.
    calls = (_Call(address, task) for task in tasks)
    futures = {executor.submit(call): call for call in calls}
    try:
        for future in as_completed(futures):
            call = futures.pop(future)
            yield call.task.size, _result(future, call)
    finally:
        for future in futures:
            future.cancel()
