"""Who comes when: more people every month, on weekdays and by day, some again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

DAY = 86_400.0
_GROWTH = 1.6
"""The last day is e to this times as busy as the first."""
_NEWCOMERS = 0.3
"""How many of all visits are by someone new."""
_REMEMBERED = 0.08
"""Who comes again is mostly among this share of all users, the newest."""
_BUSY_HOURS = (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 9, 10, 11, 14, 15, 16, 0, 6)
_WEEKEND = 0.45
"""How much of a weekday's visits a day of the weekend has."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One visit."""

    number: int
    """Its number in the history, from 0."""
    user: int
    """The user's number, from 0."""
    visit: int
    """The number of the user's visit, from 0."""
    at: float
    """When it begins, in seconds since 1970 UTC."""
    progress: float
    """Which part of the time that the history covers has passed, 0 to 1."""


def arrivals(sessions: int, seed: int, days: float, until: datetime) -> Iterator[Arrival]:
    """Yield visits of about `days` days before `until`, days in order, hours not.

    Args:
        sessions: How many.
        seed: Decides everything.
        days: How long the history is.
        until: Its end, with a zone.
    """
    chance = Random(f"arrivals/{seed}")
    start = until.astimezone(UTC) - timedelta(days=days)
    visits: list[int] = []
    for number in range(sessions):
        progress = math.log1p((number + 0.5) / sessions * math.expm1(_GROWTH)) / _GROWTH
        user = _visitor(chance, len(visits))
        visits.extend([0] if user == len(visits) else [])
        at = _hour(chance, start + timedelta(days=progress * days), until)
        yield Arrival(number, user, visits[user], at, progress)
        visits[user] += 1


def _visitor(chance: Random, known: int) -> int:
    if not known or chance.random() < _NEWCOMERS:
        return known
    back = chance.expovariate(1 / max(3.0, known * _REMEMBERED))
    return max(0, known - 1 - int(back))


def _hour(chance: Random, day: datetime, until: datetime) -> float:
    if day.weekday() >= 5 and chance.random() > _WEEKEND:
        day += timedelta(days=7 - day.weekday() if chance.random() < 0.5 else 4 - day.weekday())
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + timedelta(hours=chance.choice(_BUSY_HOURS), seconds=chance.random() * 3_600)
    return min(at, until - timedelta(hours=1)).timestamp()
