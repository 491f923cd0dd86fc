"""Compaction: from commits of one event each, and packs into larger ones; then cold reads."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.jobs.changes import Publisher
from lakestore.jobs.packing import PackTask
from lakestore.jobs.repacking import RepackTask
from lakestore.log.keys import MANIFESTS, PACKS, RUNS, SessionKey, app_logs
from lakestore.storage import LocalStore
from tests.benchmarks.histories import APP, USER
from tests.benchmarks.large import put_rows, rows_of
from tests.benchmarks.measuring import FULL, OURS, Figures, Scale, Stopwatch, take_turns

PACK_BYTES = 128 * 2**20
_PARTS = 8
_MORE = 4


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
    for number in range(scale.sessions):
        key = session(number)
        put_rows(folder, key, rows_of(key, scale.events_a_session))
    return folder


def session(number: int) -> SessionKey:
    """Return the key of a session; each user has twenty."""
    return SessionKey(APP, f"{USER}-{number // 20}", f"session-0-{number:05}")


async def test_compaction(fresh: Path, scale: Scale, figures: Figures) -> None:
    """Every commit is packed once: 6,000 a second in one process, and more in two."""
    total = scale.sessions * (scale.events_a_session + 1)

    def packing(executor: Executor | None) -> Callable[[int], Awaitable[float]]:
        async def work(_number: int) -> float:
            with unpacked(fresh) as lake, Stopwatch() as watch:
                report = compact(lake, executor=executor, slice_commits=max(1, total // _PARTS))
            assert report.events == total
            return watch.seconds / total * 1_000

        return work

    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        work = {"one process": packing(None), "two": packing(executor)}
        samples = await take_turns(scale.session_rounds + 1, work)
    for name, times in samples.items():
        # In the first round the processes begin.
        workload = f"compaction of 1,000 commits of one event, {name}"
        figures.add(workload, {OURS: times[1:]}, limit=1 / 6)


def packs_of(lake: Lake, folder: Path, scale: Scale, *, interleaved: bool) -> tuple[str, ...]:
    """Write commits in eight parts, and pack each; return the ids of the packs.

    A part has some sessions, or, `interleaved`, some events of each session.
    """
    keys = [session(number) for number in range(_MORE * scale.sessions)]
    logs = {key: list(rows_of(key, scale.events_a_session)) for key in keys}
    publisher, prefix = Publisher(lake.environment, lake.sessions.archive, APP), app_logs(APP)
    for part in range(_PARTS):
        for number, (key, rows) in enumerate(logs.items()):
            at = [_PARTS * row.version // (len(rows) + 1) for row in rows]
            mine = at if interleaved else [_PARTS * number // len(keys)] * len(rows)
            put_rows(folder, key, [row for row, of in zip(rows, mine, strict=True) if of == part])
        for changes in PackTask(APP, prefix, prefix + "~", PACK_BYTES).run(lake):
            manifest = publisher.publish(changes)
    assert manifest is not None
    return tuple(pack.id for pack in manifest.table(EVENTS.name).packs)


@pytest.mark.parametrize("interleaved", [False, True], ids=["side by side", "interleaved"])
async def test_repacking(
    arena: Path, scale: Scale, figures: Figures, request: pytest.FixtureRequest, interleaved: bool
) -> None:
    """Eight packs become one; the target is 100,000 events a second."""
    total = _MORE * scale.sessions * (scale.events_a_session + 1)
    folder = arena / f"packs-{interleaved}"
    with Lake.open(folder) as lake:
        packs = packs_of(lake, folder, scale, interleaved=interleaved)
        assert len(packs) == _PARTS if scale is FULL or not interleaved else packs

        async def work(_number: int) -> float:
            with Stopwatch() as watch:
                (made,) = RepackTask(APP, packs, PACK_BYTES).run(lake)
            assert made.packs[0].rows == total
            return watch.seconds / total * 100_000

        samples = await take_turns(scale.session_rounds, {OURS: work})
    name = request.node.callspec.id
    figures.add(f"100,000 events from eight packs into one, {name}", samples, limit=1.0)


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
                    user_id=session(number).user_id,
                    session_id=session(number).session_id,
                    config=GetSessionConfig(num_recent_events=20),
                )
            assert found is not None
            assert len(found.events) == min(20, length)
        return watch.seconds

    samples = await take_turns(max(2, scale.session_rounds), {OURS: work})
    figures.add("last 20 events of a packed session, cold", samples, limit=0.05)
