"""Makes a failing history small: what is done in it, and what goes wrong, are left out by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.simulator.plan import Plan
from tests.simulator.world import Outcome, play

T = TypeVar("T")

_Part = tuple[str, int] | str
"""What an actor does under a number, or a choice by its place."""


def shrunk(outcome: Outcome, tries: int = 2_000) -> Outcome:
    """Return a history with as little in it as can be found that is still wrong, traced.

    Args:
        outcome: A history that is wrong.
        tries: So many histories are played at most.
    """
    left = tries

    def fails(parts: Sequence[_Part]) -> bool:
        nonlocal left
        left -= 1
        return left > 0 and bool(_play(outcome, parts).faults)

    parts: list[_Part] = [
        *((actor, number) for actor, ops in outcome.plan.actors.items() for number in ops),
        *outcome.made,
    ]
    return _play(outcome, smallest(parts, fails), tracing=True)


def _play(outcome: Outcome, parts: Sequence[_Part], *, tracing: bool = False) -> Outcome:
    kept = set(parts)
    every = [(actor, n) for actor, ops in outcome.plan.actors.items() for n in ops]
    plan: Plan = outcome.plan.without([part for part in every if part not in kept])
    choices: Mapping[str, str] = {k: v for k, v in outcome.made.items() if k in kept}
    return play(plan, choices, tracing=tracing)


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of `parts` that still fails, of which nothing more can be left out alone."""
    kept = list(parts)
    size = max(1, len(kept) // 2)
    while True:
        before = len(kept)
        first = 0
        while first < len(kept):
            without = [*kept[:first], *kept[first + size :]]
            if fails(without):
                kept = without
            else:
                first += size
        if size > 1:
            size //= 2
        elif len(kept) == before:
            return kept
