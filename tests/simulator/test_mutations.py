"""The simulator can fail: each rule of the protocols, removed, is caught."""

from __future__ import annotations

import pytest

from tests.simulator.caught import BY_CHANCE, BY_SCENARIO, NOT_YET
from tests.simulator.mutations import MUTATIONS, mutated
from tests.simulator.plan import drawn
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.world import play


def test_every_mutation_is_accounted_for() -> None:
    """None is left out: each is caught, or it is said why it cannot be."""
    assert set(MUTATIONS) == {*BY_SCENARIO, *NOT_YET}
    assert set(BY_CHANCE) <= set(MUTATIONS)


@pytest.mark.parametrize("name", BY_SCENARIO)
def test_a_mutation_is_caught_by_its_scenario(name: str) -> None:
    """Without its rule the product breaks where `test_histories` finds no fault."""
    scenario = SCENARIOS[BY_SCENARIO[name]]
    with mutated(name):
        assert play(scenario.plan, scenario.choices).faults


@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_mutation_is_caught_by_chance(name: str) -> None:
    """A search that knows nothing of the rule finds the first history that needs it."""
    seed = BY_CHANCE[name]
    with mutated(name):
        assert play(drawn(seed), seed=seed).faults
    assert not play(drawn(seed), seed=seed).faults


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_search_catches_a_mutation_within_its_bound(name: str) -> None:
    """So many histories from seed 0 are enough: no earlier one breaks."""
    with mutated(name):
        seeds = range(BY_CHANCE[name] + 1)
        found = [seed for seed in seeds if play(drawn(seed), seed=seed).faults]

    assert found == [BY_CHANCE[name]]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_YET)
def test_a_rule_that_waits_breaks_no_scenario(name: str) -> None:
    """What is said of it holds: no history of today needs the rule."""
    with mutated(name):
        for scenario in SCENARIOS.values():
            assert not play(scenario.plan, scenario.choices).faults
