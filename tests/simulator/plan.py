"""What actors are to do in a history, written by hand or drawn by seed. No I/O, no product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.simulator.store import GRACE, VIEW_AGE, Weather

APP = "a"


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that an actor does; what it means is told in `tests.simulator.actors`."""

    do: str
    session: str = "s"
    user: str = "u"
    sets: tuple[str, ...] = ()
    """Keys of shared state that its first event sets, prefixes kept."""
    events: int = 1
    """So many in one commit."""
    tries: int = 1
    """So many times, while nobody knows whether it was stored."""
    singly: bool = False
    """Try the events one by one the second time."""
    event: str = ""
    """The id of its event, which another actor may send too; empty: one of its own."""
    old: bool = False
    """Through the `Session` object that the actor had before its newest."""
    seconds: float = 0.0
    shows: str = ""
    """What each of its events has besides, as bytes that are moved out of it; empty: nothing."""


@dataclass(frozen=True)
class Plan:
    """What everyone does."""

    actors: Mapping[str, Mapping[int, Op]]
    """For each actor what it does, by number, ascending."""
    setup: Sequence[Op] = (Op("create"),)
    """What is done before, by someone to whom nothing happens."""
    skews: Mapping[str, float] = field(default_factory=dict)
    """Seconds by which an actor's wall clock is off."""
    near: Sequence[str] = ()
    """Actors whose store is near: they ask for one thing after the other."""
    weather: Weather = field(default_factory=Weather)

    def without(self, gone: Sequence[tuple[str, int]]) -> Plan:
        """Return the plan in which some things are not done; the others keep their numbers."""
        left = {
            actor: {n: op for n, op in script.items() if (actor, n) not in gone}
            for actor, script in self.actors.items()
        }
        return replace(self, actors=left)


def script(*ops: Op) -> dict[int, Op]:
    """Number what an actor does, from 1."""
    return dict(enumerate(ops, start=1))


_KEYS = ("user:k", "app:k", "user:j")
_SESSIONS = (("u", "s"), ("u", "s"), ("u", "s"), ("u", "t"), ("v", "s"))
SKEWS = (0.0, 0.0, 40.0, -40.0, 600.0, -600.0)
_WAITS = (1.0, 0.6 * VIEW_AGE, 1.1 * VIEW_AGE, 1.1 * GRACE)
_WAITS_OF_JOBS = (*_WAITS, 8.0 * GRACE)
_WEIGHTS = {
    "append": 24,
    "get": 8,
    "wait": 8,
    "roll up": 6,
    "fold": 3,
    "list": 3,
    "user events": 2,
    "recent": 2,
    "user state": 2,
    "delete": 1,
    "create": 2,
    "pair": 2,
    "hand on": 2,
}
"""What actors do in drawn histories, and how often."""
_SWEEPING = {
    **dict.fromkeys(("get", "list", "create", "fold", "wait", "recent"), 4),
    **dict.fromkeys(("user events", "user state", "pair", "hand on"), 2),
    "append": 20,
    "overtake": 10,
    "delete": 1,
}
"""The same for histories in which logs are swept."""
JOBS = {
    "compact": 14,
    "sweep": 10,
    "check": 2,
    "prune sessions": 2,
    "prune events": 4,
    "prune state": 3,
    "erase": 2,
    "finish": 2,
}
"""What jobs do in histories with jobs, and how often, besides the rest."""
FORGETTING = {
    "prune sessions",
    "prune events",
    "prune state",
    "prune telemetry",
    "prune files",
    "erase",
    "finish",
}
"""Those that take something away."""
_WITH_JOBS = {**_WEIGHTS, "append": 20, "talk": 2, "roll up": 4, **JOBS}
_PACKING = {**_SWEEPING, "append": 16, "overtake": 4, "roll up": 3, "compact": 20, "sweep": 16}
"""The same where nothing is forgotten, but a lot is packed and swept."""
_AGES = (5.0, 0.3 * VIEW_AGE, 1.1 * VIEW_AGE, 1.1 * GRACE)
WEATHERS = (
    Weather(0.15),
    Weather(0.5, torn=0.2),
    Weather(0.2, 0.06, 2, torn=0.05),
    Weather(0.3, 0.1, 3, "stalls,slow,late,twice"),
    Weather(0.2, 0.15, 3, "three graces"),
    Weather(0.2, 0.3, 2, "before three graces", ("put",)),
    Weather(0.2, 0.3, 2, "before three graces", ("get", "list")),
    Weather(0.1, 0.12, 3, "reply,resent,dropped,fails"),
    Weather(0.3, 0.1, 2, "crashes,late"),
)


_SQL_EVERY = 32
"""In one of so many histories actors ask SQL too, which takes longer than all else."""
_BLOCK = 100
"""So many seeds in a row have jobs in their histories, then as many have none."""
_SHOWING = 4
"""In one of so many of these blocks, one with jobs, events have bytes beside them."""


def drawn(seed: int) -> Plan:
    """Return the plan that belongs to a seed; every other hundred of them has jobs in it."""
    draw = Random(seed)
    names = "ABCD"[: draw.choice((2, 2, 3, 3, 4))]
    has_jobs = seed // _BLOCK % 2
    weights = draw.choice((_WITH_JOBS, _PACKING) if has_jobs else (_WEIGHTS, _SWEEPING))
    if seed % _SQL_EVERY == 0:
        weights = {**weights, "sql": 10}
    actors = {name: script(*_ops(draw, weights, draw.randint(3, 8))) for name in names}
    if seed // _BLOCK % _SHOWING == _SHOWING - 1:
        actors = {name: _showing(ops) for name, ops in actors.items()}
    return Plan(
        actors,
        setup=(Op("create", sets=("user:k",)), *_early(draw)),
        skews={name: draw.choice(SKEWS) for name in names},
        near=[name for name in names if draw.random() < 0.25],
        weather=draw.choice(WEATHERS),
    )


def _showing(ops: Mapping[int, Op]) -> dict[int, Op]:
    """Let events have bytes beside them, mostly the same as others."""
    return {
        number: replace(op, shows="xyx"[number % 3]) if op.do in ("append", "talk", "pair") else op
        for number, op in ops.items()
    }


def _early(draw: Random) -> list[Op]:
    more = [Op("create", "t"), *(Op("append", events=draw.randint(1, 2)) for _ in range(4))]
    return more[: draw.randint(0, len(more))]


def _ops(draw: Random, weights: Mapping[str, int], number: int) -> list[Op]:
    kinds = draw.choices(list(weights), list(weights.values()), k=number)
    return [_op(draw, kind, jobs="compact" in weights) for kind in kinds]


def _op(draw: Random, kind: str, *, jobs: bool) -> Op:
    user, session = draw.choice(_SESSIONS)
    sets = tuple(key for key in _KEYS if draw.random() < 0.25)
    if kind == "append":
        return Op(
            kind,
            session,
            user,
            sets,
            events=draw.choice((1, 1, 1, 2)),
            tries=draw.choice((1, 2, 3)),
            singly=draw.random() < 0.3,
            old=draw.random() < 0.15,
        )
    if kind == "talk":
        return Op(kind, session, user, sets, events=3, seconds=draw.choice(_AGES[:3]))
    if kind == "wait" and jobs:
        return Op(kind, seconds=draw.choice(_WAITS_OF_JOBS))
    if kind in JOBS:
        return _job(draw, kind, user)
    return Op(kind, session, user, sets, seconds=draw.choice(_WAITS))


def _job(draw: Random, kind: str, user: str) -> Op:
    if kind.startswith("prune"):
        user = draw.choice((user, "*"))
    return Op(kind, user=user, singly=draw.random() < 0.3, seconds=draw.choice(_AGES))
