"""How DuckDB reads packs: what a query asks of a store, near and far."""

from __future__ import annotations

import io
from random import Random
from threading import Lock
from time import sleep

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from lakestore import LakeSessionService
from lakestore.catalog.database import Database
from lakestore.jobs import compact
from lakestore.storage import CountingStore, MemoryStore, Metrics
from lakestore.storage.wrappers import Wrapper
from tests.support.archives import APP, Site, delete_packed, event

KEY = "packs/app=a/events/1.parquet"
SUM = f"select sum(first), sum(last) from read_parquet('lakestore://{KEY}')"
GROUPS = 60
GROUP_BYTES = 50_000


def filled() -> MemoryStore:
    """Return a store with an object of many row groups: two numbers, and much between them."""
    table = pa.table(
        {
            "first": range(GROUPS * 10),
            "text": [Random(n).randbytes(GROUP_BYTES // 20).hex() for n in range(GROUPS * 10)],
            "last": range(GROUPS * 10),
        }
    )
    sink, store = io.BytesIO(), MemoryStore()
    pq.write_table(table, sink, row_group_size=10, use_dictionary=False, compression="none")
    store.put_if_absent(KEY, sink.getvalue())
    return store


class Far(Wrapper):
    """Takes its time for each request, and notes how many were under way at once."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.near = False
        self.most = self._now = 0
        self._lock = Lock()

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        sleep(0.05)  # a server far away
        with self._lock:
            self._now -= 1
        return super().get_range(key, start, length)


def test_a_near_store_is_asked_for_what_is_needed_alone() -> None:
    """However quick it is: what lies between two columns is not read to save a request."""
    metrics = Metrics()
    database = Database(CountingStore(filled(), metrics))
    for _ in range(3):
        before = metrics.bytes_read
        assert database.query(SUM).fetchall() == [(179_700, 179_700)]
        assert metrics.bytes_read - before < GROUPS * GROUP_BYTES / 5
    database.close()


def test_a_far_store_is_asked_side_by_side() -> None:
    """A query waits for many requests at a time, however few cores there are."""
    store = Far(filled())
    database = Database(store)
    assert database.query(SUM).fetchall() == [(179_700, 179_700)]
    database.close()
    assert store.most > 12


def test_packs_are_scanned_for_what_a_query_asks() -> None:
    """As long as no session has ended, no query looks for those that have."""
    site = Site()
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in ("ana", "ben"):
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(3)])
    compact(lake)
    delete_packed(lake, site.store)
    plan = "explain select max(event_time) from events"
    count = "select user_id, count(*) from events group by all order by all"
    reader = site.lake()
    assert "user_id" not in str(reader.sql(plan).fetchall())
    service.delete_session(app_name=APP, user_id="ana", session_id="s")
    assert reader.sql(count).fetchall() == [("ben", 3)]
    assert "user_id" in str(reader.sql(plan).fetchall())
    compact(lake)
    assert reader.sql(count).fetchall() == [("ben", 3)]
    site.close()
