"""Lakes of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestore.storage import LocalStore, MemoryStore, ObjectStore
from tests.support.aging import AgingLake
from tests.support.archives import Site
from tests.support.clocks import ManualClock
from tests.support.rebuilding import Remembering


@pytest.fixture
def site() -> Iterator[Site]:
    """One lake in memory, one clock."""
    made = Site()
    yield made
    made.close()


@pytest.fixture(params=["memory", "folder"])
def aging(request: pytest.FixtureRequest, tmp_path: Path) -> AgingLake:
    """An empty lake that grows old, in memory and in a folder."""
    clock = ManualClock()
    store: ObjectStore = (
        MemoryStore(clock=clock) if request.param == "memory" else LocalStore(tmp_path / "lake")
    )
    return AgingLake(store, clock)


@pytest.fixture
def kept() -> Iterator[Remembering]:
    """Two users, two remembered sessions each."""
    made = Remembering()
    made.fill()
    yield made
    made.close()
