"""Compaction: from commits of one event each, and packs into larger ones; then cold reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.jobs.changes import Publisher
from lakestore.jobs.packing import PackTask
from lakestore.jobs.repacking import RepackTask
from lakestore.log.keys import MANIFESTS, PACKS, RUNS, SessionKey, app_logs, commit_key
from lakestore.storage import LocalStore
from lakestore.tables.events import EventRow, encode_commit
from tests.benchmarks.histories import APP, USER, events
from tests.benchmarks.measuring import OURS, Figures, Scale, Stopwatch, take_turns

PACK_BYTES = 128 * 2**20
_PARTS = 8


def commits(folder: Path, sessions: int, length: int) -> None:
    """Write sessions whose commits have one event each, straight into files and without fsync."""
    stored = [
        (event.model_dump_json(exclude_none=True, by_alias=True), event.actions.state_delta)
        for event in events(length)
    ]
    for number in range(sessions):
        key = SessionKey(APP, f"{USER}-{number // 20}", f"session-0-{number:05}")
        log = folder / commit_key(key.log, 1)
        log.parent.mkdir(parents=True)
        for version, row in enumerate(_rows(key, stored), start=1):
            (folder / commit_key(key.log, version)).write_bytes(encode_commit([row]))


def _rows(key: SessionKey, stored: list[tuple[str, dict[str, object]]]) -> Iterator[EventRow]:
    for version in range(1, len(stored) + 2):
        begins = version == 1
        yield EventRow(
            version=version,
            ordinal=0,
            kind="create" if begins else "event",
            app_name=key.app_name,
            user_id=key.user_id,
            session_id=key.session_id,
            committed_at=1_760_000_000_000_000 + version,
            token=f"{version:016x}",
            previous="" if begins else f"{version - 1:016x}",
            event_json=None if begins else stored[version - 2][0],
        )


@contextmanager
def unpacked(folder: Path) -> Iterator[Lake]:
    """Open the lake as if no job had ever worked on it."""
    for name in (MANIFESTS, PACKS, RUNS):
        shutil.rmtree(folder / name, ignore_errors=True)
    with Lake.open(folder) as lake:
        yield lake


@pytest.fixture(scope="module")
def fresh(arena: Path, scale: Scale) -> Path:
    """Return a lake of sessions that nobody has packed."""
    folder = arena / "fresh"
    Lake.open(folder).close()
    commits(folder, scale.sessions, scale.events_a_session)
    return folder


async def test_compaction(fresh: Path, scale: Scale, figures: Figures) -> None:
    """Every commit is packed once; the target is 6,000 a second in one process."""
    total = scale.sessions * (scale.events_a_session + 1)

    async def work(_number: int) -> float:
        with unpacked(fresh) as lake, Stopwatch() as watch:
            assert compact(lake).events == total
        return watch.seconds / total * 1_000

    samples = await take_turns(scale.session_rounds, {OURS: work})
    figures.add("compaction of 1,000 commits of one event", samples, limit=1 / 6)


async def test_repacking(fresh: Path, scale: Scale, figures: Figures) -> None:
    """Eight packs become one; the target is 100,000 events a second."""
    prefix = app_logs(APP)
    total = scale.sessions * (scale.events_a_session + 1)

    async def work(_number: int) -> float:
        with unpacked(fresh) as lake:
            publisher = Publisher(lake.environment, lake.sessions.archive, APP)
            for changes in PackTask(APP, prefix, prefix + "~", 400_000 // _PARTS).run(lake):
                manifest = publisher.publish(changes)
            assert manifest is not None
            packs = tuple(pack.id for pack in manifest.table(EVENTS.name).packs)
            with Stopwatch() as watch:
                (made,) = RepackTask(APP, packs, PACK_BYTES).run(lake)
            assert publisher.publish(made)
            assert made.packs[0].rows == total
        return watch.seconds / total * 100_000

    samples = await take_turns(scale.session_rounds, {OURS: work})
    figures.add("100,000 events from small packs into one", samples, limit=1.0)


async def test_cold_read_of_a_packed_session(fresh: Path, scale: Scale, figures: Figures) -> None:
    """The last events of a session among many, by a lake that knows nothing, from a folder."""
    with unpacked(fresh) as lake:
        compact(lake)
        length = scale.events_a_session
    for stored in list(LocalStore(fresh).list(app_logs(APP))):
        (fresh / stored.key).unlink()
    number = scale.sessions // 2

    async def work(_number: int) -> float:
        with Lake.open(fresh) as lake:
            service = LakeSessionService(lake).sync
            with Stopwatch() as watch:
                found = service.get_session(
                    app_name=APP,
                    user_id=f"{USER}-{number // 20}",
                    session_id=f"session-0-{number:05}",
                    config=GetSessionConfig(num_recent_events=20),
                )
            assert found is not None
            assert len(found.events) == min(20, length)
        return watch.seconds

    samples = await take_turns(max(2, scale.session_rounds), {OURS: work})
    figures.add("last 20 events of a packed session, cold", samples, limit=0.05)
