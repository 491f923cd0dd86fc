"""Thousands of histories: writers, readers and jobs over one store, all gone wrong."""

from __future__ import annotations

import pytest

from tests.simulator.plan import drawn
from tests.simulator.report import told
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.shrink import shrunk
from tests.simulator.world import play

_CHUNK = 100
_CHUNKS = 16


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_histories_are_as_they_should_be(chunk: int) -> None:
    """Whatever is delayed, reordered, lost, resent, crashed or stalled, every promise is kept."""
    _play_all(range(chunk * _CHUNK, (chunk + 1) * _CHUNK))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_many_histories_are_as_they_should_be(chunk: int) -> None:
    """The same, twenty thousand times; `make simulate` goes on for as long as it is told to."""
    _play_all(range(1_000_000 + chunk * 500, 1_000_000 + (chunk + 1) * 500))


def _play_all(seeds: range) -> None:
    for seed in seeds:
        outcome = play(drawn(seed), seed=seed)
        if outcome.faults:
            pytest.fail(f"python -m tests.simulator --seed {seed}\n{told(shrunk(outcome))}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_as_it_should_be(name: str) -> None:
    """The history that broke a draft breaks nothing, and all that is meant to happen happens."""
    scenario = SCENARIOS[name]
    outcome = play(scenario.plan, scenario.choices, tracing=True)

    assert not outcome.faults, told(outcome)
    assert outcome.made == scenario.choices


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_in_any_order(name: str, seed: int) -> None:
    """The same with the rest left to chance: who goes on, and what listings show."""
    scenario = SCENARIOS[name]
    outcome = play(scenario.plan, scenario.choices, seed=seed, tracing=True)

    assert not outcome.faults, told(outcome)
