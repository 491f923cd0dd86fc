"""Generated histories: the same for the same seed, believable, and seen rightly by the views."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.demo.histories import Story, history, open_history, write_history
from lakestore.jobs import compact
from tests.support.analytics import Told
from tests.support.shown_views import check_views

UNTIL = datetime(2026, 11, 1, tzinfo=UTC)


def stories(sessions: int = 120, seed: int = 3) -> list[Story]:
    """Return a history of half a year."""
    return list(history(sessions=sessions, seed=seed, days=180, until=UNTIL))


def told(found: list[Story]) -> list[Told]:
    """Return stories as what was told."""
    return [Told(s.app_name, s.user_id, s.session_id, dict(s.state), s.events) for s in found]


def digest(found: list[Story]) -> str:
    """Return what all of a history comes to: ids, states, events."""
    text = "".join(
        f"{story.app_name}/{story.user_id}/{story.session_id}/{story.state}"
        + "".join(event.model_dump_json() for event in story.events)
        for story in found
    )
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return a lake with a history, at its own times."""
    opened, clock = open_history(tmp_path_factory.mktemp("history") / "lake")
    with opened:
        write_history(opened, stories(), clock)
        yield opened


def test_one_seed_is_one_history() -> None:
    """Another process with other hashes tells the same, another seed something else."""
    script = "from tests.views.test_generated import *; print(digest(stories(30, 5)))"
    run = [sys.executable, "-c", script]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(root), "TZ": "Asia/Tokyo"}
    said = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == digest(stories(30, 5))
    assert digest(stories(30, 5)) != digest(stories(30, 6))
    longer = stories(31, 5)
    assert [story.session_id for story in longer[:30]] == [s.session_id for s in stories(30, 5)]


def test_what_is_in_a_history() -> None:
    """It grows, people come again, and all that views must cope with happens."""
    found = stories(1_500)
    begun = [(UNTIL.timestamp() - story.created_at) / 86_400 for story in found]
    assert sum(age < 60 for age in begun) > 1.5 * sum(age > 120 for age in begun)
    assert min(begun) > 0
    assert max(begun) < 187
    visits = Counter(story.user_id for story in found)
    assert 300 < len(visits) < 700
    assert sum(count > 1 for count in visits.values()) > len(visits) / 3
    assert len({story.app_name for story in found}) == 3
    events = [event for story in found for event in story.events]
    assert len({event.id for event in events}) == len(events)
    happened = {
        "errors": sum(event.error_code is not None for event in events),
        "rewinds": sum(event.actions.rewind_before_invocation_id is not None for event in events),
        "summaries": sum(event.actions.compaction is not None for event in events),
        "transfers": sum(event.actions.transfer_to_agent is not None for event in events),
        "waiting": sum(bool(event.long_running_tool_ids) for event in events),
        "parallel": sum(len(event.get_function_calls()) > 1 for event in events),
        "uncounted": sum(bool(e.model_version) and e.usage_metadata is None for e in events),
    }
    assert min(happened.values()) > 5, happened


def test_views_show_the_history(lake: Lake) -> None:
    """Every row and column of every view is what plain Python counts, packed or not."""
    check_views(lake, told(stories()))
    compact(lake)
    with Lake.open(lake.url, read_only=True) as elsewhere:
        check_views(elsewhere, told(stories()))


def test_the_history_is_as_old_as_it_says(lake: Lake) -> None:
    """What was written is dated when it happened, so that retention can be shown on it."""
    query = """
        select max(abs(epoch(committed_at) - epoch(event_time))) from events
        where event_id in (select max(event_id) from events group by session_id)
    """
    assert lake.sql(query).fetchall()[0][0] < 1
    ((first, last),) = lake.sql("select min(created_at), max(created_at) from sessions").fetchall()
    assert (last - first).days > 150
    assert last < UNTIL
