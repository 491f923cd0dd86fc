"""Histories of memory: added, forgotten, packed, swept and erased, while others ask."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, Scenario, actors, wait
from tests.simulator.scenarios_of_forgetting import ERASE, FINISH
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, SWEEP
from tests.simulator.store import GRACE, VIEW_AGE

ADD, RECALL = Op("remember"), Op("recall")
APP_WIDE = Op("remember", sets=("app:",))
ONE, FORGET = Op("remember", event="m"), Op("forget", event="m")

MEMORY = {
    "N packed": Scenario(
        "Memories are packed and swept while others are added and forgotten, and asked for.",
        Plan(
            actors(
                W=(ONE, APP_WIDE, RECALL, wait(30), ADD, RECALL, OLD, FORGET, RECALL, ADD),
                J=(wait(10), COMPACT, wait(30), COMPACT, OLD, SWEEP, COMPACT, OLD, SWEEP),
                K=(wait(40), COMPACT, OLD, wait(20), COMPACT, SWEEP),
                R=(RECALL, wait(15), RECALL, wait(15), RECALL, OLD, RECALL, wait(10), RECALL),
            ),
            EARLY,
        ),
    ),
    "N late": Scenario(
        "A memory is forgotten, and that is packed and swept, when an add of it lands.",
        Plan(
            actors(
                V=(ONE, RECALL),
                W=(wait(5), ONE, wait(60), FORGET, RECALL),
                J=(wait(90), COMPACT, OLD, SWEEP, OLD, OLD, RECALL, COMPACT, RECALL),
            ),
            EARLY,
        ),
        {"V.1 put memory of u entry": "is slow before three graces"},
    ),
    "N twice": Scenario(
        "Two who know nothing of each other add the same; it is one memory, packed or not.",
        Plan(
            actors(
                W=(ONE, RECALL, wait(90), RECALL),
                V=(wait(5), ONE, RECALL, wait(70), RECALL, COMPACT, RECALL, FORGET, RECALL),
            ),
            EARLY,
        ),
        {"W.1 put memory of u entry": "is slow before a minute"},
    ),
    "N again": Scenario(
        "A memory is forgotten, and added again by who knows of it, and by who does not.",
        Plan(
            actors(
                W=(ONE, FORGET, ONE, RECALL, COMPACT, ONE, RECALL),
                V=(RECALL, wait(20), ONE, RECALL, OLD, SWEEP, ONE, RECALL),
            ),
            EARLY,
        ),
        {"V.3 list memory of u": "is slow after a minute"},
    ),
    "N slow": Scenario(
        "A reader's listing takes so long that what it would have shown is packed and swept.",
        Plan(
            actors(
                W=(ADD, wait(20), ADD, wait(20), COMPACT, OLD, SWEEP),
                R=(wait(5), RECALL, wait(20), RECALL),
            ),
            EARLY,
        ),
        {"R.4 list memory of u": "is slow before three graces"},
    ),
    "N erased": Scenario(
        "What was remembered of an erased user lands when all else is gone; he begins anew.",
        Plan(
            actors(
                W=(APP_WIDE, ADD, wait(2.5 * VIEW_AGE), RECALL, ADD, APP_WIDE, RECALL),
                V=(wait(8), ADD),
                J=(wait(10), COMPACT, ERASE, RECALL, FINISH, OLD, RECALL, SWEEP),
                R=(
                    *(Op("remember", user="v", sets=("app:",)), wait(60), Op("recall", user="v")),
                    *(wait(1.25 * GRACE), RECALL),
                ),
            ),
            EARLY,
        ),
        {"V.2 put memory of u entry": "is slow before a grace"},
    ),
    "N anew": Scenario(
        "An eraser's clock is ahead, and the user begins anew.",
        Plan(
            actors(
                W=(ADD, wait(2.5 * VIEW_AGE), ADD, APP_WIDE, RECALL, COMPACT, RECALL),
                J=(wait(10), ERASE, FINISH, wait(20), RECALL),
            ),
            EARLY,
            skews={"J": 3000.0},
        ),
    ),
}
