"""Plays histories for as long as asked, or one of them: `python -m tests.simulator --help`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from itertools import count

from tests.simulator.mutations import MUTATIONS, mutated
from tests.simulator.plan import drawn
from tests.simulator.report import told
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.shrink import shrunk
from tests.simulator.world import play

_AT_ONCE = 50


def main() -> int:
    """Do what the arguments say; return 1 when something is wrong."""
    asked = _arguments()
    with mutated(asked.without) if asked.without else nullcontext():
        if asked.scenario:
            scenario = SCENARIOS[asked.scenario]
            outcome = play(scenario.plan, scenario.choices, seed=asked.seed, tracing=True)
            print(told(outcome))
            return bool(outcome.faults)
        if asked.seed is not None:
            return _tell(asked.seed)
        return _search(asked.seconds, asked.first, asked.jobs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look for faults")
    parser.add_argument("--first", type=int, help="the first seed; drawn if not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--seed", type=int, help="play this one history, and print it")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="play a history by name")
    parser.add_argument("--without", choices=sorted(MUTATIONS), help="... without this rule")
    return parser.parse_args()


def _tell(seed: int) -> int:
    outcome = play(drawn(seed), seed=seed, tracing=True)
    print(told(shrunk(outcome) if outcome.faults else outcome))
    return bool(outcome.faults)


def _search(seconds: float, first: int | None, jobs: int) -> int:
    first = secrets.randbelow(10**9) if first is None else first
    ends = time.monotonic() + seconds
    played, wrong = 0, []
    for number, found in _chunks(first, ends, jobs):
        played += number
        wrong += found
        if found:
            break
    print(f"{played} histories from seed {first} in {seconds:.0f} s, wrong: {wrong or 'none'}")
    for seed in wrong[:1]:
        print(f"python -m tests.simulator --seed {seed}")
        _tell(seed)
    return bool(wrong)


def _chunks(first: int, ends: float, jobs: int) -> Iterator[tuple[int, list[int]]]:
    """Play histories in chunks, until the time is over."""
    starts = count(first, _AT_ONCE)
    with ProcessPoolExecutor(jobs) as executor:
        running: set[Future[tuple[int, list[int]]]] = set()
        while time.monotonic() < ends:
            while len(running) < jobs:
                running.add(executor.submit(_chunk, next(starts)))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
        yield from (future.result() for future in running)


def _chunk(start: int) -> tuple[int, list[int]]:
    seeds = range(start, start + _AT_ONCE)
    return len(seeds), [seed for seed in seeds if play(drawn(seed), seed=seed).faults]


if __name__ == "__main__":
    sys.exit(main())
