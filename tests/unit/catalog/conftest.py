"""A lake in memory and a catalog that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakestore.catalog import Catalog
from lakestore.log.marker import Limits
from lakestore.storage import CountingStore, MemoryStore, Metrics, ObjectStore, Pool
from tests.support.clocks import ManualClock

Follow = Callable[[ObjectStore], Catalog]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def metrics() -> Metrics:
    """What the catalogs of `follow` ask of their stores."""
    return Metrics()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """The lake."""
    return MemoryStore(clock=clock)


@pytest.fixture
def follow(clock: ManualClock, metrics: Metrics) -> Iterator[Follow]:
    """Make catalogs of any store, which are closed in the end."""
    pool = Pool(4, "test")
    made = []

    def catalog(store: ObjectStore) -> Catalog:
        made.append(Catalog(CountingStore(store, metrics), pool, clock, metrics, Limits()))
        return made[-1]

    yield catalog
    for one in made:
        one.close()
    pool.close()


@pytest.fixture
def catalog(follow: Follow, store: MemoryStore) -> Catalog:
    """The catalog of `store`."""
    return follow(store)
