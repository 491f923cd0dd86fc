"""The store contract, run on every store there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestore.storage import CountingStore, LocalStore, MemoryStore, Metrics, ObjectStore
from tests.contracts.store_contract import StoreContract


class TestLocalStore(StoreContract):
    """A folder."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        """An empty folder, which is not there yet."""
        return LocalStore(tmp_path / "lake")


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
