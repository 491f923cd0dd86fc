"""What nobody needs any more: which objects a sweep may delete, and from when on.

Pure decisions, shared by what writers sweep in passing and by the job that sweeps a lake. Each is
final: what is needless once is needless for ever, so nothing relies on the order of deletion, and a
sweep may stop, or stall, anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakestore.log.keys import parse_log_name
from lakestore.storage import StoredObject
from lakestore.tables.state import StateRow


@dataclass(frozen=True, slots=True)
class Age:
    """What counts as old enough, by the store's time alone: clocks of processes may be wrong."""

    before: float
    """The latest time of creation that does."""

    @classmethod
    def of(cls, now: float, grace: float) -> Age:
        """Return what is older than `grace` seconds at the store's `now`; all is, than none."""
        return cls(now - grace if grace > 0 else math.inf)

    @property
    def reaches_all(self) -> bool:
        """Whether everything counts as old enough, also what is still to come."""
        return self.before == math.inf

    def kept(self, seconds: float) -> Age:
        """Return what is older than that much besides; all is where all counts as old enough."""
        return self if self.reaches_all else Age(self.before - seconds)

    def reaches(self, stored: StoredObject) -> bool:
        """Tell whether an object is old enough."""
        return stored.modified <= self.before


def needless_by_rollup(log: str, listed: Sequence[StoredObject], age: Age) -> list[StoredObject]:
    """Return what lies below the newest old rollup of a log, of which `listed` are there.

    The commit under the rollup's own version stays: a rollup counts only beside it.
    """
    versions = [
        (parsed, stored)
        for stored in listed
        if (parsed := parse_log_name(stored.key.removeprefix(log))) is not None
    ]
    commits = {version for (version, is_rollup), _ in versions if not is_rollup}
    covered = max(
        (
            version
            for (version, is_rollup), stored in versions
            if is_rollup and version in commits and age.reaches(stored)
        ),
        default=0,
    )
    return [stored for (version, _), stored in versions if version < covered]


def needless_by_pack(log: str, listed: Sequence[StoredObject], packed: int) -> list[StoredObject]:
    """Return what lies at or below version `packed` of a log, which an old manifest covers."""
    versions = ((parse_log_name(stored.key.removeprefix(log)), stored) for stored in listed)
    return [stored for parsed, stored in versions if parsed is not None and parsed[0] <= packed]


def is_held(rows: Sequence[StateRow], held: Mapping[str, StateRow]) -> bool:
    """Tell whether `held`, of something old, has an equal or later stamp for each key of an entry.

    An entry of which nothing could be read is not: it may hold anything.
    """
    return bool(rows) and all(row.key in held and held[row.key].stamp >= row.stamp for row in rows)
