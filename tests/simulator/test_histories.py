"""Many histories: writers, readers and jobs over one store, all gone wrong."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulator.many import AT_ONCE, workers, wrong_in
from tests.simulator.plan import drawn
from tests.simulator.report import told
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.shrink import shrunk
from tests.simulator.world import play


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Processes that play histories."""
    with workers() as made:
        yield made


@pytest.mark.timeout(600)
def test_histories_are_as_they_should_be(pool: ProcessPoolExecutor) -> None:
    """Whatever is delayed, reordered, lost, resent, crashed or stalled, every promise is kept."""
    _play_all(pool, range(200))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000_000, 1_020_000, 1_000))
def test_many_histories_are_as_they_should_be(pool: ProcessPoolExecutor, first: int) -> None:
    """The same, twenty thousand times; `make simulate` goes on for as long as it is told to."""
    _play_all(pool, range(first, first + 1_000))


def _play_all(pool: ProcessPoolExecutor, seeds: range) -> None:
    pieces = [range(start, start + AT_ONCE) for start in seeds[::AT_ONCE]]
    wrong = [seed for found in pool.map(wrong_in, pieces) for seed in found]
    if wrong:
        outcome = play(drawn(wrong[0]), seed=wrong[0])
        pytest.fail(f"python -m tests.simulator --seed, of {wrong}\n{told(shrunk(outcome))}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_as_it_should_be(name: str) -> None:
    """The history that broke a draft breaks nothing, and all that is meant to happen happens."""
    scenario = SCENARIOS[name]
    outcome = play(scenario.plan, scenario.choices, tracing=True)

    assert not outcome.faults, told(outcome)
    assert outcome.made == scenario.choices


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_in_another_order(name: str) -> None:
    """The same with the rest left to chance: who goes on, and what listings show."""
    scenario = SCENARIOS[name]
    outcome = play(scenario.plan, scenario.choices, seed=0, tracing=True)

    assert not outcome.faults, told(outcome)
