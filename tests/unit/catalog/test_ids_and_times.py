from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakestore.catalog import Catalog
from lakestore.clock import SystemClock
from lakestore.log.marker import Limits
from lakestore.storage import LocalStore, MemoryStore, Metrics, ObjectStore, Pool
from tests.support.lake_builder import a_log

Follow = Callable[[ObjectStore], Catalog]

NUMBERS = ["007", "7", "123", "1e5", "2024-01-05"]
WORDS = ["NULL", "null", "true", "__HIVE_DEFAULT_PARTITION__", "-"]
SEPARATORS = ["a/b", "a b", "a+b", "100%", "a%2Fb", "x=y", "mail+tag@corp.test", "a::b", "C:\\x"]
UNICODE = ["émile", "日本", "é" * 200, "😀", "Ana", "ana", " ana "]
HIDDEN = ["_svc", ".bot", "..", "ok"]
PATTERNS = ["u1", "u[1]", "u*", "u?", "{u,v}"]
QUOTES = ["o'brien", "x'); drop view events; --", 'say "hi"', "?", "$1", "{}", "%s", "line\nbreak"]


@pytest.fixture
def every(tmp_path: Path, follow: Follow) -> Callable[[list[str]], Catalog]:
    """Make a folder with an apostrophe a lake in which each id is an app, a user and a session."""

    def fill(ids: list[str]) -> Catalog:
        store = LocalStore(tmp_path / "o'brien's [lake] 100%")
        for one in ids:
            a_log(store, one, user_id=one, app_name=one).create({"of": one}).say(f"by {one}")
        catalog = follow(store)
        catalog.refresh()
        return catalog

    return fill


@pytest.mark.parametrize(
    "ids",
    [NUMBERS, WORDS, SEPARATORS, UNICODE, HIDDEN, PATTERNS, QUOTES],
    ids=["numbers", "words", "separators", "unicode", "hidden", "patterns", "quotes"],
)
def test_ids_are_texts(every: Callable[[list[str]], Catalog], ids: list[str]) -> None:
    """Every id is shown as it is, found by itself alone, and joins on itself alone."""
    catalog = every(ids)
    types = "select distinct typeof(app_name), typeof(user_id), typeof(session_id) from events"
    assert catalog.sql(types).fetchall() == [("VARCHAR",) * 3]
    for one in ids:
        query = "select app_name, user_id, session_id, event_id from events where {} = ?"
        for column in ("app_name", "user_id", "session_id"):
            found = catalog.sql(query.format(column), [one]).fetchall()
            assert found == [(one, one, one, f"by {one}")]
        scanned = catalog.scan("sessions", ["state"], "user_id = ?", [one]).read_all()
        assert [json.loads(state) for state in scanned["state"].to_pylist()] == [{"of": one}]
    joined = "select count(*) from events join sessions using (app_name, user_id, session_id)"
    assert catalog.sql(joined).fetchall() == [(len(ids),)]
    crossed = "select count(*) from events join sessions using (user_id)"
    assert catalog.sql(crossed).fetchall() == [(len(ids),)]


def test_one_session_id_of_many_users(store: MemoryStore, catalog: Catalog) -> None:
    """Sessions with one id are as many sessions as users and apps have it."""
    for app in ("x", "y"):
        for user in ("a", "b"):
            a_log(store, "main", user_id=user, app_name=app).create().say(f"{app}{user}")
    catalog.refresh()
    found = catalog.sql("select app_name || user_id, events from sessions order by 1").fetchall()
    assert found == [("xa", 1), ("xb", 1), ("ya", 1), ("yb", 1)]


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone that the machine is in."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no TZ")
@pytest.mark.usefixtures("zone")
def test_times_are_utc_wherever_the_machine_is(store: MemoryStore, follow: Follow) -> None:
    """An event is the same instant in SQL, Python, Arrow and pandas, shown in UTC."""
    seconds = [0.0, -1.0, 1e9 + 1e-7, 1_700_000_000.123456, 32_503_680_000.0]
    log = a_log(store).create()
    for number, at in enumerate(seconds):
        log.say(str(number), at=at)
    catalog = follow(store)
    catalog.refresh()
    expected = [datetime.fromtimestamp(0, UTC) + timedelta(seconds=round(at, 6)) for at in seconds]
    query = "select event_time from events order by version"
    python = [at for (at,) in catalog.sql(query).fetchall()]
    assert python == expected
    assert {at.utcoffset() for at in python} == {timedelta(0)}
    arrow = catalog.sql(query).to_arrow_table()["event_time"]
    assert str(arrow.type) == "timestamp[us, tz=UTC]"
    assert arrow.to_pylist() == expected
    pandas = catalog.sql(query).df()["event_time"]
    assert str(pandas.dt.tz) == "UTC"
    assert [at.to_pydatetime() for at in pandas] == expected
    texts = catalog.sql("select event_time::varchar from events order by version limit 2")
    assert texts.fetchall() == [("1970-01-01 00:00:00+00",), ("1969-12-31 23:59:59+00",)]
    stored = catalog.sql("select event_json ->> '$.timestamp' from events order by version")
    assert [float(at) for (at,) in stored.fetchall()] == seconds


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no TZ")
@pytest.mark.usefixtures("zone")
def test_days_are_days_of_utc(store: MemoryStore, follow: Follow) -> None:
    """Dates are cut where UTC's midnight is, whatever daylight saving says, for every cursor."""
    at = datetime(2024, 3, 10, 23, 30, tzinfo=UTC).timestamp()
    a_log(store).create().say("a", at=at).say("b", at=at + 3600)
    catalog = follow(store)
    catalog.refresh()
    query = "select event_time::date::varchar, count(*) from events group by 1 order by 1"
    expected = [("2024-03-10", 1), ("2024-03-11", 1)]
    assert catalog.sql(query).fetchall() == expected
    assert catalog.connection.sql(query).fetchall() == expected
    found = catalog.sql("select event_id from events where event_time >= '2024-03-11'").fetchall()
    assert found == [("b",)]


def test_a_time_beyond_the_calendar_is_null(store: MemoryStore, catalog: Catalog) -> None:
    """A time that no calendar shows is null in its column, and kept in the JSON."""
    a_log(store).create().say("a", at=1e18).say("b", at=None)
    catalog.refresh()
    assert catalog.sql("select event_time from events").fetchall() == [(None,), (None,)]
    last = catalog.sql("select last_update_time = created_at from sessions").fetchall()
    assert last == [(True,)]


def test_nothing_is_written_beside_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries leave no files in the working directory or in the lake, however large they get."""
    monkeypatch.chdir(tmp_path)
    parts = (Pool(1, "test"), SystemClock(), Metrics(), Limits())
    catalog = Catalog(MemoryStore(), *parts, guarded=False)
    before = sorted(tmp_path.rglob("*"))
    catalog.connection.execute("set memory_limit = '100MB'")
    large = "select i, repeat('x', 100) || i as s from range(1500000) t(i)"
    assert catalog.sql(f"select count(*) from (from ({large}) order by s limit 1400000)").fetchall()
    assert sorted(tmp_path.rglob("*")) == before
    assert not os.path.exists(".tmp")
