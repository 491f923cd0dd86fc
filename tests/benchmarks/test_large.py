"""Lakes of up to a million events: what jobs make of them, and what reads cost then."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from lakestore.storage import open_store
from tests.benchmarks.histories import APP
from tests.benchmarks.large import SESSION, Ran, Size, run_job, user, write_lake
from tests.benchmarks.measuring import FULL, Figures, Scale, Stopwatch
from tests.support.servers import Bucket

_HEAD = (
    "| events | users | as written | compact | after compact and sweep | sweep |"
    " `list_sessions(app)`, cold |\n|---|---|---|---|---|---|---|"
)
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Large:
    """A lake that was compacted and swept."""

    folder: Path
    users: int
    length: int
    written: Size
    compacted: Ran
    swept: Ran
    left: Size


@pytest.fixture(scope="module")
def lakes(arena: Path, scale: Scale) -> list[Large]:
    """Return lakes of the sizes there are."""
    found = []
    for users, length in scale.lakes:
        folder = arena / f"large-{users * length}"
        write_lake(folder, users, length, processes=os.cpu_count() or 1)
        written = Size.of(folder)
        compacted, swept = run_job("compact", folder), run_job("sweep", folder)
        found.append(Large(folder, users, length, written, compacted, swept, Size.of(folder)))
    return found


def listed(lake: Lake) -> tuple[int, float, dict[str, int]]:
    """List all sessions of the app; return how many, in how many seconds and by which requests."""
    before = lake.metrics.requests
    with Stopwatch() as watch:
        found = LakeSessionService(lake).sync.list_sessions(app_name=APP)
    return len(found.sessions), watch.seconds, lake.metrics.requests_since(before)


def test_jobs(lakes: list[Large], scale: Scale, figures: Figures) -> None:
    """Every event is packed, few objects are left, and memory does not grow with the lake."""
    lines = [_HEAD]
    for each in lakes:
        with Lake.open(each.folder, read_only=True) as lake:
            (rows,) = lake.sql("select count(*) from events").fetchall()
        assert rows == (each.users * each.length,)
        assert each.left.objects < 20
        with Lake.open(each.folder, read_only=True) as lake:
            count, seconds, requests = listed(lake)
        assert count == each.users
        lines.append(
            f"| {each.users * each.length:,} | {each.users:,} | {each.written} | {each.compacted} |"
            f" {each.left} | {each.swept} | {seconds:.2f} s, {requests} |"
        )
    if scale is FULL:
        small, large = (each.compacted.peak - each.compacted.before for each in lakes)
        assert large < 3 * small
    figures.tables.append("Large lakes, in a folder:\n\n" + "\n".join(lines))


@pytest.fixture
def archive(lakes: list[Large], seaweedfs: Bucket) -> Iterator[str]:
    """Copy the largest lake to an object store; return its URL there."""
    url = seaweedfs.fresh()
    store = open_store(url, seaweedfs.storage_options)
    folder = lakes[-1].folder
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        store.put_if_absent(path.relative_to(folder).as_posix(), path.read_bytes())
    yield url
    store.close()


def test_cold_on_an_object_store(
    archive: str, lakes: list[Large], seaweedfs: Bucket, figures: Figures
) -> None:
    """A session of a large archive is a few requests away for a lake that knows nothing."""
    options = seaweedfs.storage_options
    for last in (20, None):
        seconds: list[float] = []
        config = GetSessionConfig(num_recent_events=last) if last else None
        for number in range(_ROUNDS):
            with Lake.open(archive, storage_options=options, read_only=True) as lake:
                before, read = lake.metrics.requests, lake.metrics.bytes_read
                name = user(number * (lakes[-1].users // _ROUNDS))
                with Stopwatch() as watch:
                    found = LakeSessionService(lake).sync.get_session(
                        app_name=APP, user_id=name, session_id=SESSION, config=config
                    )
                requests = lake.metrics.requests_since(before)
                read = lake.metrics.bytes_read - read
            assert found is not None
            assert len(found.events) == min(last or lakes[-1].length, lakes[-1].length)
            assert requests["LIST"] == 4
            assert requests["GET"] <= 8
            seconds.append(watch.seconds)
        figures.notes.append(
            f"{f'last {last} events' if last else 'all events'} of a session archived on SeaweedFS,"
            f" cold, of {lakes[-1].users:,} users: {1e3 * statistics.median(seconds):.0f} ms,"
            f" {requests}, {read:,} bytes"
        )
