"""The simulator itself: one seed, one history; parts of a history are one; the checker objects."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.checker import check
from tests.simulator.mutations import mutated
from tests.simulator.plan import Op, Plan, drawn, script
from tests.simulator.record import Call, Seen
from tests.simulator.report import told
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.shrink import shrunk, smallest
from tests.simulator.store import Weather
from tests.simulator.world import play

ROOT = Path(__file__).parents[2]
S = ("u", "s")
SOME = (*range(28, 33), *range(124, 131))
"""Seeds without jobs and with them, of either one with SQL."""


def digest(seeds: Sequence[int]) -> str:
    """Return what tells histories apart, to the last step."""
    steps = [play(drawn(seed), seed=seed, tracing=True).steps for seed in seeds]
    return hashlib.sha256(repr(steps).encode()).hexdigest()


@pytest.fixture(scope="module")
def played() -> str:
    """What tells the histories of some seeds apart."""
    return digest(SOME)


def test_one_seed_is_one_history(played: str) -> None:
    """Played again, a seed does the very same, step by step."""
    assert digest(SOME) == played


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_is_the_same_history_in_any_process(played: str, hash_seed: str) -> None:
    """Nothing depends on the order of sets, which differs between processes."""
    code = "from tests.simulator.test_simulator import SOME, digest; print(digest(SOME))"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == played


def test_choices_are_the_history() -> None:
    """Given back, without the seed, the choices make the same history."""
    for seed in SOME:
        first = play(drawn(seed), seed=seed, tracing=True)
        again = play(drawn(seed), first.made, tracing=True)
        assert again.steps == first.steps


def test_histories_differ_and_go_wrong() -> None:
    """Among a few dozen histories everything that can happen to a call does."""
    outcomes = {call.outcome for seed in range(60) for call in play(drawn(seed), seed=seed).calls}

    assert outcomes >= {"ok", "stale", "missing", "exists", "unknown", "failed", "crashed"}


def test_a_failing_history_is_shrunk() -> None:
    """What is left fails still, and holds little more than what it takes."""
    scenario = SCENARIOS["S1"]
    with mutated("confirmation after a stall"):
        found = play(scenario.plan, scenario.choices, seed=3)
        small = shrunk(found)

        assert found.faults
        assert small.faults
    done = {(actor, op.do) for actor, ops in small.plan.actors.items() for op in ops.values()}
    assert ("B", "overtake") in done
    assert ("W", "append") in done
    assert len(done) <= 3
    assert list(small.made) == ["W.2 put u/s/3"]
    assert "stalls before it for 11880 s" in told(small)


def test_the_smallest_part_is_found() -> None:
    """Nothing more can be left out."""
    assert smallest(list(range(50)), lambda kept: {7, 30} <= set(kept)) == [7, 30]


def test_a_crash_ends_all_that_a_process_does() -> None:
    """What it was about to ask is never asked, and a new process goes on with the script."""
    plan = Plan({"A": script(Op("get"), Op("append"), Op("append"))})
    outcome = play(plan, {"A.2 put u/s/2": "crashes before"})
    appends = [call for call in outcome.calls if call.kind == "append"]

    assert [(call.process, call.outcome) for call in appends] == [("A1", "crashed"), ("A2", "ok")]
    assert not outcome.faults


def test_a_request_may_outlive_its_process() -> None:
    """It arrives after its sender has crashed."""
    plan = Plan({"A": script(Op("get"), Op("append"), Op("wait", seconds=10), Op("get"))})
    outcome = play(plan, {"A.2 put u/s/2": "crashes meanwhile"})
    last = [call for call in outcome.calls if call.where == "A.4"][-1]

    assert last.seen[0].events == ("A.2-1",)
    assert not outcome.faults


def test_weather_says_what_may_happen() -> None:
    """Only faults of the named kinds befall requests of the named kinds."""
    weather = Weather(only="three graces,fails", on=("put",))

    assert weather.faults_of("get") == ("",)
    assert "fails" in weather.faults_of("put")
    assert not any("crashes" in fault for fault in weather.faults_of("put"))


def call(kind: str, began: int, ended: int | None, **facts: object) -> Call:
    """Make a call that returned."""
    outcome = "crashed" if ended is None else "ok"
    given = {"process": "A1", "where": f"{kind}@{began}", "outcome": outcome, "session": S, **facts}
    return Call(kind, began=began, ended=ended, **given)  # type: ignore[arg-type]


def created(began: int = 1) -> Call:
    """Make the creation of a session."""
    return call("create", began, began + 1, life="l", seen=[Seen(S, "l", ())])


def appended(began: int, *events: str, known: tuple[str, ...] = (), **facts: object) -> Call:
    """Make an append that was acknowledged."""
    seen = [Seen(S, "l", (*known, *events))]
    return call("append", began, began + 1, life="l", sent=events, known=known, seen=seen, **facts)


def read(began: int, *events: str, life: str | None = "l", **facts: Any) -> Call:
    """Make a read that was shown some events."""
    seen = Seen(S, life, events, last=events[-1] if events else None, complete=life is not None)
    return call("get", began, began + 1, seen=[seen], **facts)


def listed(began: int, last: str) -> Call:
    """Make a list that was shown the state of a session."""
    return call("list", began, began + 1, seen=[Seen(S, "l", last=last, complete=True)])


RIGHT = [created(), appended(3, "a"), appended(5, "b", known=("a",)), read(7, "a", "b")]
WRONG = {
    "an acknowledged event is lost": [created(), appended(3, "a"), read(7)],
    "an event is there twice": [created(), appended(3, "a"), read(7, "a", "a")],
    "the order changes": [
        *(created(), appended(3, "a"), appended(5, "b", known=("a",))),
        read(7, "b", "a"),
    ],
    "an event that nobody sent": [created(), read(7, "x")],
    "a later read shows less": [created(), appended(3, "a"), read(5, "a"), read(7)],
    "two stale writers": [created(), appended(3, "a"), appended(5, "b"), read(7, "a", "b")],
    "what a list showed is gone": [
        *(created(), call("append", 3, None, life="l", sent=("a",)), listed(5, last="a")),
        read(7),
    ],
    "a part of a commit": [
        created(),
        call("append", 3, None, life="l", sent=("a", "b")),
        read(7, "a"),
    ],
    "a session is gone": [created(), read(7, life=None)],
    "a deleted session is back": [
        *(created(), call("delete", 3, 4), read(5, life=None)),
        read(7),
    ],
    "an append to a deleted session": [created(), call("delete", 3, 4), appended(5, "a")],
    "stale, and nobody was faster": [
        created(),
        call("append", 3, 4, life="l", sent=("a",), outcome="stale"),
    ],
    "missing, and nobody deleted it": [
        created(),
        call("append", 3, 4, sent=("a",), outcome="missing"),
    ],
    "unknown without a reason": [created(), call("append", 3, 4, sent=("a",), outcome="unknown")],
    "a reader fails without a reason": [created(), call("get", 3, 4, outcome="failed", stalls=1)],
    "an error that nobody expects": [created(), call("get", 3, 4, outcome="KeyError: 1")],
}


def test_the_checker_accepts_what_is_right() -> None:
    """A plain history has no fault."""
    assert check(RIGHT, [S]) == []


def test_the_checker_accepts_what_only_a_list_showed() -> None:
    """A writer died, its commit landed, and the session was deleted before anyone read it."""
    died = call("append", 3, None, life="l", sent=("a", "b"))
    gone = [call("delete", 7, 8), read(9, life=None)]

    assert check([created(), died, listed(5, last="b"), *gone], [S]) == []


@pytest.mark.parametrize("calls", WRONG.values(), ids=list(WRONG))
def test_the_checker_objects(calls: list[Call]) -> None:
    """Each of these breaks a promise."""
    assert check(calls, [S])


KEY = ("u", "user:k")


def wrote(began: int, event: str, known: tuple[str, ...] = (), process: str = "A1") -> Call:
    """Make an append that sets a key."""
    return appended(began, event, known=known, writes={KEY: event}, process=process)


def shown(began: int, *events: str, value: str | None, **facts: Any) -> Call:
    """Make a read that was shown a key."""
    shared = {} if value is None else {KEY: value}
    return read(began, *events, shared=shared, scopes=("u", ""), **facts)


STATE_WRONG = {
    "a key is lost": [created(), wrote(3, "a"), shown(7, "a", value=None)],
    "an older value": [
        *(created(), wrote(3, "a"), wrote(5, "b", ("a",))),
        shown(7, "a", "b", value="a"),
    ],
    "a value that nobody wrote": [created(), wrote(3, "a"), shown(7, "a", value="x")],
    "there and back": [
        *(created(), wrote(3, "a"), wrote(5, "b", ("a",), "B1")),
        *(shown(7, "a", "b", value="b"), shown(9, "a", "b", value="a")),
    ],
    "not the same everywhere": [
        *(created(), wrote(3, "a"), wrote(3, "b", ("a",), "B1")),
        *(shown(7, "a", "b", value="b", final=True), shown(7, "a", "b", value="a", final=True)),
    ],
}


@pytest.mark.parametrize("calls", STATE_WRONG.values(), ids=list(STATE_WRONG))
def test_the_checker_objects_to_shared_state(calls: list[Call]) -> None:
    """No order of the writes explains what was shown."""
    assert check(calls, [S])


def test_concurrent_writes_may_come_in_any_order() -> None:
    """Of two that know nothing of each other either may be the last, the same for everyone."""
    writes = [created(), wrote(3, "a"), wrote(3, "b", ("a",), "B1")]
    for last in "ab":
        assert (
            check([*writes, *(shown(n, "a", "b", value=last, final=True) for n in (7, 9))], [S])
            == []
        )


def test_the_checker_shares_no_code_with_the_product() -> None:
    """It imports nothing of it, nor what does."""
    files = ("checker", "forgetting", "shared_state", "record", "trace", "raw")
    for name in files:
        text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        assert "import lakestore" not in text
        assert "from lakestore" not in text
