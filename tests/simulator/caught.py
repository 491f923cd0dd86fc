"""What catches which mutation: the list that `test_mutations.py` holds the simulator to."""

from __future__ import annotations

BY_SCENARIO = {
    "token in the marker": "S4",
    "read back after a refusal": "resent",
    "a refusal is one": "D2",
    "confirmation after a stall": "S1",
    "confirmation of marker 0": "S5",
    "old markers are confirmed before": "an old marker",
    "stalls are seen": "S1",
    "unknown is not acknowledged": "dropped",
    "commit and entries are one step": "S10 slow",
    "the session advances last": "S10",
    "one append at a time": "two tasks",
    "completion on read": "S11",
    "completion by a re-delivery": "S9",
    "completion by a delete": "H3",
    "completion by a rollup": "H1",
    "completion by a load": "H1 by hand",
    "same stamp on completion": "Z1",
    "density": "torn",
    "nothing below a rollup": "S5 stray",
    "grace of sweeps": "Q2",
    "sweeps by the store's time": "Q1",
    "time limit of loads": "S2",
    "time limit of lists": "S2 list",
    "time limit of entries": "torn entries, long",
    "time limit of refreshes": "S3 old",
    "probes of young views": "S3",
    "reading confirms nothing": "S3 read",
    "log before entries": "between",
    "commits are laid over entries": "between, warm",
    "entries are listed whole": "swept entries",
    "stamps later than what was read": "Z1",
    "stamps later than commits read": "Z1 events",
    "folds keep stamps": "stamps of folds",
    "sweeps of entries compare": "swept entries",
    "grace of entries": "torn entries",
    "the next commit only": "D2",
    "a commit is taken whole": "D1",
    "rollups in the catalog": "C1",
    "time limit of the catalog": "S2 catalog",
}
"""The scenario that breaks without the rule."""

BY_CHANCE = {
    "a refusal is one": 0,
    "one append at a time": 0,
    "same stamp on completion": 1,
    "time limit of refreshes": 5,
    "old markers are confirmed before": 5,
    "completion on read": 7,
    "stamps later than what was read": 8,
    "token in the marker": 13,
    "confirmation after a stall": 13,
    "stalls are seen": 13,
    "the session advances last": 13,
    "grace of sweeps": 17,
    "log before entries": 27,
    "commit and entries are one step": 32,
    "sweeps of entries compare": 37,
    "completion by a rollup": 64,
    "density": 121,
    "entries are listed whole": 135,
    "commits are laid over entries": 182,
}
"""The first seed from 0 whose history breaks without the rule."""

NOT_YET = {
    "rollups beside their commit": (
        "the newest rollup of a log is never swept, and a late one is older than it; the rule is"
        " for logs that a manifest covers and a sweep empties"
    ),
    "sweeps keep the rollup's commit": (
        "what is swept lies below a rollup that has a newer one above it, whose commit stays; the"
        " rule goes with the one before"
    ),
}
"""Rules that nothing needs before jobs publish manifests, and why."""
