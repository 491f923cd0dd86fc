"""One fsspec file system a process, on fsspec's own event loop. Owns its making, use and end.

An instance hangs after a fork, because its loop's thread stayed with the parent, so each process
makes its own. It is a normal instance, not an `asynchronous=True` one, which would break on a
second loop; the calling threads wait for coroutines that run on fsspec's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

R = TypeVar("R")

_END_SECONDS = 2.0

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


class Client:
    """A file system that is made on first use, in each process anew.

    Args:
        make: Makes the file system, connected.
        end: Ends its connections; runs on its loop, and may run twice.
        forget: Tells one that a parent made not to end anything.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        end: Callable[[Any], Coroutine[Any, Any, None]],
        forget: Callable[[Any], None],
    ) -> None:
        self._make = make
        self._end = end
        self._forget = forget
        self._begin()
        _clients.add(self)

    def _begin(self) -> None:
        self._lock = Lock()
        self._filesystem: Any = None
        self._finalizer: Callable[[], object] | None = None

    def _begin_anew(self) -> None:
        if self._filesystem is not None:
            keep_for_good(self._filesystem)
            self._forget(self._filesystem)
        self._begin()

    @property
    def filesystem(self) -> Any:
        """The file system of this process."""
        with self._lock:
            if self._filesystem is None:
                self._filesystem = self._make()
                # Runs before the file system's own end does, which cannot wait for the loop.
                self._finalizer = weakref.finalize(
                    self, _finish, self._filesystem, self._end, os.getpid()
                )
            return self._filesystem

    def run(self, call: Callable[[Any], Coroutine[Any, Any, R]]) -> R:
        """Return what the coroutine of `call` returns, run on the loop of the file system."""
        filesystem = self.filesystem
        return asyncio.run_coroutine_threadsafe(call(filesystem), filesystem.loop).result()

    def close(self) -> None:
        """End the connections; a later use makes new ones."""
        with self._lock:
            self._filesystem = None
            if self._finalizer is not None:
                self._finalizer()


def keep_for_good(inherited: object) -> None:
    """Never let it be collected, also not when this process ends.

    Its connections and its loop are the parent's too: the end of them here would take sockets out
    of the parent's loop, and send a farewell through them.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def _finish(filesystem: Any, end: Callable[[Any], Coroutine[Any, Any, None]], pid: int) -> None:
    if pid != os.getpid() or not filesystem.loop.is_running():
        return
    loop = filesystem.loop
    ending = asyncio.run_coroutine_threadsafe(end(filesystem), loop)
    if not _on(loop):  # collected there, it would wait for itself
        with suppress(Exception):  # what cannot be ended ends with the process
            ending.result(_END_SECONDS)


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _after_fork() -> None:
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None:
        # Older releases do not do so themselves: the loop is not run here, its lock may be held.
        asyn.reset_lock()
    for client in list(_clients):
        client._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
