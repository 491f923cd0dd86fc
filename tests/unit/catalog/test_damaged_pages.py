"""Damage in the midst of packs of which SQL reads no more than a query needs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from lakestore import Lake, LakeSessionService
from lakestore.catalog import inspection
from lakestore.jobs import compact, prune_events, sweep
from lakestore.log.keys import app_packs
from lakestore.storage import MemoryStore
from lakestore.tables.footers import footer_size
from lakestore.tables.groups import column_places, group_places
from tests.support.aging import AgingLake
from tests.support.archives import APP, Site, delete_packed, event, newest
from tests.support.clocks import ManualClock
from tests.support.damage import change, mend
from tests.support.measured import measured, put, shown

USERS = ("ana", "ben", "eve", "joe")
EVENTS = 2_040
"""Of each user; so that a row group has little more than a user's."""
TEXTS = "select user_id, version, text, event_json from events"
COUNTS = "select user_id, count(text) from events group by all order by all"


def packed_lake() -> dict[str, bytes]:
    """Return the objects of a lake with a pack of a row group a user, and nothing else of them."""
    site = Site()
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(EVENTS)])
    compact(lake)
    delete_packed(lake, site.store)
    site.close()
    return {key: site.store.get(key) for key in site.store.names("")}


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """Return the objects of `packed_lake`."""
    return packed_lake()


@pytest.fixture
def site(objects: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Site:
    """A lake of these, in which no object is small enough to be read whole."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    made = Site()
    for key, body in objects.items():
        made.store.put_if_absent(key, body)
    return made


def pack_of(site: Site) -> str:
    """Return the key of the one pack."""
    (key,) = site.store.names(app_packs(APP))
    return key


def columns_of(body: bytes) -> list[tuple[int, int]]:
    """Return where the third row group's large columns are."""
    footer = body[-footer_size(body) :]
    start, length = group_places(footer, len(body))[2]
    inside = [(a, b) for a, b in column_places(footer) if start <= a < start + length]
    return [(a, b) for a, b in inside if b - a > 1_000]


def bit(place: float, column: int = 0) -> Callable[[bytes], bytes]:
    """Return what turns one bit in the midst of one of these columns."""

    def turn(body: bytes) -> bytes:
        first, last = columns_of(body)[column]
        at = first + int((last - first) * place)
        return body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]

    return turn


def missing(found: set[object], whole: set[object]) -> int:
    """Return how many rows are missing; all that are there are as they were."""
    assert found <= whole
    return len(whole) - len(found)


def rows(relation: duckdb.DuckDBPyRelation) -> set[object]:
    """Return the rows of an answer, each of which is there once."""
    found = relation.fetchall()
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
def test_no_answer_is_made_of_damaged_bytes(
    site: Site, place: float, caplog: pytest.LogCaptureFixture
) -> None:
    """One bit hides the row group that it is in, from the first query on; the key is logged once.

    DuckDB compares no checksums: it would answer with another text, or fail.
    """
    whole = rows(site.lake().sql(TEXTS))
    key = pack_of(site)
    columns = len(columns_of(site.store.get(key)))
    body = change(site.store, key, bit(place, column=columns - 1))
    reader = site.lake()
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert 0 < missing(rows(reader.sql(TEXTS)), whole) <= 2_048
    assert caplog.text.count(key) == 1
    unharmed = {user for user, count in reader.sql(COUNTS).fetchall() if count == EVENTS}
    assert len(unharmed) >= len(USERS) - 2
    mend(site.store, key, body)
    assert rows(reader.sql(TEXTS)) == whole


def test_what_no_query_reads_costs_nothing(site: Site) -> None:
    """A query that reads other columns shows all rows."""
    change(site.store, pack_of(site), bit(0.5, column=-1))
    lake = site.lake()
    assert lake.sql("select count(*) from events").fetchall() == [(EVENTS * len(USERS),)]
    assert lake.metrics.retries == 0


ASKS: list[Callable[[Lake], int]] = [
    lambda lake: len(lake.sql(TEXTS).filter("text <> ''")),
    lambda lake: len(lake.sql(TEXTS).df()),
    lambda lake: len(lake.sql(TEXTS).pl()),
    lambda lake: pa.table(lake.sql(TEXTS)).num_rows,
    lambda lake: lake.sql(TEXTS).to_arrow_reader(100).read_all().num_rows,
    lambda lake: len(lake.sql(TEXTS).filter("length(text) > 0").order("version").fetchall()),
    lambda lake: lake.scan("events", ["text"]).read_all().num_rows,
    lambda lake: lake.scan("events", where="length(text) > ?", params=[0]).read_all().num_rows,
    lambda lake: len(lake.scan_polars("events").filter(pl.col("text") != "").collect()),
    lambda lake: len(lake.sql(TEXTS, as_of=datetime(2100, 1, 1, tzinfo=UTC)).fetchall()),
    lambda lake: len(lake.tried(lambda: lake.connect().sql(TEXTS).fetchall())),
]


@pytest.mark.parametrize("ask", ASKS)
def test_whoever_asks_first_is_shown_all_else(site: Site, ask: Callable[[Lake], int]) -> None:
    """However it is asked."""
    change(site.store, pack_of(site), bit(0.5, column=-1))
    assert EVENTS * (len(USERS) - 2) <= ask(site.lake()) < EVENTS * len(USERS)


@pytest.mark.parametrize("guarded", [False, True])
def test_a_connection_shows_all_else_when_it_is_refreshed(site: Site, *, guarded: bool) -> None:
    """Its query fails and names the key; so do later connections of the lake show all else."""
    key = pack_of(site)
    change(site.store, key, bit(0.5, column=-1))
    lake = site.lake()
    with lake.connect(guarded=guarded) as connection:
        with pytest.raises(duckdb.Error, match=f"not those that were stored.*{key}"):
            connection.sql(TEXTS).fetchall()
        lake.refresh(connection)
        left = len(connection.sql(TEXTS).fetchall())
        assert EVENTS * (len(USERS) - 2) <= left < EVENTS * len(USERS)
    with lake.connect(guarded=guarded) as connection:
        assert len(connection.sql(TEXTS).fetchall()) == left


def test_the_past_is_shown_without_it(site: Site) -> None:
    """What is cut at a time reads packs as it connects."""
    lake, then = site.lake(), site.clock.wall()
    site.clock.advance(10)
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.get_session(app_name=APP, user_id=user, session_id="s")
        assert session is not None
        service.append_event(session, event(EVENTS))
    compact(lake)
    key = max(site.store.names(app_packs(APP)), key=site.store.size)
    change(site.store, key, bit(0.5, column=-1))
    with site.lake().connect(as_of=then) as connection:
        assert connection.sql("select count(*) from sessions").fetchall() == [(len(USERS),)]
        ((found,),) = connection.sql("select count(text) from events").fetchall()
        assert EVENTS * (len(USERS) - 2) <= found < EVENTS * len(USERS)


def test_relations_of_one_answer_are_of_one_moment(site: Site) -> None:
    """What was made before the damage was met goes on with what is made later."""
    answer = site.lake().sql(TEXTS)
    users = answer.select("user_id").distinct().set_alias("u")
    change(site.store, pack_of(site), bit(0.5, column=-1))
    counts = answer.aggregate("user_id, count(text) as n", "user_id").set_alias("c")
    found = users.join(counts, "user_id").order("user_id").fetchall()
    assert len(found) >= len(USERS) - 1
    assert sum(count for _, count in found) == len(answer) < EVENTS * len(USERS)
    assert isinstance(answer, duckdb.DuckDBPyRelation)
    assert "text" in answer
    assert len(copy(answer)) == len(answer)
    assert answer["user_id"].distinct().order("user_id").fetchall()[0] == (USERS[0],)


def test_two_damaged_packs_cost_each_its_own(site: Site) -> None:
    """A query goes on until it has met them all."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in ("zoe", "zac"):
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(50)])
        compact(lake, app_name=APP)
        delete_packed(lake, site.store)
    keys = list(site.store.names(app_packs(APP)))
    for key in keys:
        change(site.store, key, lambda body: body[:200] + b"x" * 2_000 + body[2_200:])
    found = dict(site.lake().sql(COUNTS).fetchall())
    assert len(keys) == 3
    assert set(USERS[2:]) <= set(found) <= set(USERS)


def test_a_relation_outlives_the_packs_that_it_was_made_on(site: Site) -> None:
    """Where a sweep took them it is asked of the lake as it is now."""
    answer = site.lake().sql(COUNTS)
    lake = site.lake()
    site.clock.advance(100 * 86_400)
    prune_events(lake, older_than_days=1)
    for _ in range(3):
        sweep(lake, grace=0)
    assert answer.fetchall() == site.lake().sql(COUNTS).fetchall()


def test_a_wrong_query_is_run_once(site: Site) -> None:
    """An error that no damage has made is the caller's, at once."""
    lake = site.lake()
    answer = lake.sql("select error(user_id) from events")
    before = lake.metrics.requests
    with pytest.raises(duckdb.Error, match="|".join(USERS)):
        answer.fetchall()
    assert "LIST" not in lake.metrics.requests_since(before)
    assert lake.metrics.retries == 0


def test_what_was_lost_is_looked_at_alone(site: Site) -> None:
    """Each refresh asks whether a damaged column was restored, and reads nothing else of it."""
    key = pack_of(site)
    change(site.store, key, bit(0.5, column=-1))
    lake = site.lake()
    lake.sql(TEXTS).fetchall()
    before, read = lake.metrics.requests, lake.metrics.bytes_read
    lake.sql("select 1").fetchall()
    assert lake.metrics.requests_since(before) == {"LIST": 6, "GET": 2}
    assert lake.metrics.bytes_read - read < site.store.size(key) / 3


def test_damage_in_a_run_of_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is not shown; all else is."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    clock = ManualClock()
    aging = AgingLake(MemoryStore(clock=clock), clock)
    aging.create()
    put(aging.lake, *(measured(invocation_id=f"{n * 48_271 % 65_537:x}") for n in range(500)))
    compact(aging.lake)
    manifest = newest(aging.lake)
    (key,) = [each for each in aging.store.names("runs/") if "/telemetry/" in each]
    assert manifest.table("telemetry").runs
    change(aging.store, key, lambda body: body[:900] + b"x" * 200 + body[1_100:])
    with aging.open(read_only=True) as lake:
        assert shown(lake) == []
        assert lake.sql("select count(*) from sessions").fetchall() == [(1,)]
    aging.lake.close()
