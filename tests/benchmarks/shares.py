"""Where the time of our append goes, part by part, measured beside the whole.

Owns how the parts are told apart: syncs are timed where they happen, the other parts are run by
themselves on the same events.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from google.adk.events.event import Event
from google.adk.sessions import Session

from lakestore import LakeSessionService
from lakestore.adk.convert import to_draft
from lakestore.tables.events import EventRow, encode_commit
from tests.benchmarks.histories import events
from tests.benchmarks.measuring import Stopwatch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shares:
    """Seconds that one append takes, and those of its parts."""

    whole: float
    fsync: float
    """The file's and its folder's."""
    encode: float
    """Rows to Parquet."""
    hop: float
    """From the event loop to a thread and back."""
    to_json: float
    """The event to JSON."""

    @property
    def rest(self) -> float:
        """Everything else: opening, writing, linking, locks, caches, objects."""
        return self.whole - self.fsync - self.encode - self.hop - self.to_json

    def __str__(self) -> str:
        parts = {
            "fsync": self.fsync,
            "Parquet": self.encode,
            "thread hop": self.hop,
            "event to JSON": self.to_json,
            "the rest": self.rest,
        }
        shown = (f"{name} {s * 1e3:.2f} ({s / self.whole:.0%})" for name, s in parts.items())
        return f"one append_event of lakestore, {self.whole * 1e3:.2f} ms: {', '.join(shown)}"


async def shares(service: LakeSessionService, session: Session, first: int, count: int) -> Shares:
    """Append `count` events from number `first` to `session`, and tell where the time went."""
    new = events(count, first)
    with _timed_fsync() as syncs, Stopwatch() as whole:
        for event in new:
            await service.append_event(session, event)
    return Shares(
        whole=whole.seconds / count,
        fsync=sum(syncs) / count,
        encode=_each(encode_commit, [[_row(session, event)] for event in new]),
        hop=await _hop(service, count),
        to_json=_each(to_draft, new),
    )


@contextmanager
def _timed_fsync() -> Iterator[list[float]]:
    """Yield the seconds of every sync that this process asks for, which it gets all the same."""
    seconds: list[float] = []
    fsync = os.fsync

    def timed(descriptor: int) -> None:
        started = time.perf_counter()
        fsync(descriptor)
        seconds.append(time.perf_counter() - started)

    os.fsync = timed  # type: ignore[assignment] # the real one also takes file objects
    try:
        yield seconds
    finally:
        os.fsync = fsync


def _each(call: Callable[[T], object], items: Sequence[T]) -> float:
    with Stopwatch() as watch:
        for item in items:
            call(item)
    return watch.seconds / len(items)


async def _hop(service: LakeSessionService, count: int) -> float:
    with Stopwatch() as watch:
        for _ in range(count):
            await service.lake.run(bool)
    return watch.seconds / count


def _row(session: Session, event: Event) -> EventRow:
    """Return a row as an append makes it."""
    draft = to_draft(event)
    return EventRow(
        version=1,
        ordinal=0,
        kind="event",
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        committed_at=int(event.timestamp * 1e6),
        token="0123456789abcdef",
        previous="fedcba9876543210",
        state_delta=str(draft.delta) if draft.delta else None,
        event_json=draft.event_json,
    )
