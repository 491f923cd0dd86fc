"""Why a bucket refuses, said once and clearly; and who asks it, and where."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lakestore.errors import (
    AlreadyExistsError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.storage import (
    ClientName,
    Metrics,
    RetryingStore,
    open_store,
)
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import Fault, fault_proxy
from tests.support.faulty_bucket import Parts
from tests.support.servers import SECRET, Bucket, free_ports


@pytest.fixture(params=["moto", "fake_gcs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each kind."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


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
