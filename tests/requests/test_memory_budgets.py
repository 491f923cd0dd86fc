"""How many requests each operation of memory makes: what users of a bucket pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakestore import Lake, LakeMemoryService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.jobs import compact, sweep
from lakestore.storage import LocalStore
from tests.contracts.building import ANA, BEN
from tests.contracts.memory_building import event, fact, session
from tests.support.clocks import ManualClock

EVENTS = [event(f"e{number}", f"tea {number}") for number in range(4)]


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    """Open one more process's service, with nothing known from the others."""
    with ExitStack() as lakes:
        yield (
            lambda: (
                LakeMemoryService(
                    lakes.enter_context(Lake(LocalStore(tmp_path / "lake"), clock=clock))
                ).sync
            )
        )


@contextmanager
def requests_of(service: SyncMemoryService) -> Iterator[dict[str, int]]:
    """Yield a dictionary that holds, after the block, the requests made in it, by kind."""
    before = service.lake.metrics.requests
    made: dict[str, int] = {}
    yield made
    made.update(service.lake.metrics.requests_since(before))


def warm(service: SyncMemoryService) -> SyncMemoryService:
    """Return a service that knows what there is, and the newest manifest."""
    service.add_session_to_memory(session(*EVENTS[:2]))
    service.search_memory(**ANA, query="tea")
    return service


def test_search(opened: Any) -> None:
    """A warm search lists the user's entries and the app's; one scope alone is one listing."""
    service = warm(opened())
    with requests_of(service) as made:
        assert len(service.search_memory(**ANA, query="tea").memories) == 2
    assert made == {"LIST": 2}
    for scope in ("user", "app"):
        with requests_of(service) as made:
            service.search_memory(**ANA, query="tea", scope=scope)
        assert made == {"LIST": 1}


def test_search_reads_what_is_new(opened: Any) -> None:
    """A search reads each entry that others have added since, once."""
    service, other = warm(opened()), opened()
    for number in range(3):
        other.add_memory(**ANA, memories=[fact(f"tea {number}")])
    other.add_memory(**ANA, memories=[fact("tea")], scope="app")
    with requests_of(service) as made:
        assert len(service.search_memory(**ANA, query="tea").memories) == 6
    assert made == {"LIST": 2, "GET": 4}
    with requests_of(service) as made:
        service.search_memory(**ANA, query="tea")
    assert made == {"LIST": 2}


def test_an_index_larger_than_the_cache(tmp_path: Path, clock: ManualClock) -> None:
    """It is kept beside the app's, which each search looks at, too: neither is read again."""
    with Lake(LocalStore(tmp_path / "lake"), clock=clock, cache_bytes=10_000) as lake:
        service = warm(LakeMemoryService(lake).sync)
        service.add_memory(**ANA, memories=[fact(f"{'much ' * 5_000}tea")])
        service.add_memory(**ANA, memories=[fact("tea")], scope="app")
        compact(lake)
        sweep(lake, grace=0)
        service.search_memory(**ANA, query="tea")
        with requests_of(service) as made:
            assert len(service.search_memory(**ANA, query="tea").memories) == 4
    assert made == {"LIST": 2}


def test_add_session(opened: Any) -> None:
    """What is known costs a listing; what is new one PUT more, however many events there are."""
    service = warm(opened())
    with requests_of(service) as made:
        service.add_session_to_memory(session(*EVENTS[:2]))
    assert made == {"LIST": 1}
    with requests_of(service) as made:
        service.add_session_to_memory(session(*EVENTS))
    assert made == {"LIST": 1, "PUT": 1}
    with requests_of(service) as made:
        service.add_session_to_memory(session(event("e9")))
    assert made == {}


def test_add_memory(opened: Any) -> None:
    """Facts of one call are one PUT."""
    service = warm(opened())
    with requests_of(service) as made:
        service.add_memory(**ANA, memories=[fact("one"), fact("two")])
    assert made == {"LIST": 1, "PUT": 1}


def test_delete(opened: Any) -> None:
    """Deleting is two listings, as the id may be the app's, and one PUT where there is any."""
    service = warm(opened())
    with requests_of(service) as made:
        service.delete_memory(**ANA, memory_id="e1")
    assert made == {"LIST": 2, "PUT": 1}
    with requests_of(service) as made:
        service.delete_memory(**ANA, memory_id="e1")
    assert made == {"LIST": 2}
    with requests_of(service) as made:
        service.delete_memory(**ANA, memory_id="")
    assert made == {}
    with requests_of(service) as made:
        service.delete_session_memory(**ANA, session_id="s1")
    assert made == {"LIST": 2, "PUT": 1}


def test_first_search_of_a_process(opened: Any, clock: ManualClock) -> None:
    """Of a lake that is packed it takes the listings, the manifest, and what tells of memory."""
    service = warm(opened())
    service.add_session_to_memory(session(*EVENTS, scope=BEN), scope="app")
    compact(service.lake)
    clock.advance(100_000)
    sweep(service.lake)
    cold = opened()
    with requests_of(cold) as made:
        assert len(cold.search_memory(**ANA, query="tea").memories) == 6
    # The manifest and, of the names of packed entries, one run, and one of memories for each scope.
    assert made == {"LIST": 3, "GET": 4}
    with requests_of(cold) as made:
        cold.search_memory(**BEN, query="tea")
    assert made == {"LIST": 2, "GET": 1}


# R019
def test_many_small_entries(opened: Any, clock: ManualClock) -> None:
    """What was added bit by bit is read bit by bit, until it is packed."""
    service = opened()
    for number in range(60):
        service.add_memory(**ANA, memories=[fact(f"tea {number}", f"f{number}")])
    cold = opened()
    with requests_of(cold) as made:
        before = cold.search_memory(**ANA, query="tea", limit=100).memories
    assert made == {"LIST": 3, "GET": 60}
    compact(service.lake)
    for swept in (False, True):
        if swept:
            clock.advance(100_000)
            sweep(service.lake)
        cold = opened()
        with requests_of(cold) as made:
            assert cold.search_memory(**ANA, query="tea", limit=100).memories == before
        assert made == {"LIST": 3, "GET": 4}


def test_history(opened: Any) -> None:
    """Asking where a memory came from reads the scope anew."""
    service = warm(opened())
    with requests_of(service) as made:
        assert service.get_memory_history(**ANA, memory_id="e1")
    assert made["LIST"] == 2
    assert made["GET"] == 1
