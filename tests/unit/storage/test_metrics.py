"""Counters: what a lake asked of its store, and refusing what may not be asked."""

from __future__ import annotations

import pytest

from lakestore.errors import AlreadyExistsError, NotFoundError, ReadOnlyError
from lakestore.storage import CountingStore, MemoryStore, Metrics, ReadOnlyStore
from tests.support.racing import in_threads


def test_every_request_is_counted_once() -> None:
    """Each call of the seam is one request of its kind."""
    metrics = Metrics()
    store = CountingStore(MemoryStore(), metrics)
    store.put_if_absent("a", b"12345")
    store.get("a")
    store.get_range("a", 1, 2)
    store.size("a")
    list(store.list(""))
    list(store.names(""))
    store.delete("a")

    assert metrics.requests == {"PUT": 1, "GET": 2, "HEAD": 1, "LIST": 2, "DELETE": 1}
    assert (metrics.bytes_written, metrics.bytes_read) == (5, 7)


def test_failed_requests_are_counted_too() -> None:
    """What is refused or finds nothing has been paid for, and its bytes were sent."""
    metrics = Metrics()
    store = CountingStore(MemoryStore(), metrics)
    store.put_if_absent("a", b"12345")
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a", b"123")
    for read in (store.get, store.size):
        with pytest.raises(NotFoundError):
            read("b")
    store.delete("b")

    assert metrics.requests == {"PUT": 2, "GET": 1, "HEAD": 1, "DELETE": 1}
    assert (metrics.bytes_written, metrics.bytes_read) == (8, 0)


def test_counters_start_at_nothing() -> None:
    """What was never counted is 0, and no request is no kind."""
    metrics = Metrics()

    counts = [
        metrics.bytes_read,
        metrics.bytes_written,
        metrics.retries,
        metrics.conflicts,
        metrics.cache_hits,
        metrics.cache_misses,
    ]
    assert counts == [0] * 6
    assert metrics.requests == {}
    assert metrics.snapshot() == {}


def test_a_snapshot_holds_everything_and_stays() -> None:
    """All counters are in one dictionary, which later counting does not change."""
    metrics = Metrics()
    metrics.request("PUT", written=3)
    metrics.received(4)
    for name in ("retries", "conflicts", "cache_hits", "cache_misses"):
        metrics.add(name, 2)
    before, requests = metrics.snapshot(), metrics.requests
    metrics.request("PUT", written=1)

    assert before == {
        "requests_put": 1,
        "bytes_written": 3,
        "bytes_read": 4,
        "retries": 2,
        "conflicts": 2,
        "cache_hits": 2,
        "cache_misses": 2,
    }
    assert requests == {"PUT": 1}
    assert "requests_put" in repr(metrics)


def test_no_count_is_lost_between_threads() -> None:
    """Counting from many threads at once adds up."""
    metrics = Metrics()

    def count() -> None:
        for _ in range(500):
            metrics.request("GET")
            metrics.add("retries")

    in_threads([count] * 8)

    assert metrics.requests == {"GET": 4000}
    assert metrics.retries == 4000


def test_a_read_only_store_reads() -> None:
    """All reads pass."""
    inner = MemoryStore("mine")
    inner.put_if_absent("a", b"12345")
    store = ReadOnlyStore(inner)

    assert (store.get("a"), store.get_range("a", 1, 2), store.size("a")) == (b"12345", b"23", 5)
    assert [stored.key for stored in store.list("")] == [*store.names("")] == ["a"]
    assert (store.url, store.near) == (inner.url, inner.near)


def test_a_read_only_store_never_writes() -> None:
    """Writes are refused as PermissionError too, and do not reach the store below."""
    metrics = Metrics()
    inner = MemoryStore("mine")
    inner.put_if_absent("a", b"x")
    store = ReadOnlyStore(CountingStore(inner, metrics))

    with pytest.raises(ReadOnlyError, match="memory://mine"):
        store.put_if_absent("b", b"x")
    with pytest.raises(PermissionError):
        store.delete("a")
    assert metrics.requests == {}
    assert inner.get("a") == b"x"
