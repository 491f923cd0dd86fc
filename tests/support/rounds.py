"""A far store that counts round trips: requests that go side by side are one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Lock
from typing import TypeVar

from typing_extensions import override

from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind

R = TypeVar("R")

_TOGETHER = 0.2
"""Seconds within which all that is asked for at once has arrived."""


class RoundsStore(AroundStore):
    """Answers only when nobody has asked anything for a moment, so that a round is seen whole."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.near = False
        self.rounds: list[list[tuple[Kind, str]]] = []
        """What was asked for in each round."""
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._round = 0

    def begin(self) -> None:
        """Count from here."""
        with self._lock:
            self.rounds.clear()
            self._round = 0

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        with self._changed:
            if len(self.rounds) == self._round:
                self.rounds.append([])
            mine = self._round
            self.rounds[mine].append((kind, key))
            self._changed.notify_all()
            while self._round == mine:
                if not self._changed.wait(_TOGETHER) and self._round == mine:
                    self._round += 1
                    self._changed.notify_all()
        return call()
