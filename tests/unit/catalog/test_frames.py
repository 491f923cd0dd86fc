"""`Lake.scan_polars`: a view as a polars LazyFrame."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl
import pytest

from lakestore import Lake
from lakestore.catalog import VIEWS
from lakestore.errors import InputError
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log

EVENTS = 2_000


@pytest.fixture
def store() -> MemoryStore:
    """A store with one long session of two authors."""
    store = MemoryStore()
    log = a_log(store).create()
    for author in ("agent", "o'brien"):
        ids = (f"{author} {number:04}" for number in range(EVENTS // 2))
        log.say(*ids, author=author)
    return store


@pytest.fixture
def lake(store: MemoryStore) -> Iterator[Lake]:
    """A lake on that store."""
    with Lake(store) as lake:
        yield lake


def test_a_frame_answers_as_sql_does(lake: Lake) -> None:
    """Selected, filtered, sorted, grouped and cut, a frame has the rows that SQL has."""
    frame = lake.scan_polars("events")
    assert frame.collect_schema().names() == list(VIEWS["events"].columns)
    assert frame.collect_schema()["event_time"] == pl.Datetime("us", "UTC")
    query = "select event_id, version, ordinal from events where author = ? and version >= ?"
    found = frame.filter(author="o'brien").filter(pl.col("version") >= 3)
    ids = found.select("event_id", "version", "ordinal").sort("version", "ordinal")
    expected = lake.sql(f"{query} order by version, ordinal", ["o'brien", 3]).fetchall()
    assert ids.collect().rows() == expected
    last = frame.sort("event_id", descending=True).head(3).select("event_id").collect()
    assert last["event_id"].to_list() == [f"o'brien {number:04}" for number in (999, 998, 997)]
    counted = frame.group_by("author").len().sort("author").collect(engine="streaming")
    assert counted.rows() == [("agent", 1000), ("o'brien", 1000)]
    late = frame.filter(pl.col("committed_at") > datetime(9000, 1, 1, tzinfo=UTC)).collect()
    assert late.rows() == []
    assert len(frame.head(5).collect()) == 5


def test_what_sql_cannot_say_is_polars_own(lake: Lake) -> None:
    """A condition that only polars knows leaves the same rows."""
    frame = lake.scan_polars("events").filter(
        pl.col("event_id").str.split(" ").list.last().str.reverse() == "9990",
        pl.col("author") == "agent",
    )
    assert frame.select("event_id").collect().rows() == [("agent 0999",)]


def test_a_frame_joins_itself(lake: Lake) -> None:
    """One frame can be read several times at once, in one plan or in threads."""
    frame = lake.scan_polars("events").select("author", "event_id")
    agents = frame.filter(author="agent")
    assert frame.join(agents, on="event_id").select(pl.len()).collect().item() == EVENTS // 2
    both = pl.collect_all([frame.select(pl.len()), agents.select(pl.len())])
    assert [one.item() for one in both] == [EVENTS, EVENTS // 2]


def test_a_frame_reads_the_lake_when_it_is_collected(store: MemoryStore, lake: Lake) -> None:
    """The same frame shows what was committed since; dropped half-read, it blocks nothing."""
    count = lake.scan_polars("sessions").select(pl.len())
    assert count.collect().item() == 1
    a_log(store, "s2").create()
    assert lake.scan_polars("events").head(1).collect().height == 1
    assert count.collect().item() == 2


def test_only_what_is_asked_for_comes_into_polars(lake: Lake) -> None:
    """Columns and conditions are in the plan of the scan, and none is left above it."""
    plan = lake.scan_polars("events").filter(author="agent").select("event_id").explain()
    assert f"PROJECT 2/{len(VIEWS['events'].columns)} COLUMNS" in plan
    assert "SELECTION" in plan
    assert "FILTER" not in plan


def test_there_is_no_such_view(lake: Lake) -> None:
    """A name that no view has is refused at once."""
    with pytest.raises(InputError, match="no such view"):
        lake.scan_polars("internal.rows")


WITHOUT = """
import sys
sys.modules["polars"] = None
from lakestore import Lake
from lakestore.errors import InputError
lake = Lake.open("memory://without")
assert lake.scan("events").read_all().num_rows == 0
try:
    lake.scan_polars("events")
except InputError as error:
    print(error)
"""


def test_polars_may_be_missing() -> None:
    """Without polars one error says what to install, and all else works."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert "pip install 'lakestore[notebook]'" in ran.stdout
