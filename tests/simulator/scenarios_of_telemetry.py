"""Histories of telemetry: stored, packed, swept, pruned and erased, while others ask."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, Scenario, actors, wait
from tests.simulator.scenarios_of_forgetting import ERASE, FINISH
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, SWEEP
from tests.simulator.store import VIEW_AGE

MEASURE, ASK = Op("measure"), Op("telemetry")
PRUNE = Op("prune telemetry", user="*", seconds=5.0)

TELEMETRY = {
    "M packed": Scenario(
        "What was measured is packed while the same is sent again, swept, and asked for all along.",
        Plan(
            actors(
                W=(MEASURE, Op("measure", tries=2, seconds=20.0), ASK, wait(20), MEASURE),
                J=(wait(10), COMPACT, wait(30), COMPACT, OLD, SWEEP, COMPACT),
                R=(ASK, wait(15), ASK, wait(15), ASK, OLD, ASK, wait(10), ASK),
            ),
            EARLY,
        ),
    ),
    "M pruned": Scenario(
        "What was pruned is in an entry that is still there when another job packs.",
        Plan(
            actors(
                W=(MEASURE, wait(30), MEASURE),
                J=(wait(10), PRUNE, ASK, COMPACT, ASK, OLD, SWEEP, COMPACT, ASK),
                R=(wait(20), ASK),
            ),
            EARLY,
        ),
    ),
    "M erased": Scenario(
        "What was measured of an erased user lands when all else of it is gone.",
        Plan(
            actors(
                W=(Op("get"), wait(2.5 * VIEW_AGE), MEASURE, ASK),
                J=(MEASURE, COMPACT, MEASURE, wait(10), ERASE, ASK, wait(40), ASK, FINISH, ASK),
            ),
            EARLY,
        ),
    ),
}
