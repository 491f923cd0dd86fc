"""Many conversations at once in one process, on an object store and on a database server."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from tests.benchmarks.contenders import close_lake
from tests.benchmarks.histories import APP, events
from tests.benchmarks.measuring import FULL, Figures, Scale
from tests.benchmarks.postgres import find_postgres, postgres
from tests.support.servers import Bucket
from tests.support.ticking import Ticker

ROOT = Path(__file__).parents[2]
_LAST = 20
_GET_EVERY = 4
_TICK_SECONDS = 0.005
_POSTGRES = "DatabaseSessionService on PostgreSQL"


@dataclass(slots=True)
class Talk:
    """What conversations at once came to."""

    appends: list[float] = field(default_factory=list)
    """Seconds of each append."""
    gets: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """Of all of them, from the first request to the last answer."""
    late: float = 0.0
    """The longest, in seconds, that the event loop was late."""

    def cells(self) -> Sequence[str]:
        """Return appends a second, latencies of appends and gets, and the loop's lateness."""
        rate = len(self.appends) / self.seconds
        return (
            f"{rate:,.0f}",
            *(f"{1e3 * percentile(s, p):.1f}" for s in (self.appends, self.gets) for p in (50, 99)),
            f"{1e3 * self.late:.0f}",
        )


def percentile(seconds: Sequence[float], percent: int) -> float:
    """Return what so many percent of the times stay below."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]


async def converse(service: BaseSessionService, conversations: int, turns: int) -> Talk:
    """Hold so many conversations at once, each of `turns` appends and some reads."""
    talk = Talk()

    async def one(number: int) -> None:
        user = f"user-{number}"
        session = await service.create_session(app_name=APP, user_id=user)
        for turn, event in enumerate(events(turns)):
            started = time.perf_counter()
            await service.append_event(session, event)
            talk.appends.append(time.perf_counter() - started)
            if turn % _GET_EVERY == 0:
                started = time.perf_counter()
                found = await service.get_session(
                    app_name=APP,
                    user_id=user,
                    session_id=session.id,
                    config=GetSessionConfig(num_recent_events=_LAST),
                )
                talk.gets.append(time.perf_counter() - started)
                assert found is not None
                assert found.events[-1].id == event.id

    async with Ticker(_TICK_SECONDS) as ticker:
        started = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(conversations)))
        talk.seconds = time.perf_counter() - started
    talk.late = ticker.latest
    return talk


@asynccontextmanager
async def services(bucket: Bucket, folder: Path) -> AsyncIterator[dict[str, BaseSessionService]]:
    """Yield our service with either client, and ADK's on a PostgreSQL if one is installed."""
    async with AsyncExitStack() as stack:
        found: dict[str, BaseSessionService] = {}
        for client in ("fsspec", "obstore"):
            lake = Lake.open(
                bucket.fresh(),
                storage_options=bucket.storage_options,
                client=client,
                max_concurrency=64,
            )
            ours = LakeSessionService(lake)
            stack.push_async_callback(close_lake, ours)
            found[f"lakestore, {client}"] = ours
        if find_postgres() is not None:
            url = stack.enter_context(postgres(folder / "postgres"))
            peer = DatabaseSessionService(url, pool_size=64, max_overflow=0)
            stack.push_async_callback(peer.close)
            found[_POSTGRES] = peer
        yield found


async def test_conversations(seaweedfs: Bucket, scale: Scale, figures: Figures) -> None:
    """Every service holds many conversations at once, and each reads what it wrote."""
    crowds, turns = ((1, 32, 200), 24) if scale is FULL else ((1, 3), 5)
    lines = [
        "| conversations | service | appends/s | append p50 | p99 ms | get p50 | p99 ms"
        " | loop late ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="lakestore-bench-") as folder:
        Path(folder).chmod(0o755)
        async with services(seaweedfs, Path(folder)) as contenders:
            for service in contenders.values():  # connections, tables, models of clients
                await converse(service, 1, 5)
            for crowd in crowds:
                for name, service in contenders.items():
                    talk = await converse(
                        service, crowd, max(5, turns * 2 if crowd == 1 else turns)
                    )
                    assert len(talk.appends) >= crowd * 5
                    lines.append(f"| {crowd} | {name} | " + " | ".join(talk.cells()) + " |")
    if find_postgres() is None:
        lines.append("\nno PostgreSQL is installed here: its row is missing")
    figures.tables.append(
        "Conversations at once in one process, on SeaweedFS:\n\n" + "\n".join(lines)
    )


def test_one_user_of_many_processes(seaweedfs: Bucket, scale: Scale, figures: Figures) -> None:
    """16 processes that write to one user make one request a commit, on an object store too."""
    processes, count = (16, 50) if scale is FULL else (3, 4)
    url, options = seaweedfs.fresh(), dict(seaweedfs.storage_options)
    Lake.open(url, storage_options=options).close()
    command = ["-m", "tests.requests.writers", url, str(processes), str(count), json.dumps(options)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    seen: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    assert [writer["requests"] for writer in seen["together"]] == [{"PUT": count}] * processes
    p99 = {
        name: 1e3 * percentile([each for writer in writers for each in writer["seconds"]], 99)
        for name, writers in seen.items()
    }
    figures.notes.append(
        f"{processes} processes on SeaweedFS, 1.0 requests a commit; p99 of an append: one alone"
        f" {p99['alone']:.1f} ms, all with a user each {p99['apart']:.1f} ms, all of one user"
        f" {p99['together']:.1f} ms"
    )


async def test_cold_open_of_a_long_session(
    seaweedfs: Bucket, scale: Scale, figures: Figures
) -> None:
    """The end of a long session on an object store is a few requests away for a new process."""
    total = scale.cold_events
    url, options = seaweedfs.fresh(), seaweedfs.storage_options
    with Lake.open(url, storage_options=options) as lake:
        service = LakeSessionService(lake)
        session = await service.create_session(app_name=APP, user_id="u", session_id="long")
        for first in range(0, total, 10):
            await service.append_events(session, events(min(10, total - first), first))
    with Lake.open(url, storage_options=options) as lake:
        before = lake.metrics.snapshot()
        started = time.perf_counter()
        found = await LakeSessionService(lake).get_session(
            app_name=APP,
            user_id="u",
            session_id="long",
            config=GetSessionConfig(num_recent_events=_LAST),
        )
        seconds = time.perf_counter() - started
        asked = {k: v - before.get(k, 0) for k, v in lake.metrics.snapshot().items()}
    assert found is not None
    assert found.events == events(_LAST, total - _LAST)
    requests = {k.removeprefix("requests_"): v for k, v in asked.items() if k.startswith("request")}
    figures.notes.append(
        f"last {_LAST} of {total:,} events on SeaweedFS, cold, appended ten at a time:"
        f" {1e3 * seconds:.0f} ms, {requests}, {asked.get('bytes_read', 0):,} bytes"
    )
