"""Stores that cannot hold a lake are refused when it is opened, and the cause is named."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.errors import InputError, NotFoundError, ReadOnlyError, UnsupportedStoreError
from lakestore.log.keys import SessionKey
from tests.support import servers
from tests.support.histories import ids, said
from tests.support.servers import Bucket

KEY = SessionKey("app", "user", "s")


@pytest.mark.parametrize("server", [servers.rclone, servers.gcp_emulator])
def test_a_server_that_ignores_the_condition_is_refused(
    tmp_path: Path, server: Callable[[Path], AbstractContextManager[Bucket]]
) -> None:
    """A lake needs create-only writes; a server that takes the second one is found out."""
    refused = pytest.raises(UnsupportedStoreError, match="created twice")
    with server(tmp_path) as bucket, refused:
        Lake.open(bucket.fresh(), storage_options=bucket.storage_options)


def test_other_protocols_are_refused_by_name() -> None:
    """Nothing else is written to, whatever fsspec could do."""
    for protocol in ("az", "abfs", "sftp", "ftp", "http", "hf", "zip", "nonsense"):
        with pytest.raises(UnsupportedStoreError, match=f"{protocol}://"):
            Lake.open(f"{protocol}://some/place")


@pytest.mark.parametrize("protocol", ["http", "https", "ftp", "nonsense", "simplecache"])
def test_what_cannot_list_is_not_read_either(protocol: str) -> None:
    """A lake is found by listing, so what lists nothing reliable is refused with its reason."""
    with pytest.raises(UnsupportedStoreError, match=protocol):
        Lake.open(f"{protocol}://user:hidden@some/place", read_only=True)


def test_an_archive_can_be_read(tmp_path: Path) -> None:
    """Through any file system of fsspec that lists and reads, a lake can be opened for reading."""
    with Lake.open(tmp_path / "lake") as lake:
        marker = lake.sessions.create(KEY, {"a": 1}, generated=False).marker
        lake.sessions.append(KEY, marker, [said("e1")])
    archive = tmp_path / "lake.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted((tmp_path / "lake").rglob("*")):
            packed.write(path, path.relative_to(tmp_path / "lake").as_posix())

    with Lake.open(f"zip://::file://{archive}", read_only=True) as lake:
        found = lake.sessions.read(KEY)
        assert found is not None
        assert ids(found[0]) == ["e1"]
        assert lake.sql("select count(*) from events").fetchall() == [(1,)]
        with pytest.raises(ReadOnlyError):
            lake.sessions.append(KEY, found[0].marker, [said("e2")])


def test_reading_what_is_no_lake_says_so(tmp_path: Path, moto: Bucket) -> None:
    """A read-only lake must be there, in a bucket as anywhere."""
    for url, options in ((f"local://{tmp_path}", None), (moto.fresh(), moto.storage_options)):
        with pytest.raises(NotFoundError, match="no lake here"):
            Lake.open(url, storage_options=options, read_only=True)


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "gs://?x",
        "s3://key:hidden@bucket/prefix",
        "s3://bucket:9000/prefix",
        "s3://bucket/a/../b",
        "s3://bucket/./b",
        "s3://bucket//a",
        "s3://bucket/a//b",
        "s3://bucket/a?region=hidden",
        "gs://bucket/a#hidden",
        "s3://bucket/a\nb",
        "s3://b",
        "s3://a bucket/x",
    ],
)
def test_a_url_that_means_no_place_is_refused(url: str) -> None:
    """What is doubtful in a URL of a bucket is refused before a request, secrets unquoted."""
    with pytest.raises(InputError) as caught:
        Lake.open(url)
    assert "hidden" not in str(caught.value)


def test_directory_buckets_are_refused() -> None:
    """They list in no order."""
    with pytest.raises(UnsupportedStoreError, match="no order"):
        Lake.open("s3://lakes--use1-az4--x-s3/prefix")


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("s3://bucket", {"regoin": "hidden"}, r"regoin.*known=.*region"),
        ("gs://bucket", {"key": "hidden"}, r"key.*known=.*token"),
        ("s3://bucket", {"anon": "perhaps-hidden"}, "'anon' takes true or false"),
        ("s3://bucket", {"client_kwargs": "hidden"}, "dictionary"),
        ("s3://bucket", {"key": 7}, "'key' takes a text"),
        ("gs://bucket", {"requests_timeout": "hidden"}, "seconds"),
    ],
)
def test_options_are_checked(url: str, options: dict[str, object], says: str) -> None:
    """An option that is not known, or of another type, is refused before a request."""
    with pytest.raises(InputError, match=says) as caught:
        Lake.open(url, storage_options=options)
    assert "hidden" not in str(caught.value)
