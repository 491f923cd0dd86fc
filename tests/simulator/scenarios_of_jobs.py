"""Histories of jobs that change no answer: manifests, packs, runs, sweeps."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, LONG, Scenario, actors, wait
from tests.simulator.settings import KEPT
from tests.simulator.store import GRACE

COMPACT = Op("compact")
SWEEP = Op("sweep")
OLD = wait(1.2 * GRACE)
LONGER = wait(1.1 * KEPT)
PACKED = (*EARLY, COMPACT)
PRUNE = Op("prune events", user="*", seconds=5.0)

JOBS = {
    "S7": Scenario(
        "A job stalls; others publish and sweep; the number of its manifest is free again.",
        Plan(
            actors(
                J=(wait(10), PRUNE),
                B=(
                    *(wait(20), Op("append"), COMPACT, Op("append"), COMPACT),
                    *(OLD, SWEEP),
                ),
            ),
            PACKED,
        ),
        {"J.2 put manifest 3": LONG},
    ),
    "S8": Scenario(
        "A sweep's DELETE is late; the session was deleted, and its id is used again.",
        Plan(
            actors(
                B=(
                    *(Op("delete"), COMPACT, OLD, SWEEP),
                    *(Op("append", "t"), COMPACT),
                    *(Op("create"), Op("append"), Op("append"), Op("get"), wait(2 * GRACE)),
                ),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"B.4 delete u/s/2": "comes late", "B.4 delete u/s/2 arrives in": "a minute"},
    ),
    "R1": Scenario(
        "A deleted session's log is half swept; its row goes, and its id is used again.",
        Plan(
            actors(
                B=(
                    *(Op("delete"), COMPACT, OLD, SWEEP, LONGER, SWEEP, LONGER, SWEEP),
                    *(Op("create"), Op("append"), Op("get")),
                ),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"B.4 delete u/s/2": "fails"},
    ),
    "R1 late": Scenario(
        "A DELETE in a log is late; the log is empty, swept again, and the id is used again.",
        Plan(
            actors(
                B=(
                    *(Op("delete"), COMPACT, OLD, SWEEP, wait(1.1 * GRACE), SWEEP),
                    *(wait(1.1 * GRACE), SWEEP, Op("create"), Op("append"), wait(3 * GRACE)),
                ),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"B.4 delete u/s/2": "comes late", "B.4 delete u/s/2 arrives in": "three graces"},
    ),
    "R1 race": Scenario(
        "A session is begun anew while its row is about to go.",
        Plan(
            actors(
                B=(Op("delete"), COMPACT, OLD, SWEEP, LONGER, SWEEP),
                W=(OLD, LONGER, Op("create"), Op("append"), Op("get")),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"W.3 put u/s/4": "is slow before a minute"},
    ),
    "lost race": Scenario(
        "Two jobs are about to publish the same number.",
        Plan(
            actors(J=(wait(10), PRUNE), C=(wait(12), Op("append"), COMPACT)),
            PACKED,
        ),
        {"J.2 put manifest 3": "is slow before a minute"},
    ),
    "K1": Scenario(
        "A job stalls before it publishes; a sweep takes its pack for an orphan.",
        Plan(
            actors(
                J=(wait(10), COMPACT),
                S=(wait(20), OLD, SWEEP, OLD, SWEEP),
            ),
            EARLY,
        ),
        {"J.2 put manifest 1": LONG},
    ),
    "K2": Scenario(
        "A job's change keeps rows in a pack that others have packed again, named and swept.",
        Plan(
            actors(
                J=(wait(10), COMPACT, Op("get")),
                P=(wait(20), PRUNE, wait(1.1 * GRACE), SWEEP),
            ),
            (*PACKED, Op("append")),
        ),
        {"J.2 put pack of events": "is slow before a grace"},
    ),
    "S2 compact": Scenario(
        "A compaction lists, stalls past the grace, and finds a stray among what it had listed.",
        Plan(
            actors(
                W=(Op("append"),),
                B=(wait(10), Op("append"), Op("append"), wait(30), Op("overtake")),
                R=(wait(20), COMPACT),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": "is slow before three graces"},
    ),
    "swept log": Scenario(
        "A process that knows an old manifest comes back to a log that is packed and swept.",
        Plan(
            actors(
                R=(Op("get"), wait(2 * GRACE), Op("get"), Op("append"), Op("list")),
                B=(wait(10), Op("append"), COMPACT, OLD, SWEEP),
            ),
            EARLY,
        ),
    ),
    "swept soon": Scenario(
        "What is packed just now is still where it was for those who do not know it.",
        Plan(
            actors(
                R=(Op("get", "t"), wait(100), Op("get")),
                B=(wait(10), COMPACT, SWEEP),
            ),
            (*EARLY, Op("create", "t")),
        ),
    ),
    "swept by a clock ahead": Scenario(
        "The same, and the clock of the sweeper is ahead by more than the grace.",
        Plan(
            actors(
                R=(Op("get", "t"), wait(100), Op("get")),
                B=(wait(10), COMPACT, SWEEP),
            ),
            (*EARLY, Op("create", "t")),
            skews={"B": 1.2 * GRACE},
        ),
    ),
    "swept again": Scenario(
        "Compactions and sweeps follow each other; the newest manifest stays.",
        Plan(
            actors(
                B=(
                    *(COMPACT, OLD, SWEEP, Op("append"), COMPACT, OLD, SWEEP),
                    *(Op("append"), Op("get")),
                ),
            ),
            EARLY,
        ),
    ),
    "two of each": Scenario(
        "Two compactions and two sweeps at once, again and again.",
        Plan(
            actors(
                A=(COMPACT, Op("append"), COMPACT, OLD, SWEEP, Op("get")),
                B=(COMPACT, Op("append"), COMPACT, OLD, SWEEP, Op("get")),
                W=(Op("append", "t", sets=("app:k",)), OLD, Op("append", "t"), Op("get", "t")),
            ),
            (*EARLY, Op("create", "t")),
        ),
    ),
    "packed without its entries": Scenario(
        "A writer dies before its entries; its commit is packed and swept.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(wait(10), COMPACT, OLD, SWEEP, Op("get")),
            ),
            EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "an entry after the run": Scenario(
        "An entry with an earlier stamp lands after later ones were packed.",
        Plan(
            actors(
                A=(Op("get", "t"), Op("append", "t", sets=("user:j",)), Op("get", "t")),
                B=(wait(5), Op("append", sets=("user:k",)), COMPACT, Op("get")),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"A.2 put state of u entry": "is slow before a view"},
    ),
    "an entry beside the run": Scenario(
        "An entry with an earlier stamp lands beside a run that does not hold it; a sweep follows.",
        Plan(
            actors(
                A=(
                    *(Op("get", "t"), wait(10)),
                    *(Op("append", "t", sets=("user:j",)), Op("append", "t")),
                ),
                B=(Op("append", sets=("user:k",)), COMPACT, OLD, SWEEP, Op("get", "t")),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": -40.0},
        ),
        {
            "B.2 put manifest 1": "is slow before a minute",
            "B.2 list state of *": "crashes before",
        },
    ),
    "resent jobs": Scenario(
        "The client sends requests of jobs twice, and is refused by itself.",
        Plan(actors(B=(wait(10), COMPACT, SWEEP, Op("get"))), EARLY),
        dict.fromkeys(
            (
                *("B.2 put pack of events", "B.2 put run of events", "B.2 put manifest 1"),
                *("B.2 put run of state", "B.3 put proof"),
            ),
            "is resent",
        ),
    ),
    "C1 packed": Scenario(
        "A catalog lists logs; what it is about to read is packed and swept meanwhile.",
        Plan(
            actors(
                R=(Op("sql"), wait(20), Op("sql"), Op("sql")),
                B=(wait(10), Op("append"), wait(20), COMPACT, OLD, SWEEP),
            ),
            EARLY,
        ),
        {"R.3 list log */*": "is slow before three graces"},
    ),
}
