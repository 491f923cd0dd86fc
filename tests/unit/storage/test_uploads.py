"""Uploads when something goes wrong: what is sent again, what is taken back, what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import (
    InputError,
    LakeError,
    ReadOnlyError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.storage import (
    CountingStore,
    MemoryStore,
    Metrics,
    ObjectStore,
    ReadOnlyStore,
    open_store,
)
from lakestore.storage.uploads import in_blocks, send
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.faulty_bucket import Parts
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth
from tests.support.server_side import open_uploads
from tests.support.servers import SMALL_PART, Bucket

PNG = "image/png"
LONG = [b"a" * SMALL_PART, b"b" * SMALL_PART, b"c" * 17]
"""A payload of three parts, as `upload_long` sends it."""
SIZE = sum(map(len, LONG))


def upload_long(store: ObjectStore) -> int:
    """Upload `LONG` to `t/long`."""
    return send(store, "t/long", LONG, PNG, part_bytes=SMALL_PART)


@given(st.lists(st.binary(max_size=9)), st.integers(1, 7))
def test_blocks_are_the_same_bytes(parts: list[bytes], size: int) -> None:
    """All blocks are full but the last, and together they are what was given."""
    blocks = [*in_blocks(parts, size)]

    assert b"".join(blocks) == b"".join(parts)
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)


def test_a_source_may_use_its_buffer_again() -> None:
    """What it has handed out is let go before it is asked for more."""

    def source() -> Iterator[Any]:
        buffer = bytearray()
        for number in range(3):
            buffer += bytes([number]) * 5
            yield buffer
            buffer.clear()

    assert b"".join(in_blocks(source(), 4)) == b"".join(bytes([n]) * 5 for n in range(3))


def test_a_payload_of_too_many_parts_is_refused() -> None:
    """What no server would take ends with one error, and leaves nothing."""
    store = MemoryStore()

    assert send(store, "fits", [b"x" * 12], PNG, part_bytes=4, most_parts=3) == 12
    with pytest.raises(InputError, match="in 3 parts"):
        send(store, "long", [b"x" * 13], PNG, part_bytes=4, most_parts=3)
    assert [*store.names("")] == ["fits"]


@pytest.mark.parametrize("parts", [[b"short"], LONG], ids=["short", "long"])
def test_a_lake_that_is_read_takes_none(parts: list[bytes]) -> None:
    """A store for reading refuses before it asks for anything of the source."""
    source = iter(parts)
    with pytest.raises(ReadOnlyError):
        ReadOnlyStore(MemoryStore()).upload("t/a", source, content_type=PNG)

    assert [*source] == parts


@pytest.mark.parametrize("last", [1, 5], ids=["short", "long"])
@pytest.mark.parametrize("outcome", ["landed", "resent"])
def test_a_lost_reply_is_settled_by_reading(
    last: int, outcome: Literal["landed", "resent"]
) -> None:
    """Where the last reply is lost, what stands under the name is the payload."""
    inner = MemoryStore()
    store = LostReplyStore(inner, Nth("put", last), outcome)
    if last == 1:
        assert store.upload("t/short", [b"short"], content_type=PNG) == 5
        assert inner.get("t/short") == b"short"
    else:
        assert upload_long(store) == SIZE
        assert inner.get("t/long") == b"".join(LONG)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_what_did_not_land_is_not_acknowledged(nth: int) -> None:
    """Where a request got lost the error is passed on, once the parts are removed."""
    inner, metrics = MemoryStore(), Metrics()
    store = LostReplyStore(CountingStore(inner, metrics), Nth("put", nth), "dropped")
    with pytest.raises(UnknownOutcomeError):
        upload_long(store)

    assert metrics.requests["DELETE"] >= 1
    assert [*inner.names("")] == []


def test_a_short_one_that_did_not_land_is_not_acknowledged() -> None:
    """Nothing stands under the name, so the error is passed on."""
    store = LostReplyStore(MemoryStore(), Nth("put"), "dropped")
    with pytest.raises(UnknownOutcomeError):
        store.upload("t/short", [b"short"], content_type=PNG)


def test_the_first_error_is_the_one_to_see() -> None:
    """An abort that fails too hides nothing."""
    failing = FailingStore(MemoryStore(), Nth("put", 2), StorageError)
    store = FailingStore(failing, Nth("delete"), LakeError)
    with pytest.raises(StorageError, match="the store failed"):
        upload_long(store)


class TestBuckets:
    """Between a client and a bucket."""

    @pytest.fixture(params=["moto", "fake_gcs"])
    def bucket(self, request: pytest.FixtureRequest) -> Bucket:
        """A bucket of each kind."""
        found: Bucket = request.getfixturevalue(request.param)
        return found

    @pytest.fixture
    def proxy(self, bucket: Bucket) -> Iterator[FaultProxy]:
        """A proxy before the bucket's server."""
        with fault_proxy(bucket.endpoint) as running:
            yield running

    @pytest.fixture
    def parts(self, bucket: Bucket, proxy: FaultProxy) -> Iterator[Parts]:
        """A store behind the proxy, with one object in it."""
        made = Parts(bucket, proxy)
        yield made
        made.store.close()

    def test_what_is_counted_is_what_was_sent(self, parts: Parts, proxy: FaultProxy) -> None:
        """A short payload is one request, a long one a request a part and one at each end."""
        before = parts.metrics.requests["PUT"], parts.metrics.bytes_written
        parts.store.upload("t/short", [b"short"], content_type=PNG)
        assert len(proxy.requests) == 1
        upload_long(parts.store)

        assert len(proxy.requests) == 1 + 5
        assert parts.metrics.requests["PUT"] - before[0] == 1 + 5
        assert parts.metrics.bytes_written - before[1] == 5 + SIZE
        assert not any("expect" in sent.headers for sent in proxy.requests)

    def test_each_request_is_sent_again(self, parts: Parts, proxy: FaultProxy) -> None:
        """What failed for the moment, at any step, is sent again, and counted."""
        proxy.faults.extend(Fault("answer", first=nth) for nth in (1, 3, 5, 7, 9, 11))

        assert upload_long(parts.store) == SIZE
        assert parts.store.upload("t/short", [b"short"], content_type=PNG) == 5
        assert parts.metrics.retries == 6
        assert parts.plain.get("t/long") == b"".join(LONG)
        assert parts.plain.get("t/short") == b"short"

    @pytest.mark.parametrize("does", ["swallow", "reset"])
    def test_a_short_payload_may_be_sent_twice(
        self, parts: Parts, proxy: FaultProxy, does: Literal["swallow", "reset"]
    ) -> None:
        """Whether it had landed or not, when no answer comes it is sent again."""
        proxy.faults.append(Fault(does, "", times=2))

        assert parts.store.upload("t/short", [b"short"], content_type=PNG) == 5
        assert parts.plain.get("t/short") == b"short"

    @pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize("does", ["swallow", "reset"])
    def test_a_long_payload_survives_lost_replies(
        self, parts: Parts, proxy: FaultProxy, nth: int, does: Literal["swallow", "reset"]
    ) -> None:
        """So is each request of a long one; what came twice is in it once, or it is not there."""
        proxy.faults.append(Fault(does, first=nth, times=2))
        appends = does == "swallow" and nth in (2, 3, 4) and parts.plain.url.startswith("gs://")
        if appends:  # the server takes a chunk twice, as Google's does not
            with pytest.raises(StorageError):
                upload_long(parts.store)
            assert [*parts.plain.names("")] == ["t/there"]
        else:
            assert upload_long(parts.store) == SIZE
            assert parts.plain.get("t/long") == b"".join(LONG)

    def test_an_upload_is_given_up(self, bucket: Bucket, parts: Parts, proxy: FaultProxy) -> None:
        """When a part is refused for good its parts are removed, and the error is the store's."""
        proxy.faults.append(Fault("answer", "PUT", first=2, times=99, status=403))
        with pytest.raises(StorageError, match=r"no permission.*t/long"):
            upload_long(parts.store)

        assert [sent.method for sent in proxy.requests] == ["POST", "PUT", "PUT", "DELETE"]
        assert [*parts.plain.names("")] == ["t/there"]
        assert bucket.protocol == "gs" or open_uploads(bucket, parts.plain.url) == []

    def test_an_upload_that_ended_elsewhere_says_so(self, parts: Parts, proxy: FaultProxy) -> None:
        """Where the server knows the upload no more, no bucket is missing."""
        codes = {"s3": "NoSuchUpload", "gs": ""}
        code = codes[parts.plain.url.partition(":")[0]]
        proxy.faults.append(Fault("answer", "PUT", first=2, times=99, status=404, code=code))
        with pytest.raises(StorageError, match="parts of the upload are gone"):
            upload_long(parts.store)

    def test_no_bucket_is_no_place(self, bucket: Bucket) -> None:
        """Short and long payloads are refused with the cause."""
        none = bucket.called("none-such")
        store = open_store(none.fresh(), none.storage_options)
        for upload in (upload_long, lambda store: store.upload("t/a", [b"x"], content_type=PNG)):
            with pytest.raises(StorageError, match="no such bucket"):
                upload(store)
        store.close()


def test_google_may_keep_less_of_a_chunk(fake_gcs: Bucket) -> None:
    """An answer that does not confirm all of a chunk lets it be sent again from its beginning."""
    with fault_proxy(fake_gcs.endpoint) as proxy:
        parts = Parts(fake_gcs, proxy)
        proxy.faults.append(Fault("answer", "PUT", first=2, status=308))
        assert upload_long(parts.store) == SIZE
        places = [sent.headers["content-range"] for sent in proxy.requests if sent.method == "PUT"]
        assert places[1] == places[2] == f"bytes {SMALL_PART}-{2 * SMALL_PART - 1}/*"
        assert parts.plain.get("t/long") == b"".join(LONG)
        parts.store.close()


def test_google_may_not_be_done_yet(fake_gcs: Bucket) -> None:
    """Told that all was sent, it may ask for more, and is told again."""
    with fault_proxy(fake_gcs.endpoint) as proxy:
        parts = Parts(fake_gcs, proxy)
        proxy.faults.append(Fault("answer", "PUT", first=4, status=308))
        assert upload_long(parts.store) == SIZE
        assert proxy.count("PUT") == 5
        assert parts.plain.get("t/long") == b"".join(LONG)
        parts.store.close()


class TestObstore:
    """Through obstore, which sends parts again by itself."""

    @pytest.fixture
    def proxy(self, moto: Bucket) -> Iterator[FaultProxy]:
        """A proxy before the bucket's server."""
        with fault_proxy(moto.endpoint) as running:
            yield running

    @pytest.fixture
    def parts(self, moto: Bucket, proxy: FaultProxy) -> Parts:
        """A store behind the proxy, with one object in it."""
        return Parts(moto, proxy, "obstore")

    def test_what_is_counted_is_what_was_sent(self, parts: Parts, proxy: FaultProxy) -> None:
        """A short payload is one request, a long one a request a part and one at each end."""
        before = parts.metrics.requests["PUT"]
        parts.store.upload("t/short", [b"short"], content_type=PNG)
        upload_long(parts.store)

        assert len(proxy.requests) == parts.metrics.requests["PUT"] - before == 1 + 5

    def test_parts_are_sent_again(self, parts: Parts, proxy: FaultProxy) -> None:
        """What failed for the moment, or got no answer, is sent again."""
        faults = [Fault("answer"), Fault("swallow"), Fault("reset"), Fault("answer", status=429)]
        for number, fault in enumerate(faults):
            fault.first = 1 + 2 * number
        proxy.faults.extend(faults)
        assert upload_long(parts.store) == SIZE
        assert parts.plain.get("t/long") == b"".join(LONG)

    def test_an_upload_is_given_up(self, moto: Bucket, parts: Parts, proxy: FaultProxy) -> None:
        """When a part is refused for good its parts are removed, and the error is the store's."""
        proxy.faults.append(Fault("answer", "PUT", first=2, times=99, status=403))
        with pytest.raises(StorageError, match=r"no permission.*t/long"):
            upload_long(parts.store)

        assert proxy.count("DELETE") == 1
        assert [*parts.plain.names("")] == ["t/there"]
        assert open_uploads(moto, parts.plain.url) == []
