"""Memory of what goes through a whole app: it does not grow with the app's sessions or events."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from typing_extensions import override

from lakestore import Lake
from lakestore.history import loading, portions
from lakestore.jobs import batches, check, compact, prune_events, prune_sessions
from lakestore.log.commits import count_commits
from lakestore.log.keys import EVENT_LOGS, SessionKey, app_logs, commit_key
from lakestore.storage import MemoryStore
from lakestore.tables import packing
from tests.support.histories import said
from tests.support.sites import APP

LOGS = 20_000
MOST_BYTES = 2**20
"""Names of all these logs take ten times as much."""
LARGE_SESSIONS = 40
LARGE_BYTES = 8 * 2**20
"""Texts of all these sessions take five times as much, those of sixteen twice as much."""
LATER = datetime.now(UTC) + timedelta(days=100)


class ManyLogs(MemoryStore):
    """Lists many logs that nobody has stored."""

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        if not prefix.startswith(EVENT_LOGS):
            yield from super().names(prefix, after)
            return
        for number in range(LOGS):
            log = SessionKey(APP, f"u{number // 10:06}", f"s{number:07}").log
            key = commit_key(log, 1)
            if key.startswith(prefix) and key > after:
                yield key


@contextmanager
def little(most_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Refuse that much is held at any time in the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most_bytes


def test_apps_are_found_without_their_logs() -> None:
    """Which apps there are is found by a few requests for each, whatever they have."""
    with Lake(ManyLogs("many")) as lake:
        lake.sessions.apps()  # makes what a process makes once
        with little():
            assert lake.sessions.apps() == [APP]


def test_logs_are_counted_one_by_one() -> None:
    """Cutting an app's logs into tasks of compaction holds one log at a time."""
    next(iter(count_commits(ManyLogs("many"), app_logs(APP))))  # makes what a process makes once
    with little():
        assert sum(n for _, n in count_commits(ManyLogs("many"), app_logs(APP))) == LOGS


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake with sessions of 1 MB each, where batches are to be of 1 MB, and row groups small."""
    monkeypatch.setattr(portions, "_FIRST", 2)
    monkeypatch.setattr(loading, "_BYTES_AT_ONCE", 2**20)
    monkeypatch.setattr(batches, "_FRESH_BYTES", 2**20)
    monkeypatch.setattr(packing, "_GROUP_BYTES", 2**16)
    store = MemoryStore("large")
    with Lake(store, rollups=False) as lake:
        for number in range(LARGE_SESSIONS):
            key = SessionKey(APP, "ana", f"s{number}")
            marker = lake.sessions.create(key, {}, generated=False).marker
            for part in range(4):
                text = {"parts": [{"text": f"{number} {part} " + "lorem " * 43_000}]}
                marker = lake.sessions.append(key, marker, [said(f"e{part}", content=text)]).marker
    with Lake(store, rollups=False, cache_bytes=0) as lake:
        yield lake


JOBS: list[Callable[[Lake], object]] = [
    lambda lake: check(lake).healthy,
    lambda lake: prune_sessions(lake, idle_days=1, now=LATER, dry_run=True)["deleted_count"],
    lambda lake: prune_events(lake, older_than_days=1, now=LATER, dry_run=True)["deleted_count"],
]
NAMES = ["check", "prune_sessions", "prune_events"]
FOUND = [True, LARGE_SESSIONS, 4 * LARGE_SESSIONS]


def test_compaction_holds_some_large_sessions_at_a_time(large: Lake) -> None:
    """Memory of packing is bounded in bytes, however large sessions are and well compressed."""
    with little(LARGE_BYTES):
        assert compact(large).sessions == LARGE_SESSIONS


@pytest.mark.parametrize(("job", "found"), list(zip(JOBS, FOUND, strict=True)), ids=NAMES)
@pytest.mark.parametrize("packed", [False, True], ids=["fresh", "packed"])
def test_jobs_hold_some_large_sessions_at_a_time(
    large: Lake, job: Callable[[Lake], object], found: object, *, packed: bool
) -> None:
    """Memory of checking and pruning is bounded in bytes, too, of what is packed and what not."""
    if packed:
        compact(large)
    with little(LARGE_BYTES):
        assert job(large) == found
