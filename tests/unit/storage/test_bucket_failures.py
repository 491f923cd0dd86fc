"""What goes wrong between a client and a bucket: sent again, told apart, and said once, clearly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
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
    ClientName,
    CountingStore,
    Metrics,
    ObjectStore,
    RetryingStore,
    open_store,
)
from lakestore.storage.retrying import ATTEMPTS
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.servers import SECRET, Bucket, free_ports

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


class Parts:
    """A store behind a proxy, as a lake has it, with one object in it."""

    def __init__(self, bucket: Bucket, proxy: FaultProxy, client: ClientName = "fsspec") -> None:
        through = bucket.at(proxy.url)
        self.plain = open_store(through.fresh(), through.storage_options, client=client)
        self.metrics, self.clock = Metrics(), ManualClock()
        counting = CountingStore(self.plain, self.metrics)
        self.store = RetryingStore(counting, self.metrics, self.clock, lambda: "f" * 16)
        self.store.put_if_absent("t/there", b"there")
        proxy.requests.clear()


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


@pytest.mark.parametrize("client", ["fsspec", "obstore"])
@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("AccessDenied", 403, "no permission"),
        ("ExpiredToken", 400, "have expired"),
        ("InvalidAccessKeyId", 403, "credentials are wrong"),
        ("SignatureDoesNotMatch", 403, "credentials are wrong"),
        ("RequestTimeTooSkewed", 403, "clock of this machine"),
        ("NoSuchBucket", 404, "no such bucket"),
        ("PermanentRedirect", 301, "another region"),
        ("AuthorizationHeaderMalformed", 400, "another region"),
        ("NotImplemented", 501, "does not implement"),
        ("EntityTooLarge", 400, "EntityTooLarge"),
    ],
)
def test_a_refusal_names_its_cause(
    moto: Bucket, client: ClientName, code: str, status: int, says: str
) -> None:
    """What will not pass is not sent again, and the message says what to do."""
    with fault_proxy(moto.endpoint) as proxy:
        parts = Parts(moto, proxy, client)
        # Not a HEAD of the bucket, by which the client looks for its region.
        proxy.faults.append(Fault("answer", holding="t", times=99, status=status, code=code))
        for call in (
            lambda: parts.store.put_if_absent("t/new", b"new"),
            lambda: parts.store.get("t/there"),
            lambda: [*parts.store.list("t/")],
        ):
            with pytest.raises(StorageError, match=says) as caught:
                call()
            assert not isinstance(caught.value, UnknownOutcomeError)
        parts.store.close()

    assert parts.metrics.retries == 0


@contextmanager
def opened(bucket: Bucket, **options: object) -> Iterator[RetryingStore]:
    """Open the bucket with some options changed."""
    plain = open_store(bucket.fresh(), {**bucket.storage_options, **options})
    store = RetryingStore(plain, Metrics(), ManualClock(), lambda: "0" * 16)
    yield store
    store.close()


def test_a_missing_bucket_is_named(bucket: Bucket) -> None:
    """Creating and listing in a bucket that is not there say so; a listing of nothing is empty."""
    with opened(replace(bucket, name="no-such-bucket")) as store:
        for call in (lambda: store.put_if_absent("k", b"x"), lambda: [*store.list("")]):
            with pytest.raises(StorageError, match=r"no such bucket.*no-such-bucket"):
                call()
    with opened(bucket) as store:
        assert [*store.list("")] == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"key": "nobody"}, "credentials are wrong"),
        ({"secret": "wrong-secret"}, "credentials are wrong"),
        ({"key": "reader"}, "no permission"),
    ],
)
def test_a_server_that_knows_its_users_refuses(
    seaweedfs: Bucket, options: dict[str, str], says: str
) -> None:
    """Wrong keys and a user who may only read are told apart, and nothing secret is said."""
    with opened(seaweedfs, **options) as store:
        with pytest.raises(StorageError, match=says) as caught:
            store.put_if_absent("k", b"x")
        assert not isinstance(caught.value, UnknownOutcomeError)
        assert "secret" not in f"{caught.value}{store!r}"


def test_a_server_that_is_not_there_is_unreachable(bucket: Bucket) -> None:
    """Nobody listens: nothing was sent, so a creation is known not to be there."""
    (port,) = free_ports(1)
    with opened(bucket, endpoint_url=f"http://127.0.0.1:{port}") as store:
        for call in (lambda: store.put_if_absent("k", b"x"), lambda: store.get("k")):
            with pytest.raises(StorageError, match=r"cannot be reached.*attempts=7") as caught:
                call()
            assert type(caught.value) is StorageError


def test_without_credentials_nothing_is_sent(moto: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """When neither options nor environment nor profiles have credentials, the message says so."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with fault_proxy(moto.endpoint) as proxy:
        store = open_store(moto.fresh(), {"endpoint_url": proxy.url})
        with pytest.raises(StorageError, match="no credentials were found"):
            store.get("k")
        store.close()
        missing = open_store(moto.fresh(), {"endpoint_url": proxy.url, "profile": "nobody"})
        with pytest.raises(StorageError, match="no credentials were found"):
            missing.get("k")
        missing.close()

    assert proxy.requests == []


def test_the_environment_says_where_and_who(moto: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_* variables are used where storage_options are silent."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = open_store(moto.fresh())
    store.put_if_absent("k", b"x")

    assert store.get("k") == b"x"
    store.close()


@pytest.mark.parametrize("named_by", ["option", "environment"])
def test_a_profile_says_where_and_who(
    moto: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named_by: str
) -> None:
    """Credentials and endpoint of a profile are used, named in `storage_options` or AWS_PROFILE."""
    lines = {
        "aws_access_key_id": "from-a-profile",
        "aws_secret_access_key": SECRET,
        "endpoint_url": moto.endpoint,
        "region": "us-east-1",
    }
    config = tmp_path / "config"
    settings = (f"{name} = {value}" for name, value in lines.items())
    config.write_text("\n".join(["[profile lakes]", *settings]))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    if named_by == "environment":
        monkeypatch.setenv("AWS_PROFILE", "lakes")
    store = open_store(moto.fresh(), {"profile": "lakes"} if named_by == "option" else {})

    store.put_if_absent("a", b"x")
    assert store.get("a") == b"x"
    store.close()


def test_the_emulator_of_the_environment_is_used(
    fake_gcs: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STORAGE_EMULATOR_HOST says where, and no credentials are looked for."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake_gcs.endpoint)
    store = open_store(fake_gcs.fresh())
    store.put_if_absent("k", b"x")

    assert store.get("k") == b"x"
    store.close()


def test_nothing_secret_is_logged(
    moto: Bucket, fake_gcs: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither our logs nor those of the clients we call show a secret or content."""
    caplog.set_level(logging.DEBUG, "lakestore")
    caplog.set_level(logging.DEBUG, "s3fs")
    caplog.set_level(logging.DEBUG, "gcsfs")
    for bucket in (moto, fake_gcs):
        with opened(bucket) as store:
            store.put_if_absent("k", b"the-content")
            with pytest.raises(AlreadyExistsError):
                store.put_if_absent("k", b"the-content")
            assert SECRET not in f"{store!r}{vars(store)}"

    assert SECRET not in caplog.text
    assert "the-content" not in caplog.text
