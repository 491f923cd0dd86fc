"""How far a job is: what it says of that, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_STEP = 256
"""Telling costs more than most things that are counted."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come with what it does now."""

    doing: str
    """What that is, in words: `packing`, `reading logs`."""
    app_name: str
    """The app that it is at; "" where it is at none."""
    done: int
    """How much of it is done."""
    total: int | None
    """How much there is; None where nobody knows."""
    unit: str
    """What is counted: `commit`, `object`, `session`."""


Watch = Callable[[Progress], None]
"""Is told now and then, and may raise to stop the job."""


def unwatched(progress: Progress) -> None:
    """Tell nobody."""


class Steps:
    """How far something is that is done in large steps, of some of which parts are told too."""

    def __init__(self, doing: str, app_name: str, total: int, unit: str) -> None:
        self._doing = doing
        self._app = app_name
        self._total = total
        self._unit = unit
        self._done = self._part = 0

    def part(self, more: int) -> Progress:
        """Tell that so much more of the present step is done."""
        self._part += more
        return self._now()

    def whole(self, size: int) -> Progress:
        """Tell that a step of that size is done."""
        self._done, self._part = self._done + size, 0
        return self._now()

    def _now(self) -> Progress:
        done = min(self._done + self._part, self._total)
        return Progress(self._doing, self._app, done, self._total, self._unit)


def counted(items: Iterable[T], watch: Watch, doing: str, app_name: str, unit: str) -> Iterator[T]:
    """Yield `items`, and tell how many there were."""
    number = 0
    for number, item in enumerate(items, start=1):
        if number % _STEP == 0:
            watch(Progress(doing, app_name, number, None, unit))
        yield item
    watch(Progress(doing, app_name, number, number, unit))
