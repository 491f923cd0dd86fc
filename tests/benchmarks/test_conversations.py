"""Many conversations at once in one process, on an object store and on a database server.

What is measured is a server of its own, so that what asks it does not make its loop late.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from tests.benchmarks.histories import APP, events
from tests.benchmarks.measuring import FULL, Figures, Scale
from tests.benchmarks.postgres import find_postgres, postgres
from tests.support.children import mortal
from tests.support.servers import Bucket

ROOT = Path(__file__).parents[2]
_LAST = 20
_POSTGRES = "DatabaseSessionService on PostgreSQL"


@dataclass(frozen=True, slots=True)
class Talk:
    """What conversations at once came to; seconds."""

    appends: list[float]
    """Of each append."""
    gets: list[float]
    seconds: float
    """Of all of them, from the first request to the last answer."""
    late: list[float]
    """By how much each tick of the server's event loop came late."""
    ours: list[float]
    """The same without what its thread waited for a free core, and the collector took."""
    collections: list[float]
    """Of each run of the server's garbage collector, in which nothing else runs."""

    def cells(self) -> Sequence[str]:
        """Return appends a second, latencies of appends and gets, and the loop's lateness."""
        rate = len(self.appends) / self.seconds
        return (
            f"{rate:,.0f}",
            *(f"{1e3 * percentile(s, p):.1f}" for s in (self.appends, self.gets) for p in (50, 99)),
            *self.lateness(),
            f"{1e3 * max(self.collections, default=0.0):.0f}",
        )

    def lateness(self) -> Sequence[str]:
        """Return how late the loop was, p99 and at most, and without core waits and collector."""
        ticks = (self.late, self.ours)
        return [f"{1e3 * each:.0f}" for s in ticks for each in (percentile(s, 99), max(s))]


_COLUMNS = (
    *("appends/s", "append p50", "p99 ms", "get p50", "p99 ms"),
    *("loop late p99", "max ms", "without waits and collector p99", "max ms", "collector max ms"),
)


def percentile(seconds: Sequence[float], percent: int) -> float:
    """Return what so many percent of the times stay below."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]


def converse(port: int, conversations: int, turns: int) -> Talk:
    """Hold so many conversations at once with a server, each of `turns` appends and some reads."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.crowd",
        *map(str, (port, conversations, turns)),
    ]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return Talk(**json.loads(done.stdout))


@contextmanager
def serving(**settings: Any) -> Iterator[int]:
    """Run a server, or a relay to the one at `port`; yield its port."""
    command = [sys.executable, "-m", "tests.benchmarks.serving", json.dumps(settings)]
    with subprocess.Popen(mortal(command), cwd=ROOT, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def contenders(bucket: Bucket, stack: ExitStack) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield servers by name, with their settings: ADK's on PostgreSQL if one is installed."""
    for client in ("fsspec", "obstore"):
        options = dict(bucket.storage_options)
        settings = {"client": client, "url": bucket.fresh(), "storage_options": options}
        yield f"lakestore, {client}", settings
    if find_postgres() is not None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakestore-bench-")))
        folder.chmod(0o755)
        url = stack.enter_context(postgres(folder / "postgres"))
        yield _POSTGRES, {"client": "postgres", "url": url}


def test_conversations(seaweedfs: Bucket, scale: Scale, figures: Figures) -> None:
    """Every server holds many conversations at once, and each reads what it wrote."""
    lines = [_line("conversations", "service", *_COLUMNS), _line(*["---"] * (2 + len(_COLUMNS)))]
    with ExitStack() as stack:
        for name, settings in contenders(seaweedfs, stack):
            for freeze in (False, True) if scale is FULL else (False,):
                with serving(**settings, freeze=freeze) as port:
                    beside = scale is FULL and not freeze
                    lines += _talks(port, name + ", frozen" * freeze, scale, beside=beside)
    if find_postgres() is None:
        lines.append("\nno PostgreSQL is installed here: its row is missing")
    figures.tables.append(
        "Conversations at once in one server process on SeaweedFS, asked by another process."
        " Frozen: `gc.freeze()` after the start. A loop beside it passes on the same requests:\n\n"
        + "\n".join(lines)
    )


def _talks(port: int, name: str, scale: Scale, *, beside: bool) -> Iterator[str]:
    """Converse with a server, and with a loop `beside` it; yield lines of the table."""
    converse(port, 1, 5)  # connections, tables, models of clients
    crowds, turns = ((1, 32, 200), 24) if scale is FULL else ((1, 3), 5)
    for crowd in crowds:
        length = turns * 2 if crowd == 1 else turns
        talk = converse(port, crowd, length)
        assert len(talk.appends) == crowd * length
        yield _line(crowd, name, *talk.cells())
        if beside:
            with serving(port=port) as relayed:
                passed_on = converse(relayed, crowd, length)
            yield _line(crowd, f"a loop beside {name}", *[""] * 5, *passed_on.lateness(), "")


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


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
