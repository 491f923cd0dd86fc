"""A far store that counts round trips: requests that go side by side are one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind

R = TypeVar("R")

_STEP_SECONDS = 0.005
_QUIET_STEPS = 3
"""So often nobody may be seen at work until a round is whole."""
_LONGEST_SECONDS = 0.2
"""The same where others never rest: nothing has been asked for so long."""


class RoundsStore(AroundStore):
    """Answers only when nobody has asked anything for a moment, so that a round is seen whole."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.near = False
        self.rounds: list[list[tuple[Kind, str]]] = []
        """What was asked for in each round."""
        self._changed = threading.Condition()
        self._round = 0

    def begin(self) -> None:
        """Count from here."""
        with self._changed:
            self.rounds.clear()
            self._round = 0

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        with self._changed:
            mine = self._round
            if len(self.rounds) > mine:
                self.rounds[mine].append((kind, key))
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._round > mine)
            else:
                self.rounds.append([(kind, key)])
                self._await_others(self.rounds[mine])
                self._round += 1
                self._changed.notify_all()
        return call()

    def _await_others(self, asked: list[tuple[Kind, str]]) -> None:
        """Wait until all threads that would ask something have done so."""
        arrived, quiet, since = len(asked), 0, time.monotonic()
        while quiet < _QUIET_STEPS and time.monotonic() - since < _LONGEST_SECONDS:
            self._changed.wait(_STEP_SECONDS)
            quiet = quiet + 1 if _all_others_wait() else 0
            if len(asked) > arrived:
                arrived, quiet, since = len(asked), 0, time.monotonic()


def _all_others_wait() -> bool:
    """Return whether Linux says of each other thread that it neither runs nor could."""
    own, tasks = str(threading.get_native_id()), list(_TASKS.glob("*"))
    return bool(tasks) and not any(_state(task) in "RD" for task in tasks if task.name != own)


_TASKS = Path("/proc/self/task")


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"  # it has ended
