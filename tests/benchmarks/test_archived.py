"""Sessions that were compacted, beside the same in ADK's services: reads, bytes, forgetting."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakestore import LakeSessionService
from lakestore.jobs import compact, prune_sessions, sweep
from lakestore.lake import Lake
from tests.benchmarks.contenders import CONTENDERS, opened
from tests.benchmarks.histories import APP, USER, events
from tests.benchmarks.large import ROOT, Size
from tests.benchmarks.measuring import (
    DATABASE,
    FULL,
    OURS,
    PEERS,
    Figures,
    Scale,
    Stopwatch,
    take_turns,
)
from tests.benchmarks.test_many_sessions import count_events, count_sessions, fresh
from tests.support.real_histories import airline_histories, data_folder

_LAST = 20
_FILES: Mapping[str, str] = dict(
    zip((OURS, *PEERS), ("lake", "sqlite.db", "database.db"), strict=True)
)


def archived(recorded: Path, folder: Path) -> Path:
    """Copy what every contender has recorded, and compact and sweep what is ours."""
    shutil.copytree(recorded, folder)
    pack(folder)
    return folder


def pack(folder: Path) -> None:
    """Compact and sweep the lake."""
    with Lake.open(folder / "lake") as lake:
        compact(lake)
        sweep(lake, grace=0)


@pytest.fixture(scope="module")
def packed_sessions(many_sessions: Path, arena: Path) -> Path:
    """Return a folder with many sessions of one user, ours compacted."""
    return archived(many_sessions, arena / "many-packed")


async def test_user_events(packed_sessions: Path, scale: Scale, figures: Figures) -> None:
    """All events of a user are found by one call of ours, a list and a get a session of others."""
    wanted = scale.sessions * scale.events_a_session
    work = {
        name: fresh(each, packed_sessions, count_events, wanted)
        for name, each in CONTENDERS.items()
    }
    samples = await take_turns(scale.session_rounds, work)
    workload = f"user events, {scale.sessions} sessions x {scale.events_a_session}, compacted"
    figures.add(workload, samples, targets={DATABASE: 10.0})


async def test_list_sessions(packed_sessions: Path, scale: Scale, figures: Figures) -> None:
    """All sessions of the user are listed by a service that has read nothing before."""
    work = {
        name: fresh(each, packed_sessions, count_sessions, scale.sessions)
        for name, each in CONTENDERS.items()
    }
    samples = await take_turns(scale.session_rounds, work)
    figures.add(f"list_sessions, {scale.sessions} sessions, first time, compacted", samples)


async def test_last_events_cold(
    long_sessions: Path, arena: Path, scale: Scale, figures: Figures
) -> None:
    """A new process finds the last events of a long session that was packed."""
    folder = archived(long_sessions, arena / "long-packed")
    wanted = [event.id for event in events(_LAST, scale.cold_events - _LAST)]

    def first_read_of(name: str) -> Callable[[int], Awaitable[float]]:
        command = ["-m", "tests.benchmarks.cold", name, str(folder), "cold", str(_LAST)]

        async def work(_number: int) -> float:
            done = subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=-1)
            found = json.loads(done.stdout.splitlines()[-1])
            assert found["events"] == wanted
            return float(found["seconds"])

        return work

    work = {name: first_read_of(name) for name in CONTENDERS}
    samples = await take_turns(scale.cold_rounds, work)
    workload = f"last {_LAST} of {scale.cold_events:,} events, new process, packed"
    figures.add(workload, samples, limit=0.05)


async def test_forgetting(many_sessions: Path, arena: Path, scale: Scale, figures: Figures) -> None:
    """Three quarters of the sessions are forgotten, and their bytes are gone in every file."""
    folder = archived(many_sessions, arena / "forgotten")
    before = {name: Size.of(folder / file) for name, file in _FILES.items()}
    names = [f"session-{number:04}" for number in range(scale.sessions * 3 // 4)]
    seconds = {}
    with Stopwatch() as watch:
        assert forget(folder, names) == len(names)
        pack(folder)
    seconds[OURS] = watch.seconds
    async with opened(folder) as services:
        for peer in PEERS:
            with Stopwatch() as watch:
                for session_id in names:
                    await services[peer].delete_session(
                        app_name=APP, user_id=USER, session_id=session_id
                    )
            seconds[peer] = watch.seconds
        for service in services.values():
            assert await count_sessions(service) == scale.sessions - len(names)
    for peer in PEERS:
        with Stopwatch() as watch:
            connection = sqlite3.connect(folder / _FILES[peer])
            connection.execute("VACUUM")
            connection.close()
        seconds[peer] += watch.seconds
    after = {name: Size.of(folder / file) for name, file in _FILES.items()}
    lines = [
        f"| {name} | {seconds[name]:.2f} s | {before[name]} | {after[name]} |" for name in _FILES
    ]
    for name in _FILES:
        assert after[name].bytes < before[name].bytes
    figures.tables.append(
        f"Forgetting {len(names)} of {scale.sessions} sessions: `prune_sessions`, `compact` and"
        " `sweep`, or `delete_session` of each and `VACUUM`:\n\n"
        "| | time | before | after |\n|---|---|---|---|\n" + "\n".join(lines)
    )


def forget(folder: Path, names: list[str]) -> int:
    """Prune the sessions that were recorded first, up to the last of `names`."""
    with Lake.open(folder / "lake") as lake:
        query = "select max(committed_at) from events where session_id = ?"
        ((last,),) = lake.sql(query, [names[-1]]).fetchall()
        now: datetime = last + timedelta(days=1, milliseconds=1)
        return prune_sessions(lake, idle_days=1, now=now)["deleted_count"]


async def test_bytes_of_real_histories(arena: Path, scale: Scale, figures: Figures) -> None:
    """Real trajectories take a fraction of the bytes, all objects of the lake counted."""
    data = data_folder()
    if data is None:
        pytest.skip("no folder with real histories is at hand")
    folder = arena / "real"
    folder.mkdir()
    histories = list(airline_histories(data))[: None if scale is FULL else 3]
    count = sum(len(each.events) for each in histories)
    async with opened(folder) as services:
        for service in services.values():
            for number, each in enumerate(histories):
                session = await service.create_session(
                    app_name=APP,
                    user_id=f"user-{number // 5}",
                    session_id=each.name,
                    state=each.state,
                )
                for event in each.events:
                    await service.append_event(session, event.model_copy(deep=True))
        assert isinstance(services[OURS], LakeSessionService)
    pack(folder)
    sizes = {name: Size.of(folder / file).bytes / count for name, file in _FILES.items()}
    shown = ", ".join(
        f"{name} {size:,.0f} ({size / sizes[OURS]:.1f}x)" for name, size in sizes.items()
    )
    assert sizes[OURS] < min(sizes[name] for name in PEERS)
    figures.notes.append(
        f"bytes an event, {count:,} events of {len(histories)} real trajectories (target: a tenth):"
        f" {shown}"
    )
