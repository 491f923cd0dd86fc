"""Memory of what goes through a whole app: it does not grow with the app's sessions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from typing_extensions import override

from lakestore import Lake
from lakestore.log.commits import count_commits
from lakestore.log.keys import EVENT_LOGS, SessionKey, app_logs, commit_key
from lakestore.storage import MemoryStore
from tests.support.sites import APP

LOGS = 20_000
MOST_BYTES = 2**20
"""Names of all these logs take ten times as much."""


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
def little() -> Iterator[None]:
    """Refuse that much is held at any time in the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


def test_apps_are_found_without_their_logs() -> None:
    """Which apps there are is found by a few requests for each, whatever they have."""
    with Lake(ManyLogs("many")) as lake:
        lake.sessions.apps()  # makes what a process makes once
        with little():
            assert lake.sessions.apps() == [APP]


def test_logs_are_counted_one_by_one() -> None:
    """Cutting an app's logs into tasks of compaction holds one log at a time."""
    with little():
        assert sum(n for _, n in count_commits(ManyLogs("many"), app_logs(APP))) == LOGS
