"""What `Lake.connect` hands out lives as long as it is used, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import duckdb
import pytest

from lakestore import Lake
from lakestore.catalog import Catalog
from lakestore.errors import InputError
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log


@pytest.fixture
def store() -> MemoryStore:
    """A store with one event."""
    store = MemoryStore()
    a_log(store).create().say("a")
    return store


@pytest.fixture
def lake(store: MemoryStore) -> Iterator[Lake]:
    """A lake on that store."""
    with Lake(store) as lake:
        yield lake


def databases() -> int:
    """Return how many databases of lakes are in memory."""
    gc.collect()
    return sum(isinstance(each, Catalog) for each in gc.get_objects())


def count(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many events a connection shows."""
    (number,) = connection.sql("select count(*) from events").fetchall()[0]
    return int(number)


def test_dropped_connections_leave_nothing(lake: Lake) -> None:
    """A notebook that connects again and again holds the last database only."""
    before = databases()
    for _ in range(5):
        connection = lake.connect()
        assert count(connection) == 1
    assert databases() == before + 1
    del connection
    assert databases() == before


def test_closed_connections_leave_nothing(lake: Lake) -> None:
    """What was closed is forgotten at the next connect, also while its object is held."""
    before = databases()
    held = []
    for _ in range(5):
        held.append(lake.connect())
        held[-1].close()
    assert databases() == before + 1


def test_a_relation_keeps_what_it_reads(lake: Lake) -> None:
    """A relation answers although nobody holds its connection, and lake.close() ends it."""
    relation = lake.connect().sql("select event_id from events")
    gc.collect()
    assert relation.fetchall() == [("a",)]
    lake.close()
    with pytest.raises(duckdb.Error):
        relation.fetchall()


def test_connections_are_refreshed_one_by_one(store: MemoryStore, lake: Lake) -> None:
    """Each is its own, and shows what the lake held at its own last refresh."""
    one, other = lake.connect(), lake.connect()
    one.execute("create table mine as select 42 as answer")
    a_log(store, "s2").create().say("b")
    lake.refresh(one)
    assert (count(one), count(other)) == (2, 1)
    assert one.sql("select * from mine").fetchall() == [(42,)]


def test_a_closed_connection_cannot_be_refreshed(lake: Lake) -> None:
    """The error says that it is closed, whether or not another was made since."""
    connection = lake.connect()
    connection.close()
    for _ in range(2):
        with pytest.raises(InputError, match="is closed"):
            lake.refresh(connection)
        lake.connect()


def test_a_foreign_connection_cannot_be_refreshed(lake: Lake) -> None:
    """Nor one of another lake, or a cursor of one's own."""
    with Lake(MemoryStore()) as other, duckdb.connect() as foreign:
        for connection in (foreign, other.connect(), lake.connect().cursor()):
            with pytest.raises(InputError, match="that this lake's connect"):
                lake.refresh(connection)


def test_nothing_is_refreshed_when_the_lake_is_closed(lake: Lake) -> None:
    """The error says so."""
    connection = lake.connect()
    lake.close()
    with pytest.raises(InputError, match="the lake is closed"):
        lake.refresh(connection)
    with pytest.raises(duckdb.Error):
        count(connection)


def test_objects_are_scanned_where_they_lie(store: MemoryStore, lake: Lake) -> None:
    """SQL of one's own reads the lake's objects by their keys, and cannot change one."""
    (key,) = [stored.key for stored in store.list("events/") if "00002." in stored.key]
    connection, before = lake.connect(), list(store.list(""))
    query = "select version, kind from read_parquet(?, hive_partitioning=false)"
    assert connection.execute(query, [[f"lakestore://{key}"]]).fetchall() == [(2, "event")]
    with pytest.raises(duckdb.Error):
        connection.execute(f"copy (select 1) to 'lakestore://{key}'")
    assert list(store.list("")) == before


def test_guarded_queries_reach_no_object(store: MemoryStore, lake: Lake) -> None:
    """`lake.sql` shows views only."""
    key = next(stored.key for stored in store.list("events/"))
    with pytest.raises(duckdb.Error):
        lake.sql("from read_parquet(?)", [[f"lakestore://{key}"]]).fetchall()
