"""How it is measured: contenders take turns, so that what disturbs the machine disturbs all.

Owns sizes, rounds and the figures drawn from them. The table is `report`'s.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "lakestore"
SQLITE = "SqliteSessionService"
DATABASE = "DatabaseSessionService"
PEERS = (SQLITE, DATABASE)

Samples = Mapping[str, Sequence[float]]
"""Seconds per unit of work, one a round, by contender."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    name: str
    rounds: int
    turns_a_round: int
    """Of four events each."""
    warm_events: int
    cold_events: int
    cold_rounds: int
    """A new process for each contender, each time."""
    sessions: int
    events_a_session: int
    session_rounds: int
    import_rounds: int
    lakes: tuple[tuple[int, int], ...]
    """Users, of one session each, and events a session; each its own commit."""
    users: tuple[int, ...]
    """Users of one event each."""
    memories: int
    """Of one user."""
    remembered: int
    """Users of a session of fifty events each, of which memories are made."""
    payload: int
    """Bytes of the largest artifact."""
    keys: int
    """Artifacts of one session."""
    image_sessions: int
    """Of twenty events, half of them with images."""

    def payload_rounds(self, size: int) -> int:
        """Return how often an artifact of so many bytes is saved."""
        return self.rounds if size < self.payload else max(1, self.rounds // 5)


SMALL = Scale(
    "small", 2, 2, 30, 40, 1, 4, 3, 1, 1, ((6, 2), (8, 5)), (40, 1_500), 300, 12, 2**21, 30, 2
)
"""Shows that everything runs; says nothing about speed."""
FULL = Scale(
    "full",
    25,
    10,
    5_000,
    10_000,
    7,
    400,
    50,
    3,
    9,
    ((10_000, 10), (20_000, 50)),
    (1_000, 1_000_000),
    100_000,
    2_000,
    2**28,
    10_000,
    50,
)
"""The sizes that the targets are about."""


@dataclass(frozen=True, slots=True)
class Row:
    """One workload as it was measured."""

    workload: str
    samples: dict[str, list[float]]
    """Seconds per unit of work, one a round, by contender."""
    medians: dict[str, float]
    """Seconds, by contender."""
    ratios: dict[str, float]
    """How many times as long as ours each peer took: the median over rounds of the ratio in one."""
    targets: dict[str, float]
    """What the ratios should reach; none where a workload is only recorded."""
    limit: float | None = None
    """Seconds that our median should stay below."""

    @property
    def met(self) -> bool | None:
        """Whether all targets were reached, None when there are none."""
        if not self.targets and self.limit is None:
            return None
        below = self.limit is None or self.medians[OURS] < self.limit
        return below and all(self.ratios[name] >= least for name, least in self.targets.items())


@dataclass(slots=True)
class Figures:
    """All that one run measured."""

    scale: str
    facts: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    """Other tables, in Markdown."""

    def add(
        self,
        workload: str,
        samples: Samples,
        *,
        targets: Mapping[str, float] | None = None,
        limit: float | None = None,
    ) -> Row:
        """Add a workload, and return its row."""
        ours = samples[OURS]
        ratios = {
            name: statistics.median(peer / own for peer, own in zip(times, ours, strict=True))
            for name, times in samples.items()
            if name != OURS
        }
        row = Row(
            workload,
            {name: list(times) for name, times in samples.items()},
            {name: statistics.median(times) for name, times in samples.items()},
            ratios,
            dict(targets or {}),
            limit,
        )
        self.rows.append(row)
        return row

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Figures:
        """Return what `to_json` wrote."""
        rows = [Row(**row) for row in data["rows"]]
        facts, notes, tables = dict(data["facts"]), list(data["notes"]), list(data["tables"])
        return cls(data["scale"], facts, rows, notes, tables)


async def take_turns(
    rounds: int, work: Mapping[str, Callable[[int], Awaitable[float]]]
) -> dict[str, list[float]]:
    """Let every contender do its work once a round; return its seconds, one a round.

    Args:
        rounds: How many.
        work: Does the work of the round with that number and returns seconds per unit, by
            contender.
    """
    samples: dict[str, list[float]] = {name: [] for name in work}
    names = list(work)
    # What was there before is no contender's, and would be looked through each time.
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        # Whoever follows the same one each time would always find the same things in its way.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            samples[name].append(await work[name](number))
    return samples


class Stopwatch:
    """Seconds spent in a `with` block."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started
