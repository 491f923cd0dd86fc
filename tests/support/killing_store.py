"""Sudden death: a process that ends itself by SIGKILL at a given request or system call.

Owns when; what the process was doing is `tests.support.crashing`'s.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import FrameType
from typing import Literal, NoReturn, TypeVar

from typing_extensions import override

from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind

R = TypeVar("R")

Moment = Literal["before", "after"]

# What changes files, or makes a change durable, as the interpreter names it.
_SYSTEM_CALLS = frozenset({"write", "fsync", "link", "unlink", "mkdir"})


def die() -> NoReturn:
    """End this process as a power cut would: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process went on")


@dataclass
class Deadline:
    """The n-th time, from 1, that something happens; 0: never."""

    nth: int = 0
    met: int = 0

    def reached(self) -> bool:
        """Count once more, and tell whether this is it."""
        self.met += 1
        return self.met == self.nth


class KillingStore(AroundStore):
    """Kills its process right before or after one of its requests, once it is armed."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._lock = Lock()
        self._deadline = Deadline()
        self._moment: Moment = "before"

    def arm(self, nth: int, moment: Moment) -> None:
        """Choose the `nth` request from now on."""
        self._deadline, self._moment = Deadline(nth), moment

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        with self._lock:
            now = self._deadline.reached()
        if now and self._moment == "before":
            die()
        try:
            return call()
        finally:
            if now:
                die()


def die_in_system_call(nth: int) -> None:
    """Kill this process right before the `nth` system call of this thread from now on.

    The interpreter's profiler is told of each call of a C function; so nothing is replaced.
    """
    deadline = Deadline(nth)

    def watch(_frame: FrameType, event: str, called: object) -> None:
        if (
            event == "c_call"
            and getattr(called, "__name__", "") in _SYSTEM_CALLS
            and deadline.reached()
        ):
            die()

    sys.setprofile(watch)
