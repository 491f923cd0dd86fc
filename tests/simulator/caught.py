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
    "manifests are exclusive": "lost race",
    "manifests are confirmed": "S7",
    "uploads are looked for": "K1",
    "orphans are named first": "K1",
    "rebase over what is not in both": "P3",
    "nothing packed comes from logs": "P2",
    "nothing packed comes from rollups": "P2 above",
    "grace of sweeping jobs": "swept soon",
    "jobs sweep by the store's time": "swept by a clock ahead",
    "the newest manifest stays": "swept again",
    "compaction folds what it absorbs": "packed without its entries",
    "run and all entries": "an entry beside the run",
    "jobs sweep entries by their keys": "an entry beside the run",
    "age of manifests": "swept log",
    "logs before the manifest": "C1 packed",
    "time limit of compaction": "S2 compact",
    "rows of deleted sessions stay": "S8",
    "pruned keys keep their stamp": "T2 listed",
    "a pruned key wins a tie": "T2",
    "rows go after empty logs": "R1",
    "rows outlive requests": "R1 late",
    "rows that are built on stay": "R1 race",
    "pruned by a delete commit": "P1",
    "pruned at the version judged": "P1",
    "whole turns are pruned": "a turn goes on",
    "only what is old is pruned": "a turn goes on",
    "erased by delete commits": "E1",
    "an erase waits": "E warm",
    "an erase looks again": "E4",
    "erased versions are not read": "E4",
    "what was erased sets nothing": "E3",
    "erased by commit, not by time": "T5",
    "what follows an erase counts": "T5",
    "the app's state outlives an erase": "E app",
    "dead rows are erased too": "E packs",
    "telemetry has keys": "M packed",
    "names of telemetry are binding": "M pruned",
    "telemetry of erased sessions": "M erased",
    "a forget wins": "N again",
    "forgets are packed": "N late",
    "memories have keys": "N twice",
    "time limit of searches": "N slow",
    "memory is erased by time": "N anew",
    "erased memories are not read": "N erased",
    "stamps later than what was erased": "N anew",
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
    "sweeps of entries compare": 37,
    "completion by a rollup": 64,
    "commit and entries are one step": 82,
    "the newest manifest stays": 104,
    "only what is old is pruned": 104,
    "pruned by a delete commit": 106,
    "nothing packed comes from rollups": 111,
    "erased by delete commits": 119,
    "compaction folds what it absorbs": 141,
    "entries are listed whole": 209,
}
"""The first seed from 0 whose history breaks without the rule."""

NOT_YET = {
    "entries that are packed": (
        "nothing that is packed of memory goes but by a forget or an erase, which count for what is"
        " in entries, too; the rule is for what is pruned or rebuilt"
    ),
    "names wait for the grace": (
        "a reader that misses a pack or run begins again with the newest manifest, and a job looks"
        " for its uploads; only connections of `Lake.connect`, which are not here, stay with one"
    ),
    "rollups beside their commit": (
        "the newest rollup of a log is never swept, and a late one is older than it; where jobs"
        " sweep a log empty, what they have packed counts, and outlives all requests"
    ),
    "sweeps keep the rollup's commit": (
        "what is swept lies below a rollup that has a newer one above it, whose commit stays; the"
        " rule goes with the one before"
    ),
}
"""Rules that no history here needs, and why."""
