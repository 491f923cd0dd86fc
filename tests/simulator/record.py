"""What was asked of services and what they answered, as plain values: all the checker knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Name = tuple[str, str]
"""A session: user and session id."""
SharedKey = tuple[str, str]
"""A key of shared state: user (empty for the app's) and key."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader was shown of one session."""

    session: Name
    life: str | None
    """What the session's creation named itself; None when there is no such session."""
    events: tuple[str, ...] | None = None
    """The ids of all its events, in order; None when they were not asked for."""
    tail: tuple[str, ...] | None = None
    """The ids of its last events."""
    last: str | None = None
    """What its state says is its last event; None when there is none."""
    complete: bool = False
    """Whether what its events set in shared state was to be read with it."""


@dataclass(slots=True)
class Call:
    """One call of a service."""

    kind: str
    process: str
    where: str
    """Names it in a printed history."""
    began: int
    """When, in an order of everything that happens."""
    ended: int | None = None
    """None when its process crashed."""
    outcome: str = "crashed"
    """`ok`, or what was raised: `stale`, `missing`, `exists`, `unknown`, `failed`; else a text."""
    session: Name | None = None
    life: str | None = None
    """The life of the session that the caller knew."""
    known: tuple[str, ...] = ()
    """The events that the caller knew before an append."""
    sent: tuple[str, ...] = ()
    """The events that it appends."""
    writes: Mapping[SharedKey, str] = field(default_factory=dict)
    """What it sets in shared state: for each key a value that nothing else sets."""
    handle: int = 0
    """Names the `Session` object."""
    faults: int = 0
    """How much has happened to requests of its process meanwhile, but for stalls."""
    stalls: int = 0
    seen: list[Seen] = field(default_factory=list)
    shared: Mapping[SharedKey, str] | None = None
    """The shared state that it was shown."""
    scopes: tuple[str, ...] = ()
    """Whose shared state it was shown: users, and the empty text for the app."""
    by_reader: bool = False
    """Whether its process has the lake open for reading only, and can mend nothing."""
    final: bool = False
    """Whether it was made after all others, by a reader to whom nothing happens."""

    @property
    def is_ok(self) -> bool:
        """Whether it returned."""
        return self.outcome == "ok"

    def ended_before(self, tick: int) -> bool:
        """Tell whether it had returned, or raised, by then."""
        return self.ended is not None and self.ended < tick
