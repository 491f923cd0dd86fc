"""Plays many histories in processes of their own, so that all cores do."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context

from tests.simulator.mutations import mutated
from tests.simulator.plan import drawn
from tests.simulator.world import play

AT_ONCE = 50
"""Histories in one piece of work: a few seconds."""


def workers(jobs: int | None = None) -> ProcessPoolExecutor:
    """Return processes that play histories, one a core if not told how many."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)


def wrong_in(seeds: range, without: str = "") -> list[int]:
    """Play histories, without a rule if one is named; return the seeds of those that are wrong."""
    with mutated(without) if without else nullcontext():
        return [seed for seed in seeds if play(drawn(seed), seed=seed).faults]


def _begin() -> None:
    """What is imported stays: the collector need not look at it again after each history."""
    gc.collect()
    gc.freeze()
