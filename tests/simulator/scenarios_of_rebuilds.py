"""Histories of rebuilds: memory swapped and brought back while others add, forget and pack."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, Scenario, actors, wait
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, SWEEP
from tests.simulator.scenarios_of_memory import ADD, FORGET, ONE, RECALL

REBUILD, RESTORE = Op("rebuild"), Op("restore")

REBUILDS = {
    "M1": Scenario(
        "A memory is forgotten between a rebuild and its restore, which is not to bring it back.",
        Plan(
            actors(
                W=(ONE, ADD, wait(40), FORGET, RECALL, wait(60), ONE, RECALL),
                J=(wait(10), REBUILD, RECALL, wait(50), RESTORE, RECALL, COMPACT, RECALL),
                V=(wait(200), ONE, RECALL),
            ),
            EARLY,
        ),
    ),
    "M2": Scenario(
        "Memories are added, and packed by another job, while a rebuild has read and not swapped.",
        Plan(
            actors(
                W=(ADD, wait(20), ADD, ADD, wait(60), RECALL, ADD, RECALL),
                J=(wait(10), REBUILD, RECALL),
                K=(wait(30), COMPACT, OLD, COMPACT, SWEEP, RECALL),
            ),
            EARLY,
        ),
        {"J.2 put run of previous": "is slow before a minute"},
    ),
    "M both": Scenario(
        "Two rebuild at once, one of them dies, and what they leave behind is swept.",
        Plan(
            actors(
                W=(ADD, ONE, wait(30), ADD, FORGET, wait(30), ADD, RECALL, OLD, RECALL),
                J=(wait(10), REBUILD, RESTORE, OLD, SWEEP, OLD, SWEEP, RECALL),
                K=(wait(10), REBUILD, wait(20), RECALL, OLD, SWEEP),
            ),
            EARLY,
        ),
        {"K.2 put run of previous": "crashes before"},
    ),
}
