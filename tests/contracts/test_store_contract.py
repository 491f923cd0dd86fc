"""The store contract, run on every store there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestore.clock import SystemClock, new_token
from lakestore.storage import (
    CountingStore,
    LocalStore,
    MemoryStore,
    Metrics,
    ObjectStore,
    RetryingStore,
    open_store,
)
from tests.contracts.store_contract import StoreContract
from tests.support.servers import Bucket


class TestLocalStore(StoreContract):
    """A folder."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        """An empty folder, which is not there yet."""
        return LocalStore(tmp_path / "lake")


class BucketContract(StoreContract):
    """A place of its own in a bucket, through fsspec."""

    @pytest.fixture
    def bucket(self) -> Bucket:
        """The bucket; a class says which."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, bucket: Bucket) -> Iterator[ObjectStore]:
        """An empty prefix."""
        store = open_store(bucket.fresh(), bucket.storage_options)
        yield store
        store.close()


class TestMoto(BucketContract):
    """S3, as moto has it."""

    @pytest.fixture
    def bucket(self, moto: Bucket) -> Bucket:
        return moto


class TestSeaweedFS(BucketContract):
    """S3, as SeaweedFS has it: by folders, and slow when many write to one name."""

    races = 2

    @pytest.fixture
    def bucket(self, seaweedfs: Bucket) -> Bucket:
        return seaweedfs


class TestFakeGcs(BucketContract):
    """Google Cloud Storage, as fake-gcs-server has it."""

    @pytest.fixture
    def bucket(self, fake_gcs: Bucket) -> Bucket:
        return fake_gcs


@pytest.mark.ceph
class TestCeph(BucketContract):
    """S3, as Ceph has it."""

    @pytest.fixture
    def bucket(self, ceph: Bucket) -> Bucket:
        return ceph


class ObstoreContract(BucketContract):
    """A place of its own in a bucket, through obstore."""

    @pytest.fixture
    def store(self, bucket: Bucket) -> Iterator[ObjectStore]:
        """An empty prefix."""
        store = open_store(bucket.fresh(), bucket.storage_options, client="obstore")
        yield store
        store.close()


class TestObstoreMoto(ObstoreContract):
    """S3, as moto has it."""

    @pytest.fixture
    def bucket(self, moto: Bucket) -> Bucket:
        return moto


class TestObstoreSeaweedFS(ObstoreContract):
    """S3, as SeaweedFS has it."""

    races = 2

    @pytest.fixture
    def bucket(self, seaweedfs: Bucket) -> Bucket:
        return seaweedfs


@pytest.mark.ceph
class TestObstoreCeph(ObstoreContract):
    """S3, as Ceph has it."""

    @pytest.fixture
    def bucket(self, ceph: Bucket) -> Bucket:
        return ceph


class TestRetryingStore(StoreContract):
    """A folder around which requests are repeated."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        """An empty folder."""
        return RetryingStore(LocalStore(tmp_path), Metrics(), SystemClock(), new_token)


class TestMemoryStore(StoreContract):
    """This process's memory."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        """A store of its own."""
        return MemoryStore("test")


class TestCountingStore(StoreContract):
    """A folder whose requests are counted."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        """An empty folder."""
        return CountingStore(LocalStore(tmp_path), Metrics())
