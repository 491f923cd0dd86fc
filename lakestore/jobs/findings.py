"""What a check looks at, and what it found: what is wrong, what it costs, how to mend it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from lakestore.history.archive import Archive
from lakestore.history.environment import Environment
from lakestore.jobs.progress import Progress, Watch

Severity = Literal["lost", "mendable", "note"]
"""`lost`: nothing in the lake brings it back. `mendable`: something does. `note`: costs nothing."""

_UNITS = {
    "packs and runs": "byte",
    "packed sessions": "session",
    "logs": "session",
    "shared state": "object",
    "artifacts": "artifact",
}
"""What is read, and what is counted of it."""

COPY = "restore it from a copy of the store: its key never held anything else"
"""The remedy for an object that nothing else in the lake holds."""

_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    severity: Severity
    kind: str
    """What it is, in words that are the same for all of its kind."""
    key: str
    """The object; or the prefix of a log, or of a scope's entries."""
    problem: str
    """What is wrong."""
    cost: str
    """What of the lake suffers from it."""
    remedy: str
    """How to mend it."""
    repaired: bool = False
    """Whether this check has mended it."""


class Findings:
    """Collects findings: all are counted, the first thousand kept."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[str] = Counter()
        """Those that were not mended, by severity."""
        self.repaired = 0

    def add(self, *found: Finding) -> None:
        """Take some more."""
        for finding in found:
            if finding.repaired:
                self.repaired += 1
            else:
                self.counts[finding.severity] += 1
        self.kept += found[: max(0, _KEPT - len(self.kept))]

    def stray(self, key: str) -> None:
        """Note what nothing of ours has put there."""
        remedy = "yours to keep or to delete: no job touches it"
        self.add(Finding("note", "stray", key, "FORMAT.md knows no such key", "nothing", remedy))


@dataclass(slots=True)
class Look:
    """What the parts of a check of one app share."""

    env: Environment
    archive: Archive
    app: str
    findings: Findings
    watch: Watch
    repair: bool
    sessions: int = 0
    """How many were proven."""
    events: int = 0
    """How many event rows were read."""
    artifacts: int = 0
    """How many living artifacts were proven."""
    objects: int = 0
    """How many objects were read."""
    damaged: set[str] = field(default_factory=set)
    """Packs and runs that are not what their manifest says."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Tell how much of something is read."""
        self.watch(Progress(f"reading {what}", self.app, done, total, _UNITS[what]))
