"""Cases from other people's bug reports that meet SQL, each with its input."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from lakestore import Lake
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log

ROOT = Path(__file__).parents[3]
MONDAY = datetime(2024, 3, 11, tzinfo=UTC)


def lake_of(sessions: int) -> MemoryStore:
    """A packed lake of one user's sessions, with calls of a tool and ten texts in each."""
    store = MemoryStore()
    Lake(store).close()
    for number in range(sessions):
        log = a_log(store, f"s{number:03}").create()
        call = {
            "functionCall": {"id": f"c{number}", "name": "search_orders", "args": {"n": number}}
        }
        log.say("call", author="agent", content={"parts": [call]}, at=MONDAY.timestamp() - 60)
        for place in range(10):
            log.say(f"{number} {place}", at=MONDAY.timestamp() + place - 5)
    with Lake(store) as lake:
        compact(lake)
    return store


QUESTIONS: dict[str, tuple[str, list[Any]]] = {
    "since Monday": ("select count(*) from events where event_time >= ?", [MONDAY]),
    "calls of a tool": ("select count(*) from tool_calls where tool_name = ?", ["search_orders"]),
    "last five of each": (
        "select count(*) from (select 1 from messages where role = ? qualify row_number()"
        " over (partition by session_id order by version desc) <= 5)",
        ["user"],
    ),
}


def asked(store: MemoryStore) -> list[tuple[int, int]]:
    """What a new process answers to each question, and how many objects it reads for that."""
    found = []
    for query, params in QUESTIONS.values():
        with Lake(store, read_only=True) as lake:
            before = lake.metrics.requests
            ((count,),) = lake.sql(query, params).fetchall()
            found.append((count, lake.metrics.requests_since(before)["GET"]))
    return found


def test_questions_over_all_sessions_are_no_request_each() -> None:
    """R022: a question takes as many reads for forty sessions as for four."""
    few, many = asked(lake_of(4)), asked(lake_of(40))
    assert [count for count, _ in few] == [4 * 5, 4, 4 * 5]
    assert [count for count, _ in many] == [40 * 5, 40, 40 * 5]
    assert [reads for _, reads in few] == [reads for _, reads in many]


async def test_a_notebook_needs_no_await() -> None:
    """R094: where an event loop runs, as in a notebook, queries and jobs are plain calls."""
    store = lake_of(2)
    a_log(store, "fresh").create()
    with Lake(store) as lake:
        assert len(lake.sql("from sessions").df()) == 3
        assert lake.scan("sessions").read_all().num_rows == 3
        assert lake.scan_polars("sessions").collect().height == 3
        assert compact(lake).sessions == 1
        connection = lake.connect()
        assert connection.sql("select count(*) from sessions").fetchall() == [(3,)]


FEW_FILES = """
import os, resource, sys
from lakestore import Lake
from lakestore.jobs import compact
from tests.support.lake_builder import a_log
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
lake = Lake.open(sys.argv[1])
store = lake.environment.store
for number in range(90):
    a_log(store, str(number)).create().say("a", "b")
    if number == 30:
        compact(lake, pack_bytes=1)
def opened():
    return len(os.listdir("/proc/self/fd"))
columns = ["session_id", "event_id", "event_time"]
def ask():
    reader = lake.scan("events", columns, "event_time >= '2023-01-01'")
    return sum(batch.num_rows for batch in reader)
assert ask() == 180
before = opened()
for _ in range(5):
    a_log(store, f"more {_}").create().say("c")
    assert ask() == 181 + _
assert opened() <= before, (opened(), before)
print("done")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_few_files_are_open_at_once(tmp_path: Path) -> None:
    """R095: hundreds of objects are scanned, in batches, with 100 files, and none is kept open."""
    command = [sys.executable, "-c", FEW_FILES, str(tmp_path / "lake")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_a_day_of_long_ids() -> None:
    """R113: what began on one day is found by its time alone, whatever resources users are."""
    store = MemoryStore()
    Lake(store).close()
    users = [f"projects/p/locations/eu/triggers/{n:03}/".ljust(180, "x") for n in range(12)]
    for number, user in enumerate(users):
        at = MONDAY.timestamp() + 86_400 * (number % 3)
        a_log(store, f"e{number}", user_id=user).create().say("a", at=at)
    with Lake(store) as lake:
        compact(lake)
    query = "select user_id from sessions where last_update_time::date = ? order by all"
    with Lake(store, read_only=True) as lake:
        lake.sql("select 1")
        before = lake.metrics.requests
        found = lake.sql(query, [date(2024, 3, 12)]).fetchall()
        assert "GET" not in lake.metrics.requests_since(before)  # the runs say it
    assert found == [(user,) for user in users[1::3]]


def test_a_huge_answer_of_a_tool() -> None:
    """R061: an answer of many megabytes is a value like any other, fresh and packed."""
    store = MemoryStore()
    Lake(store).close()
    parts: list[dict[str, Any]] = [{"functionCall": {"id": "c", "name": "dump", "args": {}}}]
    log = a_log(store).create().say("call", author="agent", content={"parts": parts})
    answer = {"id": "c", "name": "dump", "response": {"text": "lorem ipsum " * 1_500_000}}
    log.say("answer", content={"parts": [{"functionResponse": answer}]})
    a_log(store, "small", user_id="zoe").create().say("a")
    query = "select status, length(result) from tool_calls"
    for _ in range(2):
        with Lake(store) as lake:
            assert lake.sql(query).fetchall() == [("ok", 18_000_011)]
            assert len(lake.sql("select event_id from events").fetchall()) == 3
            compact(lake)
