"""What is measured of runs that go on: calls that began, ended, and the events of their answers.

Owns how what ADK calls back is paired. When that is, is `lakestore.adk.telemetry`'s; it holds the
lock. Objects are told by their identity, and are held as long as they are waited for.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from lakestore.tables.telemetry import TelemetryRow

MOST_RUNS = 1_024
"""So many go on at once; of more, the oldest are told as unfinished."""


@dataclass(slots=True)
class Measure:
    """One call or run."""

    row: TelemetryRow
    began: float
    """`Clock.elapsed` then."""
    subject: object = None
    """What the callbacks of a call have in common."""

    def micros(self, now: float) -> int:
        """Return how long ago it began."""
        return max(0, round((now - self.began) * 1_000_000))


@dataclass(slots=True)
class Run:
    """One run that goes on."""

    measure: Measure | None = None
    """Of the run itself; None where nobody saw it begin."""
    task: Callable[[], asyncio.Task[object] | None] = lambda: None
    """Returns the task that it runs in, None when that is gone."""
    context: Callable[[], object | None] = lambda: None
    """Returns what ADK knows of it, None when ADK holds that no more."""
    calls: dict[int, Measure] = field(default_factory=dict)
    """By the identity of their subjects, calls that have not ended."""
    answered: dict[int, Measure] = field(default_factory=dict)
    """Calls of models that have, whose events are still to come."""
    raised: list[tuple[BaseException, str]] = field(default_factory=list)
    """What calls have raised, with the ids of their rows."""

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, and nobody was told: its task has ended, or ADK forgot it."""
        task = self.task()
        is_gone = task is None or task.done() or self.context() is None
        return self.measure is not None and is_gone

    def left(self) -> Iterator[TelemetryRow]:
        """Yield the rows of calls that are not complete, and never will be."""
        for measure in (*self.answered.values(), *self.calls.values()):
            yield measure.row

    def abandoned(self) -> Iterator[TelemetryRow]:
        """Yield all rows of a run of which nobody will see the end."""
        yield from self.left()
        if self.measure is not None:
            yield self.measure.row


def current_task() -> Callable[[], asyncio.Task[object] | None]:
    """Return what returns the task that this is called in, as long as it is there."""
    task = asyncio.current_task()
    return (lambda: None) if task is None else weakref.ref(task)


class Runs:
    """The runs that go on, by their invocations. Not to be used from two threads at once."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def begin(self, invocation_id: str, run: Run) -> list[Run]:
        """Take a run; return those that are over, or too many: nobody will see their ends."""
        gone = self.end_over()
        most = list(self._runs)[: max(0, len(self._runs) - MOST_RUNS + 1)]
        gone += self._pop(dict.fromkeys((*most, invocation_id)))
        self._runs[invocation_id] = run
        return gone

    def end_over(self, task: asyncio.Task[object] | None = None) -> list[Run]:
        """Return those that are over, or run in `task`, which go on no more."""
        return self._pop(
            [
                name
                for name, each in self._runs.items()
                if each.is_over or (task is not None and each.task() is task)
            ]
        )

    def _pop(self, names: Iterable[str]) -> list[Run]:
        return [self._runs.pop(name) for name in names if name in self._runs]

    def get(self, invocation_id: str) -> Run | None:
        """Return a run that goes on."""
        return self._runs.get(invocation_id)

    def end(self, invocation_id: str) -> Run | None:
        """Return a run, which goes on no more."""
        return self._runs.pop(invocation_id, None)

    def end_all(self) -> list[Run]:
        """Return all, which go on no more."""
        runs, self._runs = list(self._runs.values()), {}
        return runs

    def is_in_tool(self, app_name: str, user_id: str) -> bool:
        """Tell whether any run of a user waits for a tool, which may be an agent's run."""
        return any(
            (call.row.kind, call.row.app_name, call.row.user_id) == ("tool", app_name, user_id)
            for run in self._runs.values()
            if not run.is_over
            for call in run.calls.values()
        )


def failed(row: TelemetryRow, error: BaseException, most: int) -> TelemetryRow:
    """Return a row with what was raised; of the message, if it has any, `most` characters."""
    message = str(error)[:most] or None
    return replace(row, error_type=type(error).__name__, error_message=message)
