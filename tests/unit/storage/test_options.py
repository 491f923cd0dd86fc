"""Storage options that no client takes are refused by name, before anything is asked of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakestore.errors import InputError
from lakestore.storage import known_options, open_store

SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("s3://bucket", {"endpoint_url": "localhost:9"}, "endpoint_url"),
        ("s3://bucket", {"endpoint_url": "notaurl"}, "endpoint_url"),
        ("s3://bucket", {"endpoint_url": f"http://me:{SECRET}@host"}, "endpoint_url"),
        ("s3://bucket", {"endpoint_url": "http://[::1"}, "endpoint_url"),
        ("gs://bucket", {"endpoint_url": "ftp://host"}, "endpoint_url"),
        ("s3://bucket", {"key": f"{SECRET}\n"}, "key"),
        ("s3://bucket", {"secret": ""}, "secret"),
        ("s3://bucket", {"region": "x y"}, "region"),
        ("gs://bucket", {"token": "/nope/there.json"}, "token"),
    ],
)
@pytest.mark.parametrize("client", ["fsspec", "obstore"])
def test_what_cannot_be_right_is_refused(
    url: str, options: dict[str, Any], named: str, client: Any
) -> None:
    """The error names the option and what it takes, and shows no value."""
    if client == "obstore" and url.startswith("gs:"):
        pytest.skip("obstore is for s3:// only")
    with pytest.raises(InputError, match=rf"'{named}' takes ") as caught:
        open_store(url, options, client=client)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("token", ["anon", "google_default", {"type": "service_account"}])
def test_a_token_may_be_what_gcsfs_takes(token: object, tmp_path: Path) -> None:
    """Names of ways to get one, credentials, and files that are there, pass as they are."""
    assert known_options("gs", {"token": token}) == {"token": token}
    file = tmp_path / "credentials.json"
    file.write_text("{}")
    assert known_options("gs", {"token": str(file)}) == {"token": str(file)}


@pytest.mark.parametrize("name", ["client_kwargs", "config_kwargs"])
def test_what_only_the_client_can_refuse_is_an_input_error(name: str) -> None:
    """Options within options are the client's: what it refuses is told at once, not tried again."""
    options = {"key": "k", "secret": SECRET, "region": "us-east-1", name: {"bogus": 1}}
    with pytest.raises(InputError, match="storage options") as caught:
        open_store("s3://bucket/x", options).get("k")
    assert SECRET not in str(caught.value)
