"""Memory where something goes wrong: lost replies, damaged entries, forks, lakes to read only."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Any

import pytest
from google.genai import types

from lakestore import Lake, LakeMemoryService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.errors import InputError, ReadOnlyError, StorageError, UnknownOutcomeError
from lakestore.log.keys import MEMORY_ENTRIES
from lakestore.storage import MemoryStore, ObjectStore
from lakestore.tables import memory
from tests.contracts.building import ANA
from tests.contracts.memory_building import event, fact, session
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth

TALK = session(event("e1", "green tea"), event("e2", "black tea"))


@pytest.fixture
def store() -> MemoryStore:
    """The store behind those that fail."""
    return MemoryStore()


def memories(store: ObjectStore, **options: Any) -> SyncMemoryService:
    """Return the service of a new process."""
    return LakeMemoryService(Lake(store, **options)).sync


def found(service: SyncMemoryService, query: str = "tea") -> list[str | None]:
    """Return the ids of what is found."""
    return [one.id for one in service.search_memory(**ANA, query=query).memories]


def test_lost_reply_is_found_out(store: MemoryStore) -> None:
    """An add and a delete whose replies are lost are sent again by the service itself, once."""
    lost = LostReplyStore(store, Nth("put", holding=MEMORY_ENTRIES, nth=1, times=1), "landed")
    service = memories(lost)
    service.add_session_to_memory(TALK)
    assert found(service) == found(memories(store)) == ["e1", "e2"]
    assert len([*store.names(MEMORY_ENTRIES)]) == 1


def test_unknown_outcome_may_be_asked_again(store: MemoryStore) -> None:
    """Adding and deleting again after no reply ever came give one memory, and none."""
    puts = Nth("put", holding=MEMORY_ENTRIES, times=100)
    service = memories(LostReplyStore(store, puts, "dropped"))
    with pytest.raises(UnknownOutcomeError):
        service.add_session_to_memory(TALK)
    puts.times = 0
    service.add_session_to_memory(TALK)
    assert found(service) == found(memories(store)) == ["e1", "e2"]
    puts.nth, puts.times = puts.met + 1, 100
    with pytest.raises(UnknownOutcomeError):
        service.delete_memory(**ANA, memory_id="e1")
    puts.times = 0
    service.delete_memory(**ANA, memory_id="e1")
    assert found(service) == found(memories(store)) == ["e2"]


def test_failed_add_adds_nothing(store: MemoryStore) -> None:
    """What the store refused is found by nobody, and can be added later."""
    failing = Nth("put", holding=MEMORY_ENTRIES)
    service = memories(FailingStore(store, failing))
    with pytest.raises(StorageError):
        service.add_session_to_memory(TALK)
    assert found(service) == found(memories(store)) == []
    service.add_session_to_memory(TALK)
    assert found(service) == found(memories(store)) == ["e1", "e2"]


def test_failed_search_leaves_the_next_as_it_should_be(store: MemoryStore) -> None:
    """A search that cannot read raises, and the next one misses nothing."""
    memories(store).add_session_to_memory(TALK)
    failing = Nth("get", holding=MEMORY_ENTRIES)
    service = memories(FailingStore(store, failing))
    with pytest.raises(StorageError):
        found(service)
    assert found(service) == ["e1", "e2"]


def test_damaged_entry_takes_no_other_along(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """An entry that is no Parquet is passed over, told of once by its key, and others are found."""
    service = memories(store)
    service.add_session_to_memory(TALK)
    (key,) = store.names(MEMORY_ENTRIES)
    service.add_memory(**ANA, memories=[fact("mint tea", "mint")])
    store.delete(key)
    store.put_if_absent(key, b"velvet")
    other = memories(store)
    with caplog.at_level(logging.ERROR):
        assert found(other) == found(other) == ["mint"]
    (record,) = caplog.records
    assert key in record.getMessage()
    assert "velvet" not in caplog.text
    service = memories(store)
    service.add_memory(**ANA, memories=[fact("more tea", "more")])
    service.delete_memory(**ANA, memory_id="mint")
    assert found(other) == ["more"]


ODD_VALUES: list[tuple[dict[str, Any], Any]] = [
    (
        {"content": '{"parts":[{"text":"tea","ofTomorrow":1}],"role":"user","new":{}}'},
        types.Content(role="user", parts=[types.Part(text="tea")]),
    ),
    ({"content": '{"parts":"none"}'}, types.Content(parts=[types.Part(text="odd tea")])),
    ({"content": "no JSON"}, types.Content(parts=[types.Part(text="odd tea")])),
    ({"content": "[" * 5_000}, types.Content(parts=[types.Part(text="odd tea")])),
    ({"custom_metadata": "[1]"}, types.Content(parts=[types.Part(text="odd tea")])),
]


@pytest.mark.parametrize(("odd", "content"), ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_memory_that_this_adk_cannot_read_takes_no_other_along(
    store: MemoryStore, odd: dict[str, Any], content: types.Content
) -> None:
    """What a newer ADK, or a foreign writer, has stored is found with what can be read of it."""
    memories(store).add_memory(**ANA, memories=[fact("odd tea", "odd"), fact("tea", "plain")])
    (key,) = store.names(MEMORY_ENTRIES)
    first, *others = memory.decode(store.get(key))
    store.delete(key)
    store.put_if_absent(key, memory.encode([replace(first, **odd), *others]))

    found, plain = memories(store).search_memory(**ANA, query="tea").memories
    assert (found.id, plain.id) == ("odd", "plain")
    assert found.content == content
    assert found.custom_metadata == {}


def test_lake_to_read_only_is_searched_alone(store: MemoryStore) -> None:
    """A lake that is open for reading finds, tells histories, and refuses all else."""
    memories(store).add_session_to_memory(TALK)
    service = memories(store, read_only=True)
    assert found(service) == ["e1", "e2"]
    assert len(service.get_memory_history(**ANA, memory_id="e1")) == 1
    for refused in (
        lambda: service.add_session_to_memory(TALK),
        lambda: service.add_events_to_memory(**ANA, events=TALK.events),
        lambda: service.add_memory(**ANA, memories=[fact("tea")]),
        lambda: service.delete_memory(**ANA, memory_id="e1"),
        lambda: service.delete_session_memory(**ANA, session_id="s1"),
        lambda: service.delete_user_memory(**ANA),
    ):
        with pytest.raises(ReadOnlyError):
            refused()
    assert found(service) == ["e1", "e2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_process_goes_on(tmp_path: Any) -> None:
    """A child finds and adds with the service of its parent, and both see what the other adds."""
    service = LakeMemoryService(Lake.open(tmp_path / "lake")).sync
    service.add_session_to_memory(TALK)
    assert found(service) == ["e1", "e2"]
    child = os.fork()
    if not child:
        code = 1
        try:
            service.add_memory(**ANA, memories=[fact("a child's tea", "child")])
            code = 0 if found(service) == ["e1", "e2", "child"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    service.add_memory(**ANA, memories=[fact("a parent's tea", "parent")])
    assert found(service) == ["e1", "e2", "child", "parent"]


async def test_closed_lake_refuses(store: MemoryStore) -> None:
    """A service of a closed lake says so."""
    lake = Lake(store)
    service = LakeMemoryService(lake)
    lake.close()
    with pytest.raises(InputError, match="closed"):
        await service.search_memory(**ANA, query="tea")
