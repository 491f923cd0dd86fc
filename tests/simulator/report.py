"""How a history is told to people: what is wrong, what everyone was to do, and what happened."""

from __future__ import annotations

import json

from tests.simulator.plan import Op
from tests.simulator.trace import lines
from tests.simulator.world import Outcome


def told(outcome: Outcome) -> str:
    """Return a history in words; it should have been traced."""
    return "\n".join(
        [
            "What is wrong:",
            *(f"  {fault}" for fault in outcome.faults or ["nothing"]),
            "What everyone does:",
            *(
                f"  {actor}.{number} {words(op)}"
                for actor, ops in outcome.plan.actors.items()
                for number, op in ops.items()
            ),
            f"Clocks are off by: {dict(outcome.plan.skews)}, near: {list(outcome.plan.near)}",
            f"Choices: {json.dumps(dict(outcome.made), indent=2)}",
            "What happens:",
            *lines(outcome.steps),
        ]
    )


def words(op: Op) -> str:
    """Return what an actor does, without what it leaves as it is."""
    plain = Op(op.do)
    facts = {
        name: value
        for name in Op.__dataclass_fields__
        if name != "do" and (value := getattr(op, name)) != getattr(plain, name)
    }
    return " ".join([op.do, f"{op.user}/{op.session}", *(f"{k}={v}" for k, v in facts.items())])
