"""SQL over a lake of a million events, beside SQL over the file of ADK's SqliteSessionService."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from shutil import copytree

import pytest

from lakestore import Lake
from lakestore.log.keys import SessionKey
from lakestore.storage import open_store
from tests.benchmarks.archive import ask, rows_of, session, write_archive
from tests.benchmarks.histories import APP
from tests.benchmarks.large import Size, put_rows
from tests.benchmarks.measuring import (
    FULL,
    OURS,
    SQLITE,
    Figures,
    Scale,
    Stopwatch,
    take_turns,
)
from tests.support.servers import Bucket

TOKENS = """select event_time::date as day, model_version, sum(total_tokens) from events
  where model_version is not null group by all order by all"""
_TOKENS_IN_SQLITE = """
select date(timestamp, 'unixepoch') as day, json_extract(event_data, '$.model_version') as model,
  sum(json_extract(event_data, '$.usage_metadata.total_token_count'))
from events where model is not null group by 1, 2 order by 1, 2"""
QUESTIONS = {
    "tokens per day and model": TOKENS,
    "users by turns": "select user_id, sum(turns) as n from sessions group by all"
    " order by n desc, user_id limit 10",
    "which tool, how often": "select tool, count(*)"
    " from (select unnest(tool_names) as tool from events) group by all order by all",
    "what one user said": "select event_time, text from messages"
    " where user_id = 'user-0000003' and role = 'user' order by event_time",
    "sessions of the last week": "select session_id, last_update_time from sessions"
    " where last_update_time >= timestamptz '2025-12-30' order by all",
}
_NEW = 1_000


@pytest.fixture(scope="module")
def analytics(arena: Path, scale: Scale) -> Path:
    """Return a folder with a lake that is packed, and a file of the same events."""
    folder = arena / "analytics"
    folder.mkdir()
    users, length = scale.lakes[-1]
    write_archive(folder / "lake", users, length, folder / "sqlite.db")
    return folder


async def test_tokens_per_day_and_model(analytics: Path, scale: Scale, figures: Figures) -> None:
    """Both say the same; in full ours takes less than a second, and a twentieth of the other's."""
    users, length = scale.lakes[-1]
    lake = Lake.open(analytics / "lake", read_only=True)
    database = sqlite3.connect(analytics / "sqlite.db")
    answers: dict[str, list[tuple[str, str, int]]] = {}

    async def ours(_number: int) -> float:
        with Stopwatch() as watch:
            found = lake.sql(TOKENS).fetchall()
        answers[OURS] = [(str(day), model, int(tokens)) for day, model, tokens in found]
        return watch.seconds

    async def theirs(_number: int) -> float:
        with Stopwatch() as watch:
            answers[SQLITE] = database.execute(_TOKENS_IN_SQLITE).fetchall()
        return watch.seconds

    lake.sql("select 1")
    work: dict[str, Callable[[int], Awaitable[float]]] = {OURS: ours, SQLITE: theirs}
    samples = await take_turns(scale.session_rounds + 2, work)
    assert answers[OURS] == answers[SQLITE]
    assert len(answers[OURS]) > 3
    lake.close()
    database.close()
    workload = f"tokens per day and model, {users * length:,} events, catalog open"
    row = figures.add(workload, samples, targets={SQLITE: 20.0}, limit=1.0)
    if scale is FULL:
        sizes = [Size.of(analytics / name).bytes / 1e6 for name in ("lake", "sqlite.db")]
        figures.notes.append(
            f"{workload}: {row.ratios[SQLITE]:.0f}x; the lake has {sizes[0]:,.1f} MB, the file of"
            f" {SQLITE} {sizes[1]:,.1f} MB"
        )


def test_a_new_process(analytics: Path, scale: Scale, figures: Figures) -> None:
    """A process that knows nothing opens the catalog, and asks; memory is bounded."""
    users, length = scale.lakes[-1]
    for name in ("tokens per day and model", "users by turns"):
        asked = [ask(analytics / "lake", QUESTIONS[name]) for _ in range(scale.session_rounds)]
        assert all(each.rows == asked[0].rows for each in asked)
        asked.sort(key=lambda each: each.opened + each.seconds)
        figures.notes.append(
            f"{name}, {users * length:,} events of {users:,} users, a new process:"
            f" {asked[len(asked) // 2]}"
        )


def test_a_refresh(analytics: Path, arena: Path, scale: Scale, figures: Figures) -> None:
    """After new events of many sessions a refresh shows them all."""
    folder = arena / "refreshed"
    copytree(analytics / "lake", folder)
    users, length = scale.lakes[-1]
    count = "select count(*) from events"
    new = _NEW if scale is FULL else 10
    with Lake.open(folder, read_only=True) as lake:
        (before,) = lake.sql(count).fetchall()[0]
        seconds = []
        for round_ in range(scale.session_rounds + 2):
            for number in range(new // 10):
                key = SessionKey(APP, f"new-{round_}-{number:07}", "s")
                put_rows(folder, key, rows_of(key, session(number, 10)))
            with Stopwatch() as watch:
                (after,) = lake.sql(count).fetchall()[0]
            assert after == before + new
            before = after
            seconds.append(watch.seconds)
    figures.notes.append(
        f"refresh after {new:,} new events, each its own commit, of {new // 10} new sessions, in a"
        f" lake of {users * length:,} packed ones, and a count: {statistics.median(seconds):.2f} s"
    )


def test_a_lake_of_many_users(arena: Path, scale: Scale, figures: Figures) -> None:
    """Opening a lake takes as many requests however many users it has; in full a million."""
    asked, lists = {}, "select count(*), count(distinct user_id), sum(events) from sessions"
    for users in scale.users:
        folder = arena / f"users-{users}"
        folder.mkdir()
        with Stopwatch() as watch:
            write_archive(folder, users, 1)
        asked[users] = ask(folder, lists)
        assert asked[users].rows == [[str(users), str(users), str(users)]]
        figures.notes.append(
            f"a new process opens a lake of {users:,} users, {Size.of(folder)}, written in"
            f" {watch.seconds:.0f} s, and counts sessions: {asked[users]}"
        )
    first, *others = (each.requests for each in asked.values())
    assert first["LIST"] <= 6 * 3  # logs, three tables, manifests, for each of three questions
    assert all(each["LIST"] == first["LIST"] for each in others)
    # Objects of more than 8 MB are read by ranges: two or three for each two thousand rows.
    assert all(each["GET"] <= first["GET"] + users / 200 for each in others)


@pytest.fixture
def in_bucket(analytics: Path, seaweedfs: Bucket) -> Iterator[str]:
    """Copy the lake to an object store; return its URL there."""
    url = seaweedfs.fresh()
    store = open_store(url, seaweedfs.storage_options)
    folder = analytics / "lake"
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        store.put_if_absent(path.relative_to(folder).as_posix(), path.read_bytes())
    yield url
    store.close()


def test_questions_on_an_object_store(
    in_bucket: str, analytics: Path, scale: Scale, seaweedfs: Bucket, figures: Figures
) -> None:
    """Five questions are answered as in a folder; what each reads is told."""
    size = Size.of(analytics / "lake").bytes
    lines = [
        "| question | first | again | requests | MB read | of the lake |",
        "|---|" + "---|" * 5,
    ]
    with Lake.open(analytics / "lake", read_only=True) as local:
        expected = {name: local.sql(query).fetchall() for name, query in QUESTIONS.items()}
    for name, query in QUESTIONS.items():
        options = seaweedfs.storage_options
        with Lake.open(in_bucket, storage_options=options, read_only=True) as lake:
            lake.sql("select 1")
            before, read = lake.metrics.requests, lake.metrics.bytes_read
            with Stopwatch() as first:
                assert lake.sql(query).fetchall() == expected[name]
            requests = lake.metrics.requests_since(before)
            read = lake.metrics.bytes_read - read
            with Stopwatch() as again:
                lake.sql(query).fetchall()
        lines.append(
            f"| {name} | {first.seconds:.2f} s | {again.seconds:.2f} s | {requests} |"
            f" {read / 1e6:,.2f} | {100 * read / size:.1f} % |"
        )
    users, length = scale.lakes[-1]
    figures.tables.append(
        f"Questions on SeaweedFS, catalog open, {users * length:,} events, {size / 1e6:,.1f} MB:"
        + "\n".join(["", "", *lines])
    )
