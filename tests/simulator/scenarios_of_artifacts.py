"""Histories of artifacts: saved, deleted, pruned, packed, swept and erased, while others save."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, LONG, Scenario, actors, wait
from tests.simulator.scenarios_of_forgetting import ERASE, FINISH
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, SWEEP
from tests.simulator.store import GRACE, VIEW_AGE

SAVE, LOAD, DELETE = Op("save file"), Op("load file"), Op("delete file")
SAME = Op("save file", event="m")
PRUNE = Op("prune files", user="*", seconds=5.0)
OTHER = Op("save file", "t")
SAVED = (*EARLY, SAVE)
SHARED = Op("save file", "-"), Op("load file", "-"), Op("delete file", "-")

ARTIFACTS = {
    "A1": Scenario(
        "Two saves are equal; one refers to what the other stored, which is deleted and swept.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAME, LOAD),
                W=(SAME, wait(20), DELETE, SAME, LOAD, DELETE, wait(20), LOAD),
                J=(wait(60), OLD, SWEEP, OLD, SWEEP, LOAD),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/3": "stalls before a minute"},
    ),
    "A1 swept": Scenario(
        "The same, and the commit comes when the payload was named, and deleted.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAME, LOAD),
                W=(SAME, wait(20), DELETE, SAME, LOAD, DELETE, wait(20), LOAD),
                J=(wait(60), OLD, SWEEP, OLD, SWEEP, LOAD),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/3": LONG},
    ),
    "F orphan": Scenario(
        "A saver stalls between payload and commit, and sweeps take the payload for an orphan.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAVE, LOAD),
                J=(wait(60), OLD, SWEEP, LOAD, OLD, SWEEP, LOAD),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/2": LONG},
    ),
    "F again": Scenario(
        "The same, and the saver comes while the sweep has named it, and not deleted yet.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAVE, LOAD),
                J=(wait(60), OLD, SWEEP, LOAD, wait(1.1 * GRACE), OLD, SWEEP, LOAD),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/2": "stalls before a grace"},
    ),
    "F swept": Scenario(
        "A saver stalls; others save, pack and sweep what it was to follow; its name is free.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAVE, LOAD),
                W=(wait(30), SAVE, SAVE, LOAD),
                J=(wait(60), COMPACT, OLD, SWEEP, LOAD, *3 * (OLD,), SAVE, LOAD, COMPACT, LOAD),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/2": LONG},
    ),
    "F below": Scenario(
        "A saver knows a commit that is followed by others; a sweep comes while they are young.",
        Plan(
            actors(
                V=(wait(5), LOAD, wait(30), SAVE, LOAD),
                W=(wait(10), SAVE, SAVE),
                J=(wait(20), SWEEP, wait(30), LOAD),
            ),
            SAVED,
        ),
    ),
    "F packed": Scenario(
        "The same, and it refers to what is there, so that nobody names anything in its log.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAME, LOAD),
                W=(wait(30), SAVE, SAVE, LOAD),
                J=(wait(60), COMPACT, OLD, SWEEP, LOAD, *3 * (OLD,), SAVE, LOAD, COMPACT, LOAD),
            ),
            (*EARLY, SAME),
        ),
        {"V.3 put file u/s/2": LONG},
    ),
    "F late": Scenario(
        "A commit is under way when the artifact is deleted, packed and swept; it lands.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAME),
                W=(
                    *(wait(20), DELETE, COMPACT, OLD, SWEEP, COMPACT, OLD, SWEEP),
                    *(OTHER, COMPACT, SAVE, LOAD),
                ),
                J=(wait(4 * GRACE), LOAD, COMPACT, LOAD),
            ),
            (*EARLY, SAME),
        ),
        {"V.3 put file u/s/2": "is slow before three graces"},
    ),
    "F pruned": Scenario(
        "Versions are pruned while others save; all is packed, and what was pruned stays away.",
        Plan(
            actors(
                W=(SAVE, SAVE, wait(20), SAVE, LOAD, wait(30), LOAD),
                P=(wait(10), PRUNE, LOAD, wait(20), PRUNE, LOAD),
                J=(wait(15), COMPACT, LOAD, wait(20), COMPACT, LOAD, OLD, SWEEP, LOAD),
            ),
            (*SAVED, SAVE, COMPACT),
        ),
    ),
    "F shared": Scenario(
        "What all sessions of a user share is saved, packed and deleted by two at once.",
        Plan(
            actors(
                V=(*SHARED, wait(20), *SHARED[:2]),
                W=(*SHARED[:2], wait(10), *SHARED),
                J=(wait(5), COMPACT, wait(10), COMPACT, OLD, SWEEP, *SHARED[1:2]),
            ),
            SAVED,
        ),
    ),
    "F erased": Scenario(
        "A saver is at it when the user is erased; payload and commit land when all else is gone.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAVE),
                W=(wait(2.5 * VIEW_AGE), LOAD, SAVE, LOAD),
                J=(wait(10), COMPACT, ERASE, LOAD, FINISH, OLD, LOAD, SWEEP),
            ),
            SAVED,
        ),
        {"V.3 put file u/s/2": "is slow before a grace"},
    ),
    "F erased late": Scenario(
        "The payload itself lands after the last look; sweeps take it, and no name stays.",
        Plan(
            actors(
                V=(wait(5), LOAD, SAVE),
                J=(wait(10), COMPACT, ERASE, FINISH, LOAD, OLD, OLD, SWEEP),
            ),
            SAVED,
        ),
        {
            "V.3 put payload of u/s": "comes late",
            "V.3 put payload of u/s arrives in": "three graces",
        },
    ),
    "F read": Scenario(
        "A reader has a version before it, and its payload is swept before it is read.",
        Plan(
            actors(
                R=(wait(5), LOAD),
                W=(wait(20), DELETE, wait(20), LOAD),
                J=(wait(60), OLD, SWEEP, OLD, SWEEP, LOAD),
            ),
            SAVED,
        ),
        {"R.2 get payload of u/s": LONG},
    ),
}
