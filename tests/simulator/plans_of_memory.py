"""What actors are to do in histories of memory that are drawn by seed. No I/O, no product."""

from __future__ import annotations

from random import Random

from tests.simulator.plan import SKEWS, WEATHERS, Op, Plan, script
from tests.simulator.store import GRACE, VIEW_AGE

_WEIGHTS = {
    "remember": 10,
    "recall": 8,
    "forget": 4,
    "wait": 4,
    "compact": 5,
    "sweep": 4,
    "rebuild": 3,
    "restore": 2,
}
_BEGIN = (Op("create"), Op("append"), Op("remember", event="m"))
_NAMES = ("", "", "m", "n")
"""Of memories: one of its own, or one that others may add and forget, too."""
_WAITS = (1.0, 20.0, 1.1 * VIEW_AGE, 1.1 * GRACE, 1.1 * GRACE)


def drawn_memory(seed: int) -> Plan:
    """Return the plan that belongs to a seed."""
    draw = Random(seed)
    names = "ABC"[: draw.choice((2, 3))]
    actors = {name: script(*(_op(draw) for _ in range(draw.randint(4, 9)))) for name in names}
    return Plan(
        actors,
        setup=(
            Op("create"),
            Op("append"),
            Op("remember", event="m"),
            *draw.choice([(), (Op("compact"),)]),
        ),
        skews={name: draw.choice(SKEWS) for name in names},
        near=[name for name in names if draw.random() < 0.25],
        weather=draw.choice(WEATHERS),
    )


def _op(draw: Random) -> Op:
    do = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    user = draw.choice("uuv")
    sets = draw.choice(((), (), ("app:",)))
    if do == "forget":
        return Op(do, user=user, sets=sets, event=draw.choice("mn"))
    if do == "remember":
        event = draw.choice(_NAMES)
        # What is the app's has other names, as what is found does not say whose it is.
        return Op(do, user=user, sets=() if event else sets, event=event, tries=draw.choice((1, 3)))
    return Op(do, user=user, seconds=draw.choice(_WAITS))
