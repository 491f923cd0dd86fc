"""Histories of artifacts drawn by seed, beside those with a name; and what the checker knows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.filed import check_files
from tests.simulator.mutations import mutated
from tests.simulator.plans_of_artifacts import drawn_artifacts
from tests.simulator.record import Call, Job
from tests.simulator.report import told
from tests.simulator.shrink import shrunk
from tests.simulator.test_simulator import call
from tests.simulator.world import play

NAME = ("u", "s")


@pytest.mark.parametrize(
    "seeds",
    [range(10), pytest.param(range(10, 1_000), marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
    ids=["some", "many"],
)
def test_artifacts_are_as_they_should_be(seeds: range) -> None:
    """Whatever is delayed, lost, resent or crashed, what counts is loaded, and nothing else."""
    for seed in seeds:
        outcome = play(drawn_artifacts(seed), seed=seed)
        if outcome.faults:
            pytest.fail(f"{seed=}\n{told(shrunk(outcome))}")


def saved(began: int, number: int, content: str, wall: float = 10.0, **facts: Any) -> Call:
    """Make a save that was acknowledged."""
    made = call("save file", began, began + 1, session=NAME, content=content, **facts)
    made.files, made.wall = ((number, content),), (wall, wall)
    return made


def loaded(began: int, *files: tuple[int, str]) -> Call:
    """Make a load of all versions."""
    numbers = tuple(number for number, _ in files)
    return call("load file", began, began + 1, session=NAME, files=files, numbers=numbers)


def deleted(began: int, outcome: str = "ok") -> Call:
    """Make a delete."""
    return call("delete file", began, began + 1, session=NAME, outcome=outcome)


def pruned(began: int, before: float) -> Call:
    """Make a prune of what was saved by then."""
    return call("prune files", began, began + 1, session=None, job=Job("u", before))


ONE, TWO = saved(1, 0, "a"), saved(3, 1, "b")
RIGHT = {
    "both are there": [ONE, TWO, loaded(5, (0, "a"), (1, "b"))],
    "numbers begin again": [ONE, deleted(3), saved(5, 0, "c"), loaded(7, (0, "c"))],
    "the oldest is pruned": [ONE, TWO, pruned(5, 50.0), loaded(7, (1, "b"))],
    "a delete may have landed": [ONE, deleted(3, "unknown"), loaded(5)],
}
WRONG = {
    "one is lost": [ONE, TWO, loaded(5, (0, "a"))],
    "one has another's content": [ONE, TWO, loaded(5, (0, "b"), (1, "b"))],
    "one number twice": [ONE, saved(3, 0, "b")],
    "nobody saved it": [ONE, loaded(3, (0, "a"), (1, "x"))],
    "a gap": [ONE, saved(3, 2, "c"), loaded(5, (0, "a"), (2, "c"))],
    "it begins late": [saved(1, 1, "a"), loaded(3, (1, "a"))],
    "it is back": [ONE, deleted(3), loaded(5, (0, "a"))],
    "a young one is pruned": [ONE, TWO, pruned(5, 5.0), loaded(7, (1, "b"))],
    "the latest is pruned": [ONE, TWO, pruned(5, 50.0), loaded(7)],
}


@pytest.mark.parametrize("calls", RIGHT.values(), ids=list(RIGHT))
def test_what_may_be_loaded(calls: list[Call]) -> None:
    """Versions end by what was asked to end them, and nothing is wrong with that."""
    assert list(check_files(calls)) == []


@pytest.mark.parametrize("calls", WRONG.values(), ids=list(WRONG))
def test_what_may_not_be_loaded(calls: list[Call]) -> None:
    """Each of these breaks a promise."""
    assert list(check_files(calls))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("artifacts are erased", 3),
        ("saves know a young view", 23),
    ],
)
def test_a_mutation_is_caught_by_chance(name: str, seed: int) -> None:
    """A search that knows nothing of the rule finds the first history that needs it."""
    with mutated(name):
        assert play(drawn_artifacts(seed), seed=seed).faults
