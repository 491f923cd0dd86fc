"""What was asked of services and what they answered, as plain values: all the checker knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The ids of all its events, in order, "" for one that was pruned; None when they were not
    asked for."""
    tail: tuple[str, ...] | None = None
    """The ids of its last events; what stands for pruned ones counts as so many."""
    last: str | None = None
    """What its state says is its last event; None when there is none."""
    complete: bool = False
    """Whether what its events set in shared state was to be read with it."""


@dataclass(slots=True)
class Job:
    """What a job was asked to forget, and what it says of it."""

    user: str | None = None
    """Whose; None for everyone's."""
    before: float | None = None
    """Of a prune: what was last touched then or earlier, by the clocks of its writers."""
    status: str = ""
    """Of an erase: `published`, `pending` or `done`, as its receipt says."""
    found: tuple[str, ...] = ()
    """What a check found lost, or a receipt left."""


@dataclass(slots=True)
class Call:
    """One call of a service, or a job."""

    kind: str
    process: str
    where: str
    """Names it in a printed history."""
    began: int
    """When, in an order of everything that happens."""
    ended: int | None = None
    """None when its process crashed."""
    outcome: str = "crashed"
    """`ok`, or what was raised: `stale`, `missing`, `exists`, `unknown`, `failed`, `conflict`; else
    a text."""
    session: Name | None = None
    life: str | None = None
    """The life of the session that the caller knew."""
    known: tuple[str, ...] = ()
    """The events that the caller knew before an append."""
    sent: tuple[str, ...] = ()
    """The events that it appends."""
    writes: Mapping[SharedKey, str] = field(default_factory=dict)
    """What it sets in shared state: for each key a value that nothing else sets."""
    measured: tuple[str, ...] = ()
    """The rows of telemetry that it stores, or is shown, each as often as it is."""
    remembered: tuple[str, ...] = ()
    """The memories that it adds or forgets, of `session`: user, and `user` or `app`; or that it is
    shown, each as often as it is."""
    content: str = ""
    """Of a version of an artifact that it saves."""
    files: tuple[tuple[int, str], ...] = ()
    """The versions of the artifact of `session` that it was shown, or has saved: with their
    contents."""
    numbers: tuple[int, ...] = ()
    """Which versions it was told of before it loaded each."""
    turn: str = ""
    """The invocation that these events belong to."""
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
    born: int = 0
    """When its process began: what it shows cannot be older in any cache."""
    times: tuple[float, float | None] = (0.0, None)
    """When it began and ended, in seconds of virtual time."""
    wall: tuple[float, float | None] = (0.0, None)
    """The same by its process's clock."""
    by_hand: bool = False
    """Whether the `Session` object came from elsewhere, and shows its last event only."""
    job: Job | None = None
    """What it is allowed to forget, or has found, if it is a job's."""
    beside: bool = False
    """Whether the events that it appends have bytes that are moved out of them."""
    hollow: tuple[str, ...] = ()
    """The events that it was shown without bytes that they had."""

    @property
    def is_ok(self) -> bool:
        """Whether it returned."""
        return self.outcome == "ok"

    def ended_before(self, tick: int) -> bool:
        """Tell whether it had returned, or raised, by then."""
        return self.ended is not None and self.ended < tick


def agree(first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether two show the same events, as far as neither lacks what was pruned."""
    return len(first) == len(second) and all(
        not (one and other) or one == other for one, other in zip(first, second, strict=True)
    )
