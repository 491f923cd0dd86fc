"""Histories of memory drawn by seed, beside those with a name."""

from __future__ import annotations

import pytest

from tests.simulator.mutations import mutated
from tests.simulator.plans_of_memory import drawn_memory
from tests.simulator.report import told
from tests.simulator.shrink import shrunk
from tests.simulator.world import play


@pytest.mark.parametrize(
    "seeds",
    [range(10), pytest.param(range(10, 1_000), marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
    ids=["some", "many"],
)
def test_memories_are_as_they_should_be(seeds: range) -> None:
    """Whatever is delayed, lost, resent or crashed, what counts is found, and nothing else."""
    for seed in seeds:
        outcome = play(drawn_memory(seed), seed=seed)
        if outcome.faults:
            pytest.fail(f"{seed=}\n{told(shrunk(outcome))}")


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("memories have keys", 0),
        ("a forget wins", 15),
        ("forgets are packed", 18),
        ("forgets outlive swaps", 19),
        ("swaps keep what came since", 12),
    ],
)
def test_a_mutation_is_caught_by_chance(name: str, seed: int) -> None:
    """A search that knows nothing of the rule finds the first history that needs it."""
    with mutated(name):
        assert play(drawn_memory(seed), seed=seed).faults
