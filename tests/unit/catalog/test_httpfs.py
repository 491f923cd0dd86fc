"""DuckDB's httpfs reads large packs from a bucket, where it is installed and asked for."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from lakestore import Lake, LakeSessionService
from lakestore.catalog import httpfs, inspection
from lakestore.errors import InputError
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.archives import APP, event
from tests.support.servers import Bucket

USERS = ("a", "b")
ALL = "select user_id, session_id, event_id from events order by all"


def _is_installed() -> bool:
    with duckdb.connect() as connection:
        try:
            connection.execute("load httpfs")
        except duckdb.Error:
            return False
    return True


INSTALLED = _is_installed()
with_httpfs = pytest.mark.skipif(not INSTALLED, reason="httpfs is not installed")


@pytest.fixture
def lake(seaweedfs: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake in a bucket with a pack that counts as a large one, and fresh events."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    with Lake.open(seaweedfs.fresh(), storage_options=seaweedfs.storage_options) as opened:
        service = LakeSessionService(opened).sync
        for user in USERS:
            for session_id in ("s", "t"):
                session = service.create_session(app_name=APP, user_id=user, session_id=session_id)
                service.append_events(session, [event(number) for number in range(3)])
        compact(opened)
        service.append_event(session, event(3))
        yield opened


@with_httpfs
def test_it_shows_what_the_lakes_own_way_shows(lake: Lake) -> None:
    """Also past what was deleted since, and of packs that count in part."""
    service = LakeSessionService(lake).sync
    connection = lake.connect(httpfs=True)
    assert len(connection.sql(ALL).fetchall()) == 13
    assert connection.sql(ALL).fetchall() == lake.sql(ALL).fetchall()
    service.delete_session(app_name=APP, user_id="a", session_id="s")
    lake.refresh(connection)
    assert len(connection.sql(ALL).fetchall()) == 10
    assert connection.sql(ALL).fetchall() == lake.sql(ALL).fetchall()
    compact(lake)
    lake.refresh(connection)
    assert len(connection.sql(ALL).fetchall()) == 10
    assert connection.sql(ALL).fetchall() == lake.sql(ALL).fetchall()


@with_httpfs
def test_queries_ask_nothing_of_the_lakes_own_client(lake: Lake) -> None:
    """The requests for columns are DuckDB's."""
    connection = lake.connect(httpfs=True)
    before = lake.metrics.requests
    assert len(connection.sql(ALL).fetchall()) == 13
    assert lake.metrics.requests_since(before) == {}


@with_httpfs
def test_addresses_are_renewed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh gives others where those in use are old, though nothing has changed."""
    connection = lake.connect(httpfs=True)
    views = "select sql from duckdb_views() where view_name = 'packed_rows'"
    ((first,),) = connection.sql(views).fetchall()
    lake.refresh(connection)
    assert connection.sql(views).fetchall() == [(first,)]
    monkeypatch.setattr(httpfs, "_RENEWED_SECONDS", -1)
    monkeypatch.setattr(httpfs, "_SIGNED_SECONDS", 24 * 3600)
    lake.refresh(connection)
    ((second,),) = connection.sql(views).fetchall()
    assert "X-Amz-Expires=43200" in first
    assert "X-Amz-Expires=86400" in second
    assert len(connection.sql(ALL).fetchall()) == 13


@pytest.mark.skipif(INSTALLED, reason="httpfs is installed")
def test_where_it_is_not_installed(lake: Lake) -> None:
    """The error says what to do."""
    with pytest.raises(InputError, match="run `INSTALL httpfs` once, or connect without it"):
        lake.connect(httpfs=True)


def test_where_nothing_is_signed() -> None:
    """A lake in no bucket, and a connection that may reach nothing else, refuse it."""
    with Lake(MemoryStore()) as lake:
        with pytest.raises(InputError, match="only buckets sign addresses"):
            lake.connect(httpfs=True)
        with pytest.raises(InputError, match="without httpfs"):
            lake.connect(httpfs=True, guarded=True)
        with pytest.raises(InputError, match="httpfs"):
            lake.connect(httpfs=1)  # type: ignore[arg-type] # what is refused
