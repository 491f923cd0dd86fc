"""Plays histories for as long as asked, or one of them: `python -m tests.simulator --help`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from itertools import count

from tests.simulator.many import AT_ONCE, workers, wrong_in
from tests.simulator.mutations import MUTATIONS, mutated
from tests.simulator.plan import drawn
from tests.simulator.report import told
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.shrink import shrunk
from tests.simulator.world import play


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
        return _search(asked)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look for faults")
    parser.add_argument("--first", type=int, help="the first seed; drawn if not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--seed", type=int, help="play this one history, and print it")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="play a history by name")
    parser.add_argument(
        "--without", choices=sorted(MUTATIONS), default="", help="... without this rule"
    )
    return parser.parse_args()


def _tell(seed: int) -> int:
    outcome = play(drawn(seed), seed=seed, tracing=True)
    print(told(shrunk(outcome) if outcome.faults else outcome))
    return bool(outcome.faults)


def _search(asked: argparse.Namespace) -> int:
    first = secrets.randbelow(10**9) if asked.first is None else asked.first
    ends = time.monotonic() + asked.seconds
    played, wrong = 0, []
    for found in _pieces(first, ends, asked.jobs, asked.without):
        played += AT_ONCE
        wrong += found
        if found:
            break
    print(
        f"{played} histories from seed {first} in {asked.seconds:.0f} s, wrong: {wrong or 'none'}"
    )
    for seed in wrong[:1]:
        print(f"python -m tests.simulator --seed {seed}")
        _tell(seed)
    return bool(wrong)


def _pieces(first: int, ends: float, jobs: int, without: str) -> Iterator[list[int]]:
    """Play histories, `AT_ONCE` in a piece of work, until the time is over; yield what is wrong."""
    starts = count(first, AT_ONCE)
    with workers(jobs) as pool:
        running: set[Future[list[int]]] = set()
        while time.monotonic() < ends:
            while len(running) < jobs:
                start = next(starts)
                running.add(pool.submit(wrong_in, range(start, start + AT_ONCE), without))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
        yield from (future.result() for future in running)


if __name__ == "__main__":
    sys.exit(main())
