"""Histories with a name: each broke a draft of the protocols, or shows what a rule is for.

The codes are those of the protocols' model. A scenario is a plan and the choices that make it that
very history; with a seed, everything else in it is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulator.plan import Op, Plan, script
from tests.simulator.store import GRACE, VIEW_AGE, Weather

LONG = "stalls before three graces"
SLOW = "is slow before three graces"

_CREATE = Op("create", sets=("user:k",))
_EARLY = (_CREATE, Op("append"))


@dataclass(frozen=True)
class Scenario:
    """One history."""

    tells: str
    """What happens in it."""
    plan: Plan
    choices: Mapping[str, str] = field(default_factory=dict)


def _wait(seconds: float) -> Op:
    return Op("wait", seconds=seconds)


def _actors(**actors: tuple[Op, ...]) -> dict[str, dict[int, Op]]:
    return {name: script(*ops) for name, ops in actors.items()}


SCENARIOS = {
    "S1": Scenario(
        "A writer stalls; others append, roll up and sweep; its name is free again.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:k",)), Op("get"), Op("append")),
                B=(_wait(10), Op("overtake")),
            ),
            _EARLY,
        ),
        {"W.2 put u/s/3": LONG},
    ),
    "S2": Scenario(
        "A cold load lists, stalls past the grace, and finds a stray among what it had listed.",
        Plan(
            _actors(
                W=(Op("append"),),
                B=(_wait(10), Op("append"), Op("append"), _wait(30), Op("overtake")),
                R=(_wait(20), Op("get")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S2 list": Scenario(
        "The same for a pass over all sessions of a user.",
        Plan(
            _actors(
                W=(Op("append"),),
                B=(_wait(10), Op("append"), Op("append"), _wait(30), Op("overtake")),
                R=(_wait(20), Op("user events")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S2 catalog": Scenario(
        "The same for a refresh of the catalog.",
        Plan(
            _actors(
                W=(Op("append"),),
                B=(_wait(10), Op("append"), Op("append"), _wait(30), Op("overtake")),
                R=(_wait(20), Op("sql")),
            ),
        ),
        {"W.1 put u/s/2": LONG, "R.2 get u/s/2": SLOW},
    ),
    "S3": Scenario(
        "A warm probe stalls, and finds nothing because all was swept meanwhile.",
        Plan(_actors(R=(Op("get"), _wait(99), Op("get")), B=(_wait(10), Op("overtake"))), _EARLY),
        {"R.3 get u/s/3": SLOW},
    ),
    "S3 read": Scenario(
        "The reply of a warm probe takes longer than the grace; what follows it was swept.",
        Plan(_actors(R=(Op("get"), _wait(99), Op("get")), B=(_wait(10), Op("overtake"))), _EARLY),
        {"R.3 get u/s/3": "is slow after three graces"},
    ),
    "S3 old": Scenario(
        "A view from before the sweep is asked for again.",
        Plan(
            _actors(
                R=(Op("get"), _wait(2 * GRACE), Op("get")), B=(_wait(10), Op("overtake"))
            ),
            _EARLY,
        ),
    ),
    "S4": Scenario(
        "Two writers stall, the second upon a commit in whose place the first leaves a stray.",
        Plan(
            _actors(
                W=(Op("get"), Op("append")),
                X=(_wait(20), Op("get"), Op("append")),
                B=(_wait(10), Op("append"), _wait(20), Op("overtake")),
            ),
            _EARLY,
        ),
        {"W.2 put u/s/3": LONG, "X.3 put u/s/4": LONG},
    ),
    "S5": Scenario(
        "A create looks, stalls, and its version 1 was created by others and swept.",
        Plan(
            _actors(
                W=(Op("create", "t"), Op("append", "t")),
                B=(_wait(10), Op("create", "t"), Op("overtake", "t")),
            ),
        ),
        {"W.1 put u/t/1": LONG},
    ),
    "S5 stray": Scenario(
        "What such a create leaves stands below a rollup, with no version missing above it.",
        Plan(
            _actors(
                W=(Op("create", "t"),),
                B=(
                    _wait(10),
                    Op("create", "t"),
                    Op("append", "t"),
                    Op("roll up", "t"),
                    _wait(1.1 * GRACE),
                    Op("append", "t"),
                    Op("roll up", "t"),
                ),
            ),
        ),
        {"W.1 put u/t/1": LONG},
    ),
    "S6": Scenario(
        "The delete of a commit fails, and the sweep goes on; a slow warm reader finds it alone.",
        Plan(_actors(R=(Op("get"), _wait(99), Op("get")), B=(_wait(10), Op("overtake"))), _EARLY),
        {"R.3 get u/s/3": SLOW, "B.2 delete u/s/3": "fails"},
    ),
    "S9": Scenario(
        "An entry cannot be put, the event is sent again, recognised and acknowledged.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:k", "app:k"), tries=3), Op("append")),
            ),
            _EARLY,
        ),
        {"W.2 put state of u entry": "fails"},
    ),
    "S10": Scenario(
        "An entry cannot be put, then another event is appended through the same session.",
        Plan(
            _actors(W=(Op("get"), Op("append", sets=("user:j",)), Op("append"), Op("get"))),
            _EARLY,
        ),
        {"W.2 put state of u entry": "fails"},
    ),
    "S10 slow": Scenario(
        "While an entry is on its way, others read the state that it belongs to.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                R=(_wait(10), Op("get", "t"), Op("user state")),
            ),
            (*_EARLY, Op("create", "t")),
        ),
        {"W.2 put state of u entry": "is slow before a view"},
    ),
    "S11": Scenario(
        "A writer dies before its entries, and another one appends upon its commit.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(Op("get"), _wait(10), Op("get"), Op("append"), Op("get")),
            ),
            _EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "H1": Scenario(
        "A writer dies before its entries; a rollup is made of its commit.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(_wait(10), Op("roll up"), _wait(10), Op("append")),
            ),
            _EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "H1 by hand": Scenario(
        "... a process that only reads hands the session on, and another appends upon it.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(_wait(10), Op("hand on"), Op("append"), Op("get")),
            ),
            _EARLY,
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "H2": Scenario(
        "Two tasks append through one session object, and the first one's entries fail.",
        Plan(_actors(P=(Op("get"), Op("pair", sets=("user:j",)), Op("pair"))), _EARLY),
        {"P.2x put state of u entry": "fails"},
    ),
    "two tasks": Scenario(
        "Two tasks append through one session object, again and again.",
        Plan(
            _actors(P=(Op("get"), Op("pair", sets=("user:j",)), Op("pair"), Op("get"))), _EARLY
        ),
    ),
    "H3": Scenario(
        "A writer dies before its entries, its event is read, and the session is deleted.",
        Plan(
            _actors(
                W=(Op("get"), Op("append", sets=("user:j",))),
                B=(_wait(10), Op("user events"), Op("delete"), Op("get")),
            ),
            (*_EARLY, Op("create", "t")),
        ),
        {"W.2 put state of u entry": "crashes before"},
    ),
    "C1": Scenario(
        "A catalog follows a log that is rolled up, swept, and written to late.",
        Plan(
            _actors(
                R=(Op("sql"), _wait(2 * GRACE), Op("sql"), Op("sql")),
                B=(_wait(10), Op("overtake"), Op("overtake")),
            ),
            _EARLY,
        ),
    ),
    "T1": Scenario(
        "An entry with an earlier stamp arrives after later ones were read.",
        Plan(
            _actors(
                A=(Op("get"), Op("append", sets=("user:j",)), Op("get", "t")),
                B=(_wait(1), Op("append", "t", sets=("user:k",)), _wait(5), Op("get", "t")),
                C=(Op("get", "t"), _wait(3), Op("get", "t"), _wait(20), Op("get", "t")),
            ),
            (*_EARLY, Op("create", "t")),
            skews={"A": -40.0, "B": 600.0},
        ),
        {"A.2 put state of u entry": "is slow before a view"},
    ),
    "D1": Scenario(
        "A batch of unknown outcome has landed, and is sent again one by one.",
        Plan(_actors(W=(Op("get"), Op("append", events=2, tries=2, singly=True))), _EARLY),
        {"W.2 put u/s/3": "loses its reply", "W.2 get u/s/3": "fails"},
    ),
    "D2": Scenario(
        "An event stands above one that its second sender has never seen.",
        Plan(
            _actors(
                A=(Op("get"), _wait(10), Op("append", event="x"), Op("append")),
                B=(Op("append"), Op("append", event="x")),
            ),
            _EARLY,
        ),
        {},
    ),
    "Q1": Scenario(
        "The clock of a sweeper is ahead by more than the grace.",
        Plan(
            _actors(
                R=(Op("get"), _wait(100), Op("get")),
                B=(
                    _wait(10),
                    *(Op("append"), Op("append"), Op("roll up"), _wait(5), Op("append")),
                    *(Op("roll up"),),
                ),
            ),
            _EARLY,
            skews={"B": 1.2 * GRACE},
        ),
    ),
    "Q2": Scenario(
        "A rollup is followed by another at once, while others have warm views.",
        Plan(
            _actors(
                R=(Op("get"), _wait(100), Op("get")),
                B=(_wait(10), Op("append"), Op("roll up"), _wait(5), Op("append"), Op("roll up")),
            ),
            _EARLY,
        ),
    ),
    "Z1": Scenario(
        "A process whose clock is behind reads a write from a clock ahead, then writes the key.",
        Plan(
            _actors(
                A=(Op("append", sets=("user:k",)),),
                B=(Op("get", "t"), _wait(10), Op("get", "t"), Op("append", "t", sets=("user:k",))),
            ),
            (*_EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "Z1 events": Scenario(
        "The same, and it has read that write among the events of the user only.",
        Plan(
            _actors(
                A=(Op("append", sets=("user:k",)),),
                B=(
                    Op("get", "t"),
                    _wait(10),
                    Op("user events"),
                    Op("append", "t", sets=("user:k",)),
                ),
            ),
            (*_EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "Z1 sql": Scenario(
        "The same, and it has read that write by SQL only.",
        Plan(
            _actors(
                A=(Op("append", sets=("user:k",)),),
                B=(Op("get", "t"), _wait(10), Op("sql"), Op("append", "t", sets=("user:k",))),
            ),
            (*_EARLY, Op("create", "t")),
            skews={"A": 600.0, "B": -600.0},
        ),
    ),
    "stamps of folds": Scenario(
        "A fold holds an old value of one key beside a later one of another.",
        Plan(
            _actors(
                B=(Op("get", "t"), _wait(50), Op("append", "t", sets=("user:k",))),
                A=(_wait(10), Op("append", sets=("user:j",)), Op("fold"), _wait(100), Op("get")),
            ),
            (*_EARLY, Op("create", "t")),
            skews={"A": 600.0},
        ),
    ),
    "swept entries": Scenario(
        "An entry arrives after a fold that does not hold it, and before the sweep.",
        Plan(
            _actors(
                A=(Op("get", "t"), Op("append", "t", sets=("user:j",))),
                B=(
                    *(Op("append", sets=("user:k",)), Op("fold"), _wait(1.1 * GRACE + 30)),
                    *(Op("append", sets=("user:k",)), Op("fold")),
                ),
            ),
            (*_EARLY, Op("create", "t")),
        ),
        {"A.2 put state of u entry": "is slow before a grace", "B.5 put state of u entry (fold)": "is slow before a view"},
    ),
    "resent": Scenario(
        "Clients send requests twice, and are refused by themselves.",
        Plan(_actors(W=(Op("create", "t"), Op("append", "t", sets=("user:k",)), Op("delete", "t")))),
        dict.fromkeys(("W.1 put u/t/1", "W.2 put u/t/2", "W.2 put state of u entry", "W.3 put u/t/3"), "is resent"),
    ),
    "dropped": Scenario(
        "A commit never arrives, and nobody says so.",
        Plan(_actors(W=(Op("get"), Op("append"), Op("get"), Op("append"))), _EARLY),
        {f"W.2 put u/s/3{n}": "is dropped" for n in ("", " #2", " #3", " #4")},
    ),
    "torn": Scenario(
        "A listing misses one of two commits that are made meanwhile.",
        Plan(_actors(R=(Op("get"),), B=(Op("append", events=1), Op("append"))), _EARLY),
        {"R.1 shows log u/s": "ny"},
    ),
    "torn entries": Scenario(
        "Entries are folded and swept while they are listed, or soon after.",
        Plan(
            _actors(
                R=(_wait(10), Op("get", "t")),
                B=(_wait(10.1), Op("fold"), _wait(1), Op("fold"), _wait(1)),
            ),
            (*_EARLY, Op("create", "t")),
        ),
        {"R.2 shows state of u": "n"},
    ),
    "torn entries, long": Scenario(
        "Entries are folded and swept while they are listed, which takes longer than the grace.",
        Plan(
            _actors(
                R=(_wait(10), Op("get", "t")),
                B=(
                    _wait(11),
                    *(Op("fold"), _wait(1.1 * GRACE)),
                    *(Op("append", sets=("user:j",)), Op("fold")),
                ),
            ),
            (*_EARLY, Op("create", "t")),
        ),
        {"R.2 shows state of u": "n for three graces"},
    ),
    "torn catalog": Scenario(
        "So does a listing for the catalog.",
        Plan(_actors(R=(Op("sql"), Op("sql")), B=(Op("append"), Op("append"))), _EARLY),
        {"R.1 shows log */*": "ny"},
    ),
    "between": Scenario(
        "Between two requests of a reader, another process appends twice.",
        Plan(
            _actors(
                R=(Op("get"),),
                B=(_wait(5), Op("append", sets=("user:j",)), Op("append", sets=("app:k",))),
            ),
            _EARLY,
        ),
        {"R.1 list log u/s": "is slow before a minute"},
    ),
    "between, warm": Scenario(
        "The same while a warm reader asks for the log and the entries side by side.",
        Plan(
            _actors(
                R=(Op("get"), _wait(10), Op("get")),
                B=(_wait(15), Op("append", sets=("user:j",)), Op("append", sets=("app:k",))),
            ),
            _EARLY,
        ),
        {"R.3 get u/s/3": "is slow before a minute"},
    ),
    "an old marker": Scenario(
        "A writer comes back after hours, to a session that others went on with and swept.",
        Plan(
            _actors(
                W=(Op("get"), _wait(2 * GRACE), Op("append"), Op("get"), Op("append")),
                B=(_wait(10), Op("overtake")),
            ),
            _EARLY,
        ),
    ),
    "deleted and created again": Scenario(
        "A writer stalls, its session is deleted, created again, rolled up and swept.",
        Plan(
            _actors(
                W=(Op("get"), Op("append")),
                B=(_wait(10), Op("delete"), Op("create"), Op("overtake")),
            ),
            _EARLY,
        ),
        {"W.2 put u/s/3": LONG},
    ),
    "a long talk": Scenario(
        "The product rolls up and folds on its own, while others read and write.",
        Plan(
            _actors(
                A=(Op("talk", sets=("user:k",), events=90), _wait(1.2 * GRACE), Op("talk", events=90)),
                R=(_wait(3), Op("get"), _wait(VIEW_AGE), Op("list"), Op("recent"), Op("get", "t")),
            ),
            (_CREATE, Op("create", "t")),
            weather=Weather(0.3),
        ),
    ),
}  # fmt: skip
