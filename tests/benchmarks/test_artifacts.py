"""Artifacts: saving, loading and listing, beside ADK's services and a plain copy of the file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
from google.adk.artifacts import FileArtifactService
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.events import Event
from google.genai import types

from lakestore import Lake, LakeArtifactService, LakeSessionService
from lakestore.jobs import compact, sweep
from tests.benchmarks.measuring import OURS, Figures, Samples, Scale, Stopwatch, take_turns
from tests.support.buckets_of_adk import gcs_artifacts
from tests.support.servers import Bucket

APP, USER, SESSION = "a", "u", "s"
FILES, GCS, COPY = "FileArtifactService", "GcsArtifactService", "a copy of the file, fsynced"
SMALLEST, MIDDLE = 4 * 2**10, 2**20
_MEGABYTE = 2**20

Work = Callable[[int], Awaitable[float]]


def size_name(size: int) -> str:
    """Return a size as people write it."""
    return f"{size // _MEGABYTE} MB" if size >= _MEGABYTE else f"{size // 1024} KB"


def content(size: int, number: int) -> bytes:
    """Return bytes of which no two numbers have the same."""
    return Random(number).randbytes(min(size, _MEGABYTE)) * max(1, size // _MEGABYTE)


async def save(service: BaseArtifactService, name: str, body: bytes) -> None:
    """Save the next version of an artifact."""
    part = types.Part(inline_data=types.Blob(mime_type="image/png", data=body))
    await service.save_artifact(
        app_name=APP, user_id=USER, session_id=SESSION, filename=name, artifact=part
    )


async def load(service: BaseArtifactService, name: str) -> bytes:
    """Return the bytes of the last version."""
    part = await service.load_artifact(
        app_name=APP, user_id=USER, session_id=SESSION, filename=name
    )
    assert part is not None
    assert part.inline_data is not None
    return part.inline_data.data or b""


def table(title: str, measured: Mapping[str, Samples]) -> str:
    """Return a table of medians, and how many times as long as ours each other one took."""
    contenders = list(next(iter(measured.values())))
    lines = [f"| {title} | {' | '.join(contenders)} |", "|---" * (1 + len(contenders)) + "|"]
    for what, samples in measured.items():
        cells = []
        for name in contenders:
            ratio = median(a / b for a, b in zip(samples[name], samples[OURS], strict=True))
            told = f"{median(samples[name]) * 1e3:,.2f} ms"
            cells.append(told if name == OURS else f"{told}, {ratio:.2f}x")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def saving(service: BaseArtifactService, name: str, size: int) -> Work:
    """Return what saves one more version."""

    async def work(number: int) -> float:
        body = content(size, number)
        with Stopwatch() as watch:
            await save(service, name, body)
        return watch.seconds

    return work


def loading(service: BaseArtifactService, name: str, size: int) -> Work:
    """Return what loads the last version."""

    async def work(_number: int) -> float:
        with Stopwatch() as watch:
            body = await load(service, name)
        assert len(body) == size
        return watch.seconds

    return work


def copying(folder: Path, size: int) -> Work:
    """Return what puts the same bytes into a file."""

    async def work(number: int) -> float:
        body = content(size, number)
        with Stopwatch() as watch, open(folder / f"copy-{number}", "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.unlink(folder / f"copy-{number}")
        return watch.seconds

    return work


def reading(folder: Path, size: int) -> Work:
    """Return what reads the same bytes from a file."""
    path = folder / f"read-{size}"
    path.write_bytes(content(size, 0))

    async def work(_number: int) -> float:
        with Stopwatch() as watch:
            body = path.read_bytes()
        assert len(body) == size
        return watch.seconds

    return work


async def test_in_a_folder(arena: Path, scale: Scale, figures: Figures) -> None:
    """A version is stored, and comes back, at about the speed of its bytes."""
    folder = arena / "artifacts"
    folder.mkdir()
    files = FileArtifactService(folder / "adk")
    measured: dict[str, Samples] = {}
    with Lake.open(folder / "lake") as lake:
        ours = LakeArtifactService(lake)
        for size in (SMALLEST, MIDDLE, scale.payload):
            name, rounds = f"{size}.png", scale.payload_rounds(size)
            services = {OURS: ours, FILES: files}
            saves = {each: saving(it, name, size) for each, it in services.items()}
            loads = {each: loading(it, name, size) for each, it in services.items()}
            saved = await take_turns(rounds, {**saves, COPY: copying(folder, size)})
            loaded = await take_turns(rounds, {**loads, COPY: reading(folder, size)})
            measured[f"{size_name(size)}, save"] = saved
            measured[f"{size_name(size)}, load"] = loaded
    figures.tables.append(table("artifact in a folder", measured))


async def test_on_gcs(arena: Path, scale: Scale, figures: Figures, fake_gcs: Bucket) -> None:
    """On Google's store it takes what its requests take."""
    options = dict(fake_gcs.storage_options)
    measured: dict[str, Samples] = {}
    with (
        gcs_artifacts(fake_gcs, "artifact-benchmark") as adk,
        Lake.open(fake_gcs.fresh(), storage_options=options) as lake,
    ):
        ours = LakeArtifactService(lake)
        for size in (SMALLEST, MIDDLE):
            services = {OURS: ours, GCS: adk}
            name, rounds = f"{size}.png", scale.payload_rounds(size)
            saves = {each: saving(it, name, size) for each, it in services.items()}
            loads = {each: loading(it, name, size) for each, it in services.items()}
            measured[f"{size_name(size)}, save"] = await take_turns(rounds, saves)
            measured[f"{size_name(size)}, load"] = await take_turns(rounds, loads)
    figures.tables.append(table("artifact on fake-gcs-server", measured))


async def test_many_keys(arena: Path, scale: Scale, figures: Figures) -> None:
    """All names of a session are listed; packed, they cost a run and no file each."""
    folder = arena / "keys"
    names = [f"reports/{number:05}.txt" for number in range(scale.keys)]
    asked = {"app_name": APP, "user_id": USER, "session_id": SESSION}

    async def listing(service: BaseArtifactService) -> float:
        with Stopwatch() as watch:
            found = await service.list_artifact_keys(**asked)
        assert found == names
        return watch.seconds

    files = FileArtifactService(folder / "adk")
    for name in names:
        await save(files, name, b"x")
    with Lake.open(folder / "lake") as lake:
        ours = LakeArtifactService(lake)
        for name in names:
            await save(ours, name, b"x")
    seconds = {FILES: await listing(files)}
    for state in ("not packed", "packed"):
        with Lake.open(folder / "lake") as lake:
            service = LakeArtifactService(lake)
            before = lake.metrics.requests
            seconds[f"{OURS}, {state}, new process"] = await listing(service)
            asked_for = sum(lake.metrics.requests_since(before).values())
            seconds[f"{OURS}, {state}, warm"] = await listing(service)
            compact(lake)
            sweep(lake, grace=0)
    assert asked_for < 20
    rows = [f"| {name} | {took * 1e3:,.1f} ms |" for name, took in seconds.items()]
    figures.tables.append(f"| list of {scale.keys:,} keys | |\n|---|---|\n" + "\n".join(rows))


_MEMORY = """
import asyncio, sys
from pathlib import Path
from lakestore import Lake, LakeArtifactService, LakeSessionService
from tests.benchmarks.large import peak
with Lake.open(sys.argv[1]) as lake:
    service = LakeArtifactService(lake)
    before = peak()
    asked = dict(app_name="a", user_id="u", session_id="s", filename="large.bin")
    service.sync.save_file(**asked, source=Path(sys.argv[2]))
    with lake.open_artifact(**asked) as file:
        while file.read(1 << 20):
            pass
    print(peak() - before)
"""


def test_memory_of_a_large_file(arena: Path, scale: Scale, figures: Figures) -> None:
    """A file of any size is saved and read back in a few parts of memory."""
    source = arena / "large.bin"
    with open(source, "wb") as file:
        for number in range(scale.payload // _MEGABYTE):
            file.write(np.random.default_rng(number).bytes(_MEGABYTE))
    command = [sys.executable, "-c", _MEMORY, str(arena / "large-lake"), str(source)]
    more = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert more < 96 * _MEGABYTE
    figures.notes.append(
        f"A file of {size_name(scale.payload)} saved by `save_file` and read by `open_artifact`:"
        f" {more / _MEGABYTE:.0f} MB more memory at most."
    )


async def write_images(folder: Path, sessions: int, threshold: int | None) -> None:
    """Write sessions of twenty events, every second with an image; five images a session."""
    with Lake.open(folder) as lake:
        service = LakeSessionService(lake, payload_threshold=threshold)
        for number in range(sessions):
            session = await service.create_session(app_name=APP, user_id=USER)
            images = [content(150_000, number * 5 + each) for each in range(5)]
            for place in range(20):
                parts = [types.Part(text=f"event {place}")]
                if place % 2:
                    blob = types.Blob(mime_type="image/png", data=images[place // 2 % 5])
                    parts.append(types.Part(inline_data=blob))
                event = Event(author="user", content=types.Content(role="user", parts=parts))
                await service.append_event(session, event)


async def test_images_beside_events(arena: Path, scale: Scale, figures: Figures) -> None:
    """Moved out, an image that is sent twice is stored once, and SQL drags none."""
    query = "select count(*), sum(length(event_json)) from events"
    rows = []
    for name, threshold in (("in events", None), ("beside them", 10_000)):
        folder = arena / f"images-{threshold}"
        await write_images(folder, scale.image_sessions, threshold)
        fresh = bytes_of(folder)
        with Lake.open(folder) as lake:
            compact(lake)
            sweep(lake, grace=0)
        with Lake.open(folder) as lake:
            lake.sql("select 1").fetchall()
            with Stopwatch() as watch:
                ((count, _),) = lake.sql(query).fetchall()
        assert count == 20 * scale.image_sessions
        sizes = " | ".join(f"{size / 1e6:,.1f} MB" for size in (fresh, bytes_of(folder)))
        rows.append(f"| {name} | {sizes} | {watch.seconds * 1e3:,.0f} ms |")
    figures.tables.append(
        f"| {scale.image_sessions} sessions of 20 events, 10 with images of 150 kB, 5 of them new"
        " | as written | packed and swept | SQL over `event_json` |\n|---|---|---|---|\n"
        + "\n".join(rows)
    )


def bytes_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
