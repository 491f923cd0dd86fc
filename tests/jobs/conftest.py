"""An aging lake of its own for each test, in memory and in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestore.storage import LocalStore, MemoryStore, ObjectStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock


@pytest.fixture(params=["memory", "folder"])
def aging(request: pytest.FixtureRequest, tmp_path: Path) -> AgingLake:
    """An empty lake."""
    clock = ManualClock()
    store: ObjectStore = (
        MemoryStore(clock=clock) if request.param == "memory" else LocalStore(tmp_path / "lake")
    )
    return AgingLake(store, clock)
