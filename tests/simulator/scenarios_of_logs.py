"""Histories of logs: stalls, sweeps, listings that are torn, events that are sent again."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import CREATE, EARLY, LONG, SLOW, Scenario, actors, wait
from tests.simulator.store import GRACE, VIEW_AGE, Weather

LOGS = {
    "S1": Scenario(
        "A writer stalls; others append, roll up and sweep; its name is free again.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:k",)), Op("get"), Op("append")),
                B=(wait(10), Op("overtake")),
            ),
            EARLY,
        ),
        {"W.2 put u/s/3": LONG},
    ),
    "S2": Scenario(
        "A cold load lists, stalls past the grace, and finds a stray among what it had listed.",
        Plan(
            actors(
                W=(Op("append"),),
                B=(wait(10), Op("append"), Op("append"), wait(30), Op("overtake")),
                R=(wait(20), Op("get")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S2 list": Scenario(
        "The same for a pass over all sessions of a user.",
        Plan(
            actors(
                W=(Op("append"),),
                B=(wait(10), Op("append"), Op("append"), wait(30), Op("overtake")),
                R=(wait(20), Op("user events")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S2 catalog": Scenario(
        "The same for a refresh of the catalog.",
        Plan(
            actors(
                W=(Op("append"),),
                B=(wait(10), Op("append"), Op("append"), wait(30), Op("overtake")),
                R=(wait(20), Op("sql")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S3": Scenario(
        "A warm probe stalls, and finds nothing because all was swept meanwhile.",
        Plan(actors(R=(Op("get"), wait(99), Op("get")), B=(wait(10), Op("overtake"))), EARLY),
        {"R.3 get u/s/3": SLOW},
    ),
    "S3 read": Scenario(
        "The reply of a warm probe takes longer than the grace; what follows it was swept.",
        Plan(actors(R=(Op("get"), wait(99), Op("get")), B=(wait(10), Op("overtake"))), EARLY),
        {"R.3 get u/s/3": "is slow after three graces"},
    ),
    "S3 old": Scenario(
        "A view from before the sweep is asked for again.",
        Plan(
            actors(R=(Op("get"), wait(2 * GRACE), Op("get")), B=(wait(10), Op("overtake"))),
            EARLY,
        ),
    ),
    "S4": Scenario(
        "Two writers stall, the second upon a commit in whose place the first leaves a stray.",
        Plan(
            actors(
                W=(Op("get"), Op("append")),
                X=(wait(20), Op("get"), Op("append")),
                B=(wait(10), Op("append"), wait(20), Op("overtake")),
            ),
            EARLY,
        ),
        {"W.2 put u/s/3": LONG, "X.3 put u/s/4": LONG},
    ),
    "S5": Scenario(
        "A create looks, stalls, and its version 1 was created by others and swept.",
        Plan(
            actors(
                W=(Op("create", "t"), Op("append", "t")),
                B=(wait(10), Op("create", "t"), Op("overtake", "t")),
            ),
        ),
        {"W.1 put u/t/1": LONG},
    ),
    "S5 stray": Scenario(
        "What such a create leaves stands below a rollup, with no version missing above it.",
        Plan(
            actors(
                W=(Op("create", "t"),),
                B=(
                    wait(10),
                    Op("create", "t"),
                    Op("append", "t"),
                    Op("roll up", "t"),
                    wait(1.1 * GRACE),
                    Op("append", "t"),
                    Op("roll up", "t"),
                ),
            ),
        ),
        {"W.1 put u/t/1": LONG},
    ),
    "S6": Scenario(
        "The delete of a commit fails, and the sweep goes on; a slow warm reader finds it alone.",
        Plan(actors(R=(Op("get"), wait(99), Op("get")), B=(wait(10), Op("overtake"))), EARLY),
        {"R.3 get u/s/3": SLOW, "B.2 delete u/s/3": "fails"},
    ),
    "S10": Scenario(
        "An entry cannot be put, then another event is appended through the same session.",
        Plan(
            actors(W=(Op("get"), Op("append", sets=("user:j",)), Op("append"), Op("get"))),
            EARLY,
        ),
        {"W.2 put state of u entry": "fails"},
    ),
    "S10 slow": Scenario(
        "While an entry is on its way, others read the state that it belongs to.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                R=(wait(10), Op("get", "t"), Op("user state")),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"W.2 put state of u entry": "is slow before a view"},
    ),
    "S11": Scenario(
        "A writer dies before its entries, and another one appends upon its commit.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(Op("get"), wait(10), Op("get"), Op("append"), Op("get")),
            ),
            EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "C1": Scenario(
        "A catalog follows a log that is rolled up, swept, and written to late.",
        Plan(
            actors(
                R=(Op("sql"), wait(2 * GRACE), Op("sql"), Op("sql")),
                B=(wait(10), Op("overtake"), Op("overtake")),
            ),
            EARLY,
        ),
    ),
    "D1": Scenario(
        "A batch of unknown outcome has landed, and is sent again one by one.",
        Plan(actors(W=(Op("get"), Op("append", events=2, tries=2, singly=True))), EARLY),
        {"W.2 put u/s/3": "loses its reply", "W.2 get u/s/3": "fails"},
    ),
    "D2": Scenario(
        "An event stands above one that its second sender has never seen.",
        Plan(
            actors(
                A=(Op("get"), wait(10), Op("append", event="x"), Op("append")),
                B=(Op("append"), Op("append", event="x")),
            ),
            EARLY,
        ),
        {},
    ),
    "Q1": Scenario(
        "The clock of a sweeper is ahead by more than the grace.",
        Plan(
            actors(
                R=(Op("get"), wait(100), Op("get")),
                B=(
                    wait(10),
                    *(Op("append"), Op("append"), Op("roll up"), wait(5), Op("append")),
                    *(Op("roll up"),),
                ),
            ),
            EARLY,
            skews={"B": 1.2 * GRACE},
        ),
    ),
    "Q2": Scenario(
        "A rollup is followed by another at once, while others have warm views.",
        Plan(
            actors(
                R=(Op("get"), wait(100), Op("get")),
                B=(wait(10), Op("append"), Op("roll up"), wait(5), Op("append"), Op("roll up")),
            ),
            EARLY,
        ),
    ),
    "dropped": Scenario(
        "A commit never arrives, and nobody says so.",
        Plan(actors(W=(Op("get"), Op("append"), Op("get"), Op("append"))), EARLY),
        {f"W.2 put u/s/3{n}": "is dropped" for n in ("", " #2", " #3", " #4")},
    ),
    "torn": Scenario(
        "A listing misses one of two commits that are made meanwhile.",
        Plan(actors(R=(Op("get"),), B=(Op("append", events=1), Op("append"))), EARLY),
        {"R.1 shows log u/s": "ny"},
    ),
    "torn entries": Scenario(
        "Entries are folded and swept while they are listed, or soon after.",
        Plan(
            actors(
                R=(wait(10), Op("get", "t")),
                B=(wait(10.1), Op("fold"), wait(1), Op("fold"), wait(1)),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"R.2 shows state of u": "n"},
    ),
    "torn entries, long": Scenario(
        "Entries are folded and swept while they are listed, which takes longer than the grace.",
        Plan(
            actors(
                R=(wait(10), Op("get", "t")),
                B=(
                    wait(11),
                    *(Op("fold"), wait(1.1 * GRACE)),
                    *(Op("append", sets=("user:j",)), Op("fold")),
                ),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"R.2 shows state of u": "n for three graces"},
    ),
    "torn catalog": Scenario(
        "So does a listing for the catalog.",
        Plan(actors(R=(Op("sql"), Op("sql")), B=(Op("append"), Op("append"))), EARLY),
        {"R.1 shows log */*": "ny"},
    ),
    "an old marker": Scenario(
        "A writer comes back after hours, to a session that others went on with and swept.",
        Plan(
            actors(
                W=(Op("get"), wait(2 * GRACE), Op("append"), Op("get"), Op("append")),
                B=(wait(10), Op("overtake")),
            ),
            EARLY,
        ),
    ),
    "deleted and created again": Scenario(
        "A writer stalls, its session is deleted, created again, rolled up and swept.",
        Plan(
            actors(
                W=(Op("get"), Op("append")),
                B=(wait(10), Op("delete"), Op("create"), Op("overtake")),
            ),
            EARLY,
        ),
        {"W.2 put u/s/3": LONG},
    ),
    "a long talk": Scenario(
        "The product rolls up and folds on its own, while others read and write.",
        Plan(
            actors(
                A=(
                    Op("talk", sets=("user:k",), events=90),
                    wait(1.2 * GRACE),
                    Op("talk", events=90),
                ),
                R=(wait(3), Op("get"), wait(VIEW_AGE), Op("list"), Op("recent"), Op("get", "t")),
            ),
            (CREATE, Op("create", "t")),
            weather=Weather(0.3),
        ),
    ),
}
