from __future__ import annotations

import gc
import re

import pytest

from lakestore.catalog import VIEWS, Catalog, QueryError
from lakestore.clock import SystemClock
from lakestore.errors import InputError
from lakestore.log.marker import Limits
from lakestore.storage import MemoryStore, Metrics, Pool
from tests.support.lake_builder import a_log


@pytest.fixture
def filled(store: MemoryStore, catalog: Catalog) -> Catalog:
    """Three events of two sessions."""
    a_log(store).create().say("a").say("b", author="agent")
    a_log(store, "s2", user_id="o'brien").create().say("c")
    catalog.refresh()
    return catalog


def test_values_are_bound(filled: Catalog) -> None:
    """Values go into `?` by place, or into `$name`, and are never read as SQL."""
    query = "select event_id from events where user_id = ?"
    assert filled.sql(query, ["o'brien"]).fetchall() == [("c",)]
    assert filled.sql(query, ["' or 1=1 --"]).fetchall() == []
    named = "select event_id from events where user_id = $user and author = $author"
    found = filled.sql(named, {"user": "ana", "author": "agent"}).fetchall()
    assert found == [("b",)]


def test_an_answer_in_every_form(filled: Catalog) -> None:
    """A relation is rows, a DataFrame of pandas or polars, an Arrow table, and a relation still."""
    answer = filled.sql("select user_id, count(*) as n from events group by all order by all")
    rows = [("ana", 2), ("o'brien", 1)]
    assert answer.fetchall() == rows
    assert answer.df().to_dict("list") == {"user_id": ["ana", "o'brien"], "n": [2, 1]}
    assert answer.pl().rows() == rows
    assert answer.to_arrow_table().to_pydict() == {"user_id": ["ana", "o'brien"], "n": [2, 1]}
    assert answer.filter("n > 1").fetchall() == rows[:1]
    assert answer.columns == ["user_id", "n"]


@pytest.mark.parametrize(
    "query",
    [
        "from events",
        "with e as (from events) select * from e;",
        "pivot events on author using count(*) group by user_id",
        "describe events",
        "summarize events",
        "explain select * from sessions",
        "show tables",
        "-- a comment\nselect 1",
    ],
)
def test_anything_that_asks_is_a_query(filled: Catalog, query: str) -> None:
    """Whatever only reads can be run."""
    assert filled.sql(query).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "drop view events",
        "delete from internal.rows",
        "create table t (a int)",
        "insert into internal.rows select * from internal.rows",
        "set TimeZone = 'Asia/Tokyo'",
        "select 1; drop view events",
        "attach 'other.db'",
        "copy events to 'events.csv'",
        "",
        "-- nothing",
    ],
)
def test_what_changes_something_is_refused(filled: Catalog, query: str) -> None:
    """All threads share the views: no query can take them away, or what they show."""
    with pytest.raises(InputError):
        filled.sql(query)
    assert filled.sql("select count(*) from events").fetchall() == [(3,)]


@pytest.mark.parametrize("query", ["selec 1", "select * from evnts", "select nope from events"])
def test_a_wrong_query_is_duckdbs_error(filled: Catalog, query: str) -> None:
    """DuckDB says what is wrong, and the next query works."""
    with pytest.raises(QueryError):
        filled.sql(query)
    assert filled.sql("select count(*) from events").fetchall() == [(3,)]


def test_a_scan_reads_the_columns_asked_for(filled: Catalog) -> None:
    """Columns come in the order asked for, all of them when none are."""
    table = filled.scan("events", ["event_id", "author"], "author = ?", ["agent"]).read_all()
    assert table.to_pydict() == {"event_id": ["b"], "author": ["agent"]}
    assert filled.scan("events", None, None, None).read_all().column_names == [
        *VIEWS["events"].columns
    ]


def test_a_scan_takes_a_condition_as_sql(filled: Catalog) -> None:
    """`where` is any condition, with `or`, a comment, and values for its `?`."""
    where = "user_id = ? or author = ? -- both"
    ids = filled.scan("events", ["event_id"], where, ["o'brien", "agent"]).read_all()
    assert sorted(ids["event_id"].to_pylist()) == ["b", "c"]


@pytest.mark.parametrize(
    ("table", "columns", "where"),
    [
        ("internal.rows", None, None),
        ("events; drop view events", None, None),
        ('events"', None, None),
        ("events", ["event_id; drop view events"], None),
        ("events", ["kind"], None),
        ("events", [], None),
        ("events", None, "1 = 1); drop view events; select (1"),
    ],
)
def test_a_scan_of_what_is_not_there(
    filled: Catalog, table: str, columns: list[str] | None, where: str | None
) -> None:
    """Names that no view has are refused, and so is more than a condition."""
    with pytest.raises(InputError):
        filled.scan(table, columns, where, None)
    assert filled.sql("select count(*) from events").fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("where", "params"),
    [("nope = 1", None), ("author = = 1", None), ("author = ?", None), ("author = ?", [1, 2])],
)
def test_a_scan_says_what_is_wrong_with_its_condition(
    filled: Catalog, where: str, params: list[int] | None
) -> None:
    """A condition that fits no view, or not its values, is one error that names it."""
    with pytest.raises(InputError, match=re.escape(f"where={where!r} reason=")):
        filled.scan("events", None, where, params)


def test_a_large_scan_streams(store: MemoryStore, catalog: Catalog) -> None:
    """A scan comes in batches as they are asked for, and stays as it was when it began."""
    log = a_log(store).create()
    for first in range(0, 60_000, 5_000):
        log.say(*(f"{number:05}" for number in range(first, first + 5_000)))
    catalog.refresh()
    reader = catalog.scan("events", ["event_id"], None, None)
    first_batch = reader.read_next_batch()
    assert 0 < first_batch.num_rows <= 8_192
    log.delete()
    catalog.refresh()
    assert catalog.sql("select count(*) from events").fetchall() == [(0,)]
    rest = [batch.num_rows for batch in reader]
    assert max(rest) <= 8_192
    assert first_batch.num_rows + sum(rest) == 60_000


def test_answers_outlive_the_catalog(store: MemoryStore) -> None:
    """A relation, a scan and a connection work on when nobody holds the catalog any more."""
    a_log(store).create().say("a")
    catalog = Catalog(store, Pool(1, "test"), SystemClock(), Metrics(), Limits())
    catalog.refresh()
    relation = catalog.sql("select event_id from events")
    reader = catalog.scan("events", ["event_id"], None, None)
    connection = catalog.connection
    del catalog
    gc.collect()
    assert relation.fetchall() == [("a",)]
    assert reader.read_all().num_rows == 1
    assert connection.sql("select count(*) from sessions").fetchall() == [(1,)]


def test_the_connection_is_the_same_every_time(store: MemoryStore, catalog: Catalog) -> None:
    """It shows what the last refresh left, and holds what its user makes in it."""
    connection = catalog.connection
    assert catalog.connection is connection
    connection.execute("create temp table mine as select 42 as answer")
    a_log(store).create().say("a")
    catalog.refresh()
    query = "select answer, event_id from mine, events"
    assert connection.sql(query).fetchall() == [(42, "a")]


def test_closing_the_connection_leaves_the_catalog(store: MemoryStore, catalog: Catalog) -> None:
    """Only the connection is closed."""
    a_log(store).create().say("a")
    catalog.connection.close()
    catalog.refresh()
    assert catalog.sql("select count(*) from events").fetchall() == [(1,)]


def test_after_close_nothing_works(filled: Catalog) -> None:
    """A closed catalog has freed its memory: using it, or what came from it, is an error."""
    relation = filled.sql("select * from events")
    connection = filled.connection
    filled.close()
    for use in (
        lambda: filled.sql("select 1"),
        filled.refresh,
        relation.fetchall,
        lambda: connection.sql("select 1"),
    ):
        with pytest.raises(QueryError):
            use()
    filled.close()


def test_no_extension_is_ever_fetched(filled: Catalog) -> None:
    """What is not built into DuckDB is not looked for on the network."""
    settings = filled.sql(
        "select name, value from duckdb_settings() where name like 'auto%_known_extensions'"
    )
    assert {value for _, value in settings.fetchall()} == {"false"}
    with pytest.raises(QueryError):
        filled.sql("select * from 'https://catalog.test/x.csv'").fetchall()
