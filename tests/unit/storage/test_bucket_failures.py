"""What is sent again between a client and a bucket, and what cannot be known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from lakestore.errors import (
    AlreadyExistsError,
    InputError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedStoreError,
)
from lakestore.storage import (
    Metrics,
    ObjectStore,
    RetryingStore,
    open_store,
)
from lakestore.storage.retrying import ATTEMPTS
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.faulty_bucket import Parts
from tests.support.servers import Bucket, free_ports

READS: list[tuple[str, Callable[[ObjectStore], object]]] = [
    ("get", lambda store: store.get("t/there")),
    ("get_range", lambda store: store.get_range("t/there", 1, 2)),
    ("size", lambda store: store.size("t/there")),
    ("list", lambda store: [stored.key for stored in store.list("t/")]),
    ("delete", lambda store: store.delete("t/none")),
]
EXPECTED = {"get": b"there", "get_range": b"he", "size": 5, "list": ["t/there"], "delete": None}


@pytest.fixture(params=["moto", "fake_gcs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each kind."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    """A proxy before the bucket's server."""
    with fault_proxy(bucket.endpoint) as running:
        yield running


@pytest.fixture
def parts(bucket: Bucket, proxy: FaultProxy) -> Iterator[Parts]:
    """A store behind the proxy."""
    made = Parts(bucket, proxy)
    yield made
    made.store.close()


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_read_is_sent_again(parts: Parts, proxy: FaultProxy, name: str, status: int) -> None:
    """What failed for the moment is read again after growing pauses, and each time is counted."""
    proxy.faults.append(Fault("answer", times=3, status=status))

    assert dict(READS)[name](parts.store) == EXPECTED[name]
    assert len(proxy.requests) == 4
    assert parts.metrics.retries == 3
    assert parts.clock.slept == pytest.approx([0.1, 0.2, 0.4])
    assert sum(parts.metrics.requests.values()) == 1 + 4


@pytest.mark.parametrize("name", EXPECTED)
def test_a_read_whose_connection_breaks_is_sent_again(
    parts: Parts, proxy: FaultProxy, name: str
) -> None:
    """So is what got no answer. The clients' HTTP library sends each once more by itself."""
    proxy.faults.append(Fault("reset", times=4))

    assert dict(READS)[name](parts.store) == EXPECTED[name]
    assert len(proxy.requests) == 5
    assert 2 <= parts.metrics.retries <= 4


@pytest.mark.parametrize("name", EXPECTED)
def test_a_read_is_given_up(parts: Parts, proxy: FaultProxy, name: str) -> None:
    """After so many attempts there is one error, which says what to do."""
    proxy.faults.append(Fault("answer", times=99, status=429))

    with pytest.raises(StorageError, match=r"fewer requests.*attempts=7") as caught:
        dict(READS)[name](parts.store)
    assert type(caught.value) is StorageError
    assert len(proxy.requests) == ATTEMPTS
    assert sum(parts.clock.slept) < 10


def test_a_listing_goes_on_where_it_broke_off(parts: Parts, proxy: FaultProxy) -> None:
    """A page that fails is asked for again, and no key is listed twice or left out."""
    proxy.faults.append(Fault("answer", "GET", times=2, status=503))

    assert [stored.key for stored in parts.store.list("")] == ["t/there"]
    assert [*parts.store.names("t/", "t/there")] == []


@pytest.mark.parametrize("status", [429, 409])
def test_a_creation_that_was_refused_for_the_moment_is_sent_again(
    parts: Parts, proxy: FaultProxy, status: int
) -> None:
    """An answer that says that nothing was done may be followed by the same request."""
    proxy.faults.append(Fault("answer", times=2, status=status))
    parts.store.put_if_absent("t/new", b"new")

    assert parts.plain.get("t/new") == b"new"
    assert parts.metrics.retries == 2


@pytest.mark.parametrize("does", ["reset", "swallow"])
def test_a_creation_without_an_answer_is_not_known(
    bucket: Bucket, proxy: FaultProxy, does: Literal["reset", "swallow"]
) -> None:
    """A creation that may have landed is not sent again by a store."""
    through = bucket.at(proxy.url)
    metrics = Metrics()
    plain = open_store(through.fresh(), through.storage_options)
    store = RetryingStore(plain, metrics, ManualClock(), lambda: "0" * 16)
    proxy.faults.append(Fault(does, times=2))

    with pytest.raises(UnknownOutcomeError, match="t/new"):
        store.put_if_absent("t/new", b"new")
    assert len(proxy.requests) <= 2  # the HTTP library sends a PUT once more by itself
    assert metrics.retries == 0
    assert [stored.key for stored in store.list("")] == (["t/new"] if does == "swallow" else [])
    store.close()


def test_a_creation_may_meet_itself(parts: Parts, proxy: FaultProxy) -> None:
    """A client may send it again over another connection, and be refused by its own object."""
    proxy.faults.append(Fault("swallow"))

    with pytest.raises((AlreadyExistsError, UnknownOutcomeError)):
        parts.store.put_if_absent("t/new", b"new")
    assert parts.plain.get("t/new") == b"new"


def test_a_creation_that_failed_within_the_server_is_not_known(
    parts: Parts, proxy: FaultProxy
) -> None:
    """A status of 500 does not say whether the object is there."""
    proxy.faults.append(Fault("answer", status=500))

    with pytest.raises(UnknownOutcomeError):
        parts.store.put_if_absent("t/new", b"new")


@pytest.mark.parametrize("name", EXPECTED)
def test_obstore_is_no_other(moto: Bucket, name: str) -> None:
    """Reads are sent again, and counted, whoever the client is."""
    with fault_proxy(moto.endpoint) as proxy:
        parts = Parts(moto, proxy, "obstore")
        faults = [Fault("answer", status=503), Fault("reset"), Fault("answer", status=429)]
        for number, fault in enumerate(faults, start=1):
            fault.first = number
        proxy.faults.extend(faults)
        assert dict(READS)[name](parts.store) == EXPECTED[name]
        assert len(proxy.requests) == 4
        assert parts.metrics.retries == 3
        parts.store.close()


@pytest.mark.parametrize(("status", "does"), [(500, "answer"), (0, "swallow"), (0, "reset")])
def test_obstore_tells_what_is_not_known(
    moto: Bucket, status: int, does: Literal["answer", "swallow", "reset"]
) -> None:
    """A creation without a clear answer is not known to be there, nor not to be."""
    with fault_proxy(moto.endpoint) as proxy:
        parts = Parts(moto, proxy, "obstore")
        proxy.faults.append(Fault(does, "PUT", status=status, times=2))
        with pytest.raises(UnknownOutcomeError):
            parts.store.put_if_absent("t/new", b"new")
        parts.store.close()

    assert parts.metrics.retries == 0


def test_obstore_tells_what_was_not_sent(moto: Bucket) -> None:
    """Nobody listens, or no such name: a creation is known not to be there."""
    (port,) = free_ports(1)
    for place in (f"http://127.0.0.1:{port}", "http://nobody.invalid"):
        options = {**moto.storage_options, "endpoint_url": place}
        plain = open_store(moto.fresh(), options, client="obstore")
        store = RetryingStore(plain, Metrics(), ManualClock(), lambda: "0" * 16)
        with pytest.raises(StorageError, match=r"cannot be reached.*attempts=7") as caught:
            store.put_if_absent("k", b"x")
        assert type(caught.value) is StorageError


def test_obstore_refuses_what_it_does_not_know(fake_gcs: Bucket) -> None:
    """Options of s3fs alone, and other kinds of buckets, are refused by name."""
    with pytest.raises(InputError, match="config_kwargs"):
        open_store("s3://bucket", {"config_kwargs": {}}, client="obstore")
    with pytest.raises(UnsupportedStoreError, match="gs://"):
        open_store(fake_gcs.fresh(), client="obstore")


def test_a_store_that_asks_for_less_is_obeyed(moto: Bucket) -> None:
    """SlowDown means that nothing was done: a creation is sent again, after a pause."""
    with fault_proxy(moto.endpoint) as proxy:
        parts = Parts(moto, proxy)
        proxy.faults.append(Fault("answer", "PUT", times=2, status=503, code="SlowDown"))
        parts.store.put_if_absent("t/new", b"new")
        parts.store.close()

    assert proxy.count("PUT") == 3
