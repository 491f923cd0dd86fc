"""Addresses that are signed: by whom they can be, and that no request is needed for it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakestore.errors import InputError, StorageError
from lakestore.storage import ClientName, ReadOnlyStore, open_store
from tests.support.servers import Bucket


@pytest.fixture(scope="module")
def service_account() -> dict[str, Any]:
    """Credentials as Google hands them out, with a private key that was drawn here."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "project_id": "tests",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "lake@tests.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }


def test_google_signs_with_a_service_account(
    fake_gcs: Bucket, service_account: dict[str, Any], tmp_path: Path
) -> None:
    """Its key signs offline, from a file too; the address leads to the payload."""
    url = fake_gcs.fresh()
    store = open_store(url, fake_gcs.storage_options)
    store.upload("t/März 1.png", [b"bild"], content_type="image/png")
    store.close()
    file = tmp_path / "key.json"
    file.write_text(json.dumps(service_account))
    for token in (service_account, str(file)):
        signing = open_store(url, {"token": token, "endpoint_url": fake_gcs.endpoint})
        address = signing.sign("t/März 1.png", 90)
        asked = parse_qs(urlsplit(address).query)
        assert asked["X-Goog-Algorithm"] == ["GOOG4-RSA-SHA256"]
        assert asked["X-Goog-Expires"] == ["90"]
        # The server checks no signature; the way to the object is right.
        with urllib.request.urlopen(address, timeout=20) as reply:
            assert reply.read() == b"bild"
            assert reply.headers["Content-Type"] == "image/png"
        signing.close()


@pytest.mark.parametrize("client", ["fsspec", "obstore"])
def test_signing_asks_nobody(client: ClientName) -> None:
    """Where nobody listens an address is signed all the same, also of a lake that is read."""
    options = {"key": "me", "secret": "hidden", "endpoint_url": "http://127.0.0.1:9"}
    options |= {"region": "eu-central-1"}
    store = open_store("s3://lakes/here", options, client=client)
    address = ReadOnlyStore(store).sign("t/a.png", 60.9)

    asked = parse_qs(urlsplit(address).query)
    assert urlsplit(address).path == "/lakes/here/t/a.png"
    assert asked["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert asked["X-Amz-Expires"] == ["60"]
    assert "/eu-central-1/s3/" in asked["X-Amz-Credential"][0]
    assert "hidden" not in address
    store.close()


@pytest.mark.parametrize("client", ["fsspec", "obstore"])
def test_nothing_signs_without_credentials(client: ClientName) -> None:
    """Anonymous access cannot sign, and the error says why."""
    options = {"anon": True, "region": "eu-central-1"}
    store = open_store("s3://lakes/here", options, client=client)
    with pytest.raises(InputError, match="without credentials"):
        store.sign("t/a.png", 60)
    store.close()


def test_credentials_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where none are found, the error says where to put them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store("s3://lakes/here", {"region": "eu-central-1"})
    with pytest.raises(StorageError, match="no credentials were found"):
        store.sign("t/a.png", 60)
    store.close()
