"""Histories of jobs that forget: pruned sessions, events and keys, erased users."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, LONG, Scenario, actors, wait
from tests.simulator.scenarios_of_jobs import COMPACT, OLD, PACKED, PRUNE, SWEEP

PRUNE_SESSIONS = Op("prune sessions", user="*", seconds=5.0)
PRUNE_STATE = Op("prune state", user="*", seconds=5.0)
ERASE = Op("erase")
FINISH = Op("finish")
OTHERS = (Op("create", "s", "v"), Op("append", "s", "v"))

FORGETTING = {
    "P1": Scenario(
        "A session is judged idle; before it ends, an append to it is acknowledged.",
        Plan(
            actors(
                P=(wait(10), PRUNE_SESSIONS),
                W=(Op("get"), wait(30), Op("append"), Op("get"), Op("append")),
            ),
            EARLY,
        ),
        {"P.2 put u/s/3": "is slow before a minute"},
    ),
    "P1 packed": Scenario(
        "The same with a session that is packed.",
        Plan(
            actors(
                P=(wait(10), PRUNE_SESSIONS, COMPACT, OLD, SWEEP),
                W=(Op("get"), wait(30), Op("append"), Op("get"), Op("append")),
            ),
            PACKED,
        ),
        {"P.2 put u/s/3": "is slow before a minute"},
    ),
    "idle": Scenario(
        "Sessions that nobody has added to are pruned, packed and swept, and begun again.",
        Plan(
            actors(
                P=(wait(10), PRUNE_SESSIONS, COMPACT, OLD, SWEEP),
                W=(Op("get"), wait(60), Op("append"), Op("create"), Op("append"), Op("get")),
            ),
            EARLY,
        ),
    ),
    "P2": Scenario(
        "A rollup of what was there before lands after a prune of events.",
        Plan(
            actors(
                W=(Op("get"), Op("roll up")),
                P=(wait(10), PRUNE),
            ),
            (*EARLY, Op("append")),
        ),
        {"W.2 put u/s/3 (rollup)": "is slow before a view"},
    ),
    "P2 above": Scenario(
        "A writer that knows what was there before appends and rolls up after a prune.",
        Plan(
            actors(
                W=(Op("get"), wait(60), Op("append"), Op("roll up"), wait(10), Op("get")),
                P=(wait(10), PRUNE),
            ),
            (*EARLY, Op("append")),
        ),
    ),
    "P3": Scenario(
        "A compaction loses the race to a prune of what it has packed more of.",
        Plan(
            actors(
                C=(wait(10), COMPACT),
                P=(wait(12), PRUNE),
            ),
            (*PACKED, Op("append")),
        ),
        {"C.2 put manifest 3": "is slow before a minute"},
    ),
    "a turn goes on": Scenario(
        "A turn has begun long ago, and goes on while others are pruned.",
        Plan(
            actors(
                W=(Op("get"), Op("talk", events=3, seconds=40.0)),
                P=(wait(60), Op("prune events", seconds=30.0)),
            ),
            EARLY,
        ),
    ),
    "T2": Scenario(
        "A key is pruned; who has read its commit before puts the missing entry late.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                H=(wait(10), Op("get")),
                P=(wait(20), PRUNE_STATE, COMPACT, OLD, SWEEP),
            ),
            EARLY,
        ),
        {
            "W.2 put state of u entry": "crashes before",
            "H.2 put state of u entry": "is slow before a grace",
        },
    ),
    "T2 listed": Scenario(
        "A key is pruned whose entry is still there.",
        Plan(
            actors(
                P=(
                    *(wait(10), PRUNE_STATE, Op("append", sets=("user:j",)), COMPACT),
                    *(wait(400), Op("get")),
                ),
            ),
            EARLY,
        ),
    ),
    "a fold after a prune": Scenario(
        "The entries of a user are folded after a key was pruned, and checked.",
        Plan(
            actors(
                P=(
                    *(wait(10), PRUNE_STATE, Op("append", sets=("user:j",)), Op("fold")),
                    *(wait(10), Op("check"), Op("get")),
                ),
            ),
            EARLY,
        ),
    ),
    "T5": Scenario(
        "After an erase the user begins again, with a clock that is behind.",
        Plan(
            actors(
                E=(wait(10), ERASE),
                W=(
                    *(wait(1000), Op("create", sets=("user:k",)), Op("append", sets=("user:j",))),
                    *(COMPACT, Op("get")),
                ),
            ),
            EARLY,
            skews={"W": -1200.0},
        ),
    ),
    "E1": Scenario(
        "A writer goes on with a session while its user is erased.",
        Plan(
            actors(
                E=(wait(10), ERASE, FINISH),
                W=(Op("get"), Op("append"), wait(60), Op("append"), wait(900), Op("append")),
            ),
            EARLY,
        ),
    ),
    "E2": Scenario(
        "A compaction has read a session, and publishes it after its user was erased.",
        Plan(
            actors(E=(wait(12), ERASE, FINISH), C=(wait(10), COMPACT)),
            (*EARLY, *OTHERS),
        ),
        {"C.2 put manifest 1": "is slow before a minute"},
    ),
    "E2 read": Scenario(
        "A compaction is slow to read a session that is erased meanwhile.",
        Plan(actors(E=(wait(12), ERASE), C=(wait(10), COMPACT)), EARLY),
        {"C.2 get u/s/1": "is slow before a grace"},
    ),
    "E3": Scenario(
        "An entry of an erased session lands after everything was removed.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                E=(wait(10), ERASE, OLD, Op("user state"), FINISH),
            ),
            (*EARLY, *OTHERS),
        ),
        {
            "W.2 put state of u entry": "comes late",
            "W.2 put state of u entry arrives in": "a grace",
        },
    ),
    "E4": Scenario(
        "A rollup, and the commit under it, land after everything was removed.",
        Plan(
            actors(
                W=(Op("get"), Op("append"), Op("roll up")),
                E=(wait(10), ERASE, OLD, Op("get"), FINISH),
            ),
            EARLY,
        ),
        {
            "W.2 put u/s/3": "comes twice",
            "W.2 put u/s/3 arrives in": "a grace",
            "W.3 put u/s/3 (rollup)": "is slow before a grace",
        },
    ),
    "E4 create": Scenario(
        "A creation stalls; others created that session, it was erased, and the name is free.",
        Plan(
            actors(
                W=(Op("create", "t"), Op("get", "t")),
                E=(wait(10), Op("create", "t"), ERASE, OLD, FINISH),
            ),
            EARLY,
        ),
        {"W.1 put u/t/1": LONG},
    ),
    "E5": Scenario(
        "The delete of an erase is refused, since a writer is faster, time and again.",
        Plan(
            actors(
                E=(wait(10), ERASE, FINISH),
                W=(
                    *(Op("get"), wait(30), Op("append", sets=("user:j",)), wait(60)),
                    *(Op("append", sets=("user:j",)), wait(120), Op("append")),
                ),
            ),
            EARLY,
        ),
        {
            "E.2 put u/s/3": "is slow before a minute",
            "E.2 put u/s/4": "is slow before a minute",
        },
    ),
    "E warm": Scenario(
        "A process has the state of a user in its cache who is erased.",
        Plan(
            actors(
                R=(
                    wait(5),
                    Op("user state"),
                    wait(90),
                    Op("user state"),
                    wait(600),
                    Op("user state"),
                ),
                E=(wait(10), ERASE),
            ),
            (*EARLY, *OTHERS),
        ),
    ),
    "E app": Scenario(
        "What an erased session has set of the app's own state stays, packed or not.",
        Plan(
            actors(
                W=(Op("append", sets=("app:k",)), COMPACT, Op("append", sets=("app:j",))),
                E=(wait(30), ERASE, FINISH, Op("get", "s", "v")),
            ),
            (*EARLY, *OTHERS),
        ),
    ),
    "E again": Scenario(
        "A user begins again after an erase, is packed, and goes on; others are erased.",
        Plan(
            actors(
                E=(wait(10), ERASE, FINISH),
                W=(wait(1000), Op("create"), Op("append"), COMPACT, Op("append"), Op("get")),
                F=(wait(1500), Op("erase", "s", "v"), Op("finish", "s", "v")),
            ),
            (*EARLY, *OTHERS),
        ),
    ),
    "E packs": Scenario(
        "The rows of a user lie in a pack with those of others, some of them dead already.",
        Plan(
            actors(E=(wait(10), Op("delete", "t"), COMPACT, ERASE, FINISH, Op("get", "s", "v"))),
            (*EARLY, Op("create", "t"), Op("append", "t"), *OTHERS, COMPACT),
        ),
    ),
}
