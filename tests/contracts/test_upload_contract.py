"""The contract of uploads, run on every store there is."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from lakestore.errors import InputError
from lakestore.storage import PART, LocalStore, MemoryStore, ObjectStore, open_store
from tests.contracts.upload_contract import PNG, UploadContract
from tests.support.server_side import content_type, open_uploads
from tests.support.servers import Bucket


class TestMemoryStore(UploadContract):
    """This process's memory."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        """A store of its own."""
        return MemoryStore("test")

    def parts_left(self, store: ObjectStore) -> list[Any]:
        return []

    def test_nothing_is_signed(self, store: ObjectStore) -> None:
        """Memory has no address, and says so."""
        with pytest.raises(InputError, match="only buckets sign"):
            store.sign("t/a", 60)


class TestLocalStore(UploadContract):
    """A folder."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        """An empty folder, whose name fsspec might take for more than a name."""
        return LocalStore(tmp_path / "a lake, 100%[é]")

    def parts_left(self, store: ObjectStore) -> list[Any]:
        aside = Path(store.url, ".tmp")
        return os.listdir(aside) if aside.exists() else []

    def test_nothing_is_signed(self, store: ObjectStore) -> None:
        """A folder has no address, and says so."""
        with pytest.raises(InputError, match="only buckets sign"):
            store.sign("t/a", 60)

    def test_fsspec_opens_the_uri(self, store: ObjectStore) -> None:
        """Whoever may read the folder opens a payload by its URI."""
        store.upload("t/März.txt", [b"inhalt"], content_type="text/plain")

        assert store.uri("t/März.txt") == f"file://{store.url}/t/März.txt"
        with fsspec.open(store.uri("t/März.txt")) as file:
            assert file.read() == b"inhalt"


class BucketContract(UploadContract):
    """A place of its own in a bucket."""

    client: Any = "fsspec"

    @pytest.fixture
    def bucket(self) -> Bucket:
        """The bucket; a class says which."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, bucket: Bucket) -> Iterator[ObjectStore]:
        """An empty prefix."""
        store = open_store(bucket.fresh(), bucket.storage_options, client=self.client)
        yield store
        store.close()

    @pytest.fixture(autouse=True)
    def _note(self, bucket: Bucket) -> None:
        self.server = bucket

    def parts_left(self, store: ObjectStore) -> list[Any]:
        return open_uploads(self.server, store.url)

    @pytest.mark.parametrize("size", [0, 3, PART + 1])
    def test_the_server_knows_the_content_type(
        self, store: ObjectStore, bucket: Bucket, size: int
    ) -> None:
        """Asked by its own API, the server says what the payload was stored as."""
        store.upload("t/März 1.png", [b"x" * size], content_type=PNG)
        store.upload("t/words", [b"x" * size], content_type="text/plain; charset=utf-8")

        assert content_type(bucket, store.uri("t/März 1.png")) == PNG
        assert content_type(bucket, store.uri("t/words")) == "text/plain; charset=utf-8"

    def test_fsspec_opens_the_uri(self, store: ObjectStore, bucket: Bucket) -> None:
        """Whoever may read the bucket opens a payload by its URI."""
        store.upload("t/März.txt", [b"inhalt"], content_type="text/plain")

        with fsspec.open(store.uri("t/März.txt"), **bucket.storage_options) as file:
            assert file.read() == b"inhalt"


class S3Contract(BucketContract):
    """A place of its own in a bucket that speaks S3."""

    def test_anybody_reads_a_signed_address(self, store: ObjectStore) -> None:
        """An address that is signed is fetched without credentials, and not when it is changed."""
        store.upload("t/März.png", [b"bild"], content_type=PNG)
        address = store.sign("t/März.png", 60)

        with urllib.request.urlopen(address, timeout=20) as reply:
            assert reply.read() == b"bild"
            assert reply.headers["Content-Type"] == PNG
        assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in address
        assert "X-Amz-Expires=60" in address
        self.check_changed(address)

    def check_changed(self, address: str) -> None:
        """See that the server looks at the signature."""
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))


class TestMoto(S3Contract):
    """S3, as moto has it, which looks at no signature."""

    @pytest.fixture
    def bucket(self, moto: Bucket) -> Bucket:
        return moto

    def check_changed(self, address: str) -> None:
        pass


class TestSeaweedFS(S3Contract):
    """S3, as SeaweedFS has it."""

    @pytest.fixture
    def bucket(self, seaweedfs: Bucket) -> Bucket:
        return seaweedfs


class TestObstoreMoto(TestMoto):
    """S3, as moto has it, through obstore."""

    client = "obstore"


class TestObstoreSeaweedFS(TestSeaweedFS):
    """S3, as SeaweedFS has it, through obstore."""

    client = "obstore"


@pytest.mark.ceph
class TestCeph(S3Contract):
    """S3, as Ceph has it."""

    @pytest.fixture
    def bucket(self, ceph: Bucket) -> Bucket:
        return ceph


@pytest.mark.ceph
class TestObstoreCeph(TestCeph):
    """S3, as Ceph has it, through obstore."""

    client = "obstore"


class TestFakeGcs(BucketContract):
    """Google Cloud Storage, as fake-gcs-server has it, which lists no uploads."""

    @pytest.fixture
    def bucket(self, fake_gcs: Bucket) -> Bucket:
        return fake_gcs

    def parts_left(self, store: ObjectStore) -> list[Any]:
        return []

    def test_without_a_key_nothing_is_signed(self, store: ObjectStore) -> None:
        """Credentials that are no service account's cannot sign, and the error says whose can."""
        with pytest.raises(InputError, match="service account"):
            store.sign("t/a", 60)
