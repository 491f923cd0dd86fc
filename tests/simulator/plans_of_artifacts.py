"""What actors are to do in histories of artifacts that are drawn by seed. No I/O, no product."""

from __future__ import annotations

from random import Random

from tests.simulator.plan import SKEWS, WEATHERS, Op, Plan, script
from tests.simulator.store import GRACE, VIEW_AGE

_WEIGHTS = {
    "save file": 14,
    "load file": 8,
    "delete file": 3,
    "prune files": 2,
    "wait": 6,
    "compact": 6,
    "sweep": 7,
}
_FORGETTING = {**_WEIGHTS, "erase": 2, "finish": 3}
_ARTIFACTS = (("u", "s"), ("u", "s"), ("u", "s"), ("u", "-"))
_CONTENTS = ("", "", "", "m")
"""Of versions: one of its own, or one that others may save, too."""
_WAITS = (1.0, 20.0, 1.1 * VIEW_AGE, 1.1 * GRACE, 1.1 * GRACE)


def drawn_artifacts(seed: int) -> Plan:
    """Return the plan that belongs to a seed."""
    draw = Random(seed)
    names = "ABC"[: draw.choice((2, 3))]
    weights = draw.choice((_WEIGHTS, _WEIGHTS, _FORGETTING))
    actors = {
        name: script(*(_op(draw, weights) for _ in range(draw.randint(4, 9)))) for name in names
    }
    return Plan(
        actors,
        setup=(
            *(Op("create"), Op("save file"), Op("save file", event="m")),
            *draw.choice([(), (Op("compact"),)]),
        ),
        skews={name: draw.choice(SKEWS) for name in names},
        near=[name for name in names if draw.random() < 0.25],
        weather=draw.choice(WEATHERS),
    )


def _op(draw: Random, weights: dict[str, int]) -> Op:
    do = draw.choices(list(weights), list(weights.values()))[0]
    user, session = draw.choice(_ARTIFACTS)
    if do == "save file":
        return Op(do, session, user, event=draw.choice(_CONTENTS), tries=draw.choice((1, 3)))
    return Op(do, session, user, seconds=draw.choice(_WAITS))
