"""Histories of shared state: commits without their entries, folds, stamps and clocks."""

from __future__ import annotations

from tests.simulator.plan import Op, Plan
from tests.simulator.scenario import EARLY, Scenario, actors, wait
from tests.simulator.store import GRACE

STATE = {
    "S9": Scenario(
        "An entry cannot be put, the event is sent again, recognised and acknowledged.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:k", "app:k"), tries=3), Op("append")),
            ),
            EARLY,
        ),
        {"W.2 put state of u entry": "fails"},
    ),
    "H1": Scenario(
        "A writer dies before its entries; a rollup is made of its commit.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(wait(10), Op("roll up"), wait(10), Op("append")),
            ),
            EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "H1 by hand": Scenario(
        "... a process that only reads hands the session on, and another appends upon it.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(wait(10), Op("hand on"), Op("append"), Op("get")),
            ),
            EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "H2": Scenario(
        "Two tasks append through one session object, and the first one's entries fail.",
        Plan(actors(P=(Op("get"), Op("pair", sets=("user:j",)), Op("pair"))), EARLY),
        {"P.2x put state of u entry": "fails"},
    ),
    "two tasks": Scenario(
        "Two tasks append through one session object, again and again.",
        Plan(actors(P=(Op("get"), Op("pair", sets=("user:j",)), Op("pair"), Op("get"))), EARLY),
    ),
    "H3": Scenario(
        "A writer dies before its entries, its event is read, and the session is deleted.",
        Plan(
            actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(wait(10), Op("user events"), Op("delete"), Op("get")),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "T1": Scenario(
        "An entry with an earlier stamp arrives after later ones were read.",
        Plan(
            actors(
                A=(Op("get"), Op("append", sets=("user:j",)), Op("get", "t")),
                B=(wait(1), Op("append", "t", sets=("user:k",)), wait(5), Op("get", "t")),
                C=(Op("get", "t"), wait(3), Op("get", "t"), wait(20), Op("get", "t")),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": -40.0, "B": 600.0},
        ),
        {"A.2 put state of u entry": "is slow before a view"},
    ),
    "Z1": Scenario(
        "A process whose clock is behind reads a write from a clock ahead, then writes the key.",
        Plan(
            actors(
                A=(Op("append", sets=("user:k",)),),
                B=(Op("get", "t"), wait(10), Op("get", "t"), Op("append", "t", sets=("user:k",))),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "Z1 events": Scenario(
        "The same, and it has read that write among the events of the user only.",
        Plan(
            actors(
                A=(Op("append", sets=("user:k",)),),
                B=(
                    Op("get", "t"),
                    wait(10),
                    Op("user events"),
                    Op("append", "t", sets=("user:k",)),
                ),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "Z1 sql": Scenario(
        "The same, and it has read that write by SQL only.",
        Plan(
            actors(
                A=(Op("append", sets=("user:k",)),),
                B=(Op("get", "t"), wait(10), Op("sql"), Op("append", "t", sets=("user:k",))),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "stamps of folds": Scenario(
        "A fold holds an old value of one key beside a later one of another.",
        Plan(
            actors(
                B=(Op("get", "t"), wait(50), Op("append", "t", sets=("user:k",))),
                A=(wait(10), Op("append", sets=("user:j",)), Op("fold"), wait(100), Op("get")),
            ),
            (*EARLY, Op("create", "t")),
            skews={"A": 600.0},
        ),
    ),
    "swept entries": Scenario(
        "An entry arrives after a fold that does not hold it, and before the sweep.",
        Plan(
            actors(
                A=(Op("get", "t"), Op("append", "t", sets=("user:j",))),
                B=(
                    *(Op("append", sets=("user:k",)), Op("fold"), wait(1.1 * GRACE + 30)),
                    *(Op("append", sets=("user:k",)), Op("fold")),
                ),
            ),
            (*EARLY, Op("create", "t")),
        ),
        {
            "A.2 put state of u entry": "is slow before a grace",
            "B.5 put state of u entry (fold)": "is slow before a view",
        },
    ),
    "resent": Scenario(
        "Clients send requests twice, and are refused by themselves.",
        Plan(actors(W=(Op("create", "t"), Op("append", "t", sets=("user:k",)), Op("delete", "t")))),
        dict.fromkeys(
            ("W.1 put u/t/1", "W.2 put u/t/2", "W.2 put state of u entry", "W.3 put u/t/3"),
            "is resent",
        ),
    ),
    "between": Scenario(
        "Between two requests of a reader, another process appends twice.",
        Plan(
            actors(
                R=(Op("get"),),
                B=(wait(5), Op("append", sets=("user:j",)), Op("append", sets=("app:k",))),
            ),
            EARLY,
        ),
        {"R.1 list log u/s": "is slow before a minute"},
    ),
    "between, warm": Scenario(
        "The same while a warm reader asks for the log and the entries side by side.",
        Plan(
            actors(
                R=(Op("get"), wait(10), Op("get")),
                B=(wait(15), Op("append", sets=("user:j",)), Op("append", sets=("app:k",))),
            ),
            EARLY,
        ),
        {"R.3 get u/s/3": "is slow before a minute"},
    ),
}
