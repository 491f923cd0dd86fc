"""Reading the end of a long session: in a process that knows it, and in a new one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore.log.keys import SessionKey
from tests.benchmarks.contenders import CONTENDERS, close_lake, open_lake, opened
from tests.benchmarks.histories import APP, USER, events
from tests.benchmarks.measuring import PEERS, Figures, Scale, Stopwatch, take_turns

_LAST = 20
_READS_A_ROUND = 5


async def last_events(service: BaseSessionService, session_id: str) -> Session:
    """Return the session with its last 20 events."""
    config = GetSessionConfig(num_recent_events=_LAST)
    session = await service.get_session(
        app_name=APP, user_id=USER, session_id=session_id, config=config
    )
    assert session is not None
    return session


def reading(service: BaseSessionService, session_id: str) -> Callable[[int], Awaitable[float]]:
    """Return the work of reading the end of a session a few times."""

    async def work(_number: int) -> float:
        with Stopwatch() as watch:
            for _ in range(_READS_A_ROUND):
                await last_events(service, session_id)
        return watch.seconds / _READS_A_ROUND

    return work


async def test_last_events_warm(long_sessions: Path, scale: Scale, figures: Figures) -> None:
    """Every service returns the same last events of a session that it has read before."""
    wanted = events(_LAST, scale.warm_events - _LAST)
    async with opened(long_sessions) as services:
        for service in services.values():
            assert (await last_events(service, "warm")).events == wanted
        work = {name: reading(service, "warm") for name, service in services.items()}
        samples = await take_turns(scale.rounds, work)
    figures.add(
        f"last {_LAST} of {scale.warm_events:,} events, warm",
        samples,
        targets=dict.fromkeys(PEERS, 3.0),
    )


async def test_last_events_cold(long_sessions: Path, scale: Scale, figures: Figures) -> None:
    """A new process finds the same last events of a session that was rolled up."""
    service = open_lake(long_sessions)
    service.lake.sessions.roll_up(SessionKey(APP, USER, "cold"), force=True)
    await close_lake(service)
    wanted = [event.id for event in events(_LAST, scale.cold_events - _LAST)]
    root = Path(__file__).parents[2]

    def first_read_of(name: str) -> Callable[[int], Awaitable[float]]:
        command = ["-m", "tests.benchmarks.cold", name, str(long_sessions), "cold", str(_LAST)]

        async def work(_number: int) -> float:
            done = subprocess.run(
                [sys.executable, *command], cwd=root, check=True, capture_output=True, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            assert found["events"] == wanted
            return float(found["seconds"])

        return work

    samples = await take_turns(
        scale.cold_rounds, {name: first_read_of(name) for name in CONTENDERS}
    )
    figures.add(f"last {_LAST} of {scale.cold_events:,} events, new process", samples, limit=0.05)
