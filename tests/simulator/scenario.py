"""Histories with a name: each broke a draft of the protocols, or shows what a rule is for.

The codes are those of the protocols' model. A scenario is a plan and the choices that make it that
very history; with a seed, everything else in it is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulator.plan import Op, Plan, script

LONG = "stalls before three graces"
SLOW = "is slow before three graces"

CREATE = Op("create", sets=("user:k",))
EARLY = (CREATE, Op("append"))


@dataclass(frozen=True)
class Scenario:
    """One history."""

    tells: str
    """What happens in it."""
    plan: Plan
    choices: Mapping[str, str] = field(default_factory=dict)


def wait(seconds: float) -> Op:
    """Return doing nothing."""
    return Op("wait", seconds=seconds)


def actors(**scripts: tuple[Op, ...]) -> dict[str, dict[int, Op]]:
    """Return what actors do, by name."""
    return {name: script(*ops) for name, ops in scripts.items()}
