"""What a store really sends to a bucket: one HTTP request for each of ours, as small as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakestore import Lake
from lakestore.errors import AlreadyExistsError
from lakestore.storage import CountingStore, Metrics, ObjectStore, open_store
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.servers import Bucket


@pytest.fixture(params=["moto", "fake_gcs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each kind."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    """What counts the requests."""
    with fault_proxy(bucket.endpoint) as running:
        yield running


@pytest.fixture
def store(bucket: Bucket, proxy: FaultProxy) -> Iterator[ObjectStore]:
    """A store behind it."""
    through = bucket.at(proxy.url)
    store = open_store(through.fresh(), through.storage_options)
    yield store
    store.close()


def test_each_operation_is_one_request(store: ObjectStore, proxy: FaultProxy) -> None:
    """No HEAD goes before a GET, no look before a creation, and nothing is asked on opening."""
    assert proxy.requests == []
    calls: list[Callable[[], object]] = [
        lambda: store.put_if_absent("t/a", b"0123456789" * 1_000),
        lambda: store.get("t/a"),
        lambda: store.get_range("t/a", 100, 50),
        lambda: store.get_range("t/a", 20_000, 50),
        lambda: store.size("t/a"),
        lambda: [*store.list("t/")],
        lambda: [*store.list("t/", "t/0")],
        lambda: store.delete("t/a"),
        lambda: store.delete("t/a"),
    ]
    for number, call in enumerate(calls, start=1):
        call()
        assert len(proxy.requests) == number


def test_a_creation_carries_its_condition(store: ObjectStore, proxy: FaultProxy) -> None:
    """The one request that creates says so, and does not wait to be told to go on."""
    store.put_if_absent("t/a", b"x")
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("t/a", b"y")

    for sent in proxy.requests:
        conditions = (
            sent.headers.get("if-none-match") == "*",
            "ifGenerationMatch=0" in sent.target,
        )
        assert any(conditions)
        assert "expect" not in sent.headers


def test_a_range_is_asked_for_as_one(store: ObjectStore, proxy: FaultProxy) -> None:
    """Only the bytes of a range are sent for."""
    store.put_if_absent("t/a", b"0123456789")

    assert store.get_range("t/a", 3, 4) == b"3456"
    assert proxy.requests[-1].headers["range"] == "bytes=3-6"


def test_a_long_listing_is_counted_by_pages(store: ObjectStore, proxy: FaultProxy) -> None:
    """Each page of 1,000 keys is a request, and is counted as one."""
    with ThreadPoolExecutor(16) as threads:
        keys = [f"t/{number:05}" for number in range(1_001)]
        list(threads.map(lambda key: store.put_if_absent(key, b"x"), keys))
    proxy.requests.clear()
    metrics = Metrics()

    assert len(list(CountingStore(store, metrics).list("t/"))) == 1_001
    assert len(proxy.requests) == metrics.requests["LIST"] == 2
    # From somewhat before the key, for the sake of servers that keep folders.
    assert [each.key for each in store.list("t/", "t/00999")] == ["t/01000"]
    assert len(proxy.requests) == 3


def test_what_a_lake_counts_is_what_was_sent(bucket: Bucket, proxy: FaultProxy) -> None:
    """The metrics of a lake in a bucket are the requests that its server got."""
    through = bucket.at(proxy.url)
    with Lake.open(through.fresh(), storage_options=through.storage_options) as lake:
        assert sum(lake.metrics.requests.values()) == len(proxy.requests)
