"""The contract of forgetting: what was deleted is gone, for good, and nothing else is."""

from __future__ import annotations

from google.adk.memory.base_memory_service import BaseMemoryService

from tests.contracts.building import ANA, ANA_AT_BANK, BEN
from tests.contracts.memory_building import event, found, session

THREE = [event("e1", "red tea"), event("e2", "green tea"), event("e3", "black tea")]


class MemoryDeleteContract:
    """What `delete_memory` promises."""

    async def test_deleted_is_not_found(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """The memory of that id is gone, for a handle that had it too, and the others stay."""
        await memories.add_session_to_memory(session(*THREE))
        assert await found(elsewhere, "tea") == ["e1", "e2", "e3"]
        await memories.delete_memory(**ANA, memory_id="e2")

        for service in (memories, elsewhere):
            assert await found(service, "tea") == ["e1", "e3"]
            assert await found(service, "green") == []

    # R010
    async def test_deleted_does_not_come_back(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Adding the session, or the event alone, again from anywhere brings nothing back."""
        await memories.add_session_to_memory(session(*THREE))
        await memories.delete_memory(**ANA, memory_id="e2")
        for service in (memories, elsewhere):
            await service.add_session_to_memory(session(*THREE))
            await service.add_events_to_memory(**ANA, events=THREE, session_id="s1")

        for service in (memories, elsewhere):
            assert await found(service, "tea") == ["e1", "e3"]

    # R010
    async def test_deleted_does_not_come_back_under_another_session(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """An id that was deleted is deleted in all sessions of the user, later ones too."""
        for name in ("s1", "s2"):
            await memories.add_session_to_memory(session(*THREE, name=name))
        await memories.delete_memory(**ANA, memory_id="e2")
        await elsewhere.add_session_to_memory(session(*THREE, name="s3"))

        assert await found(elsewhere, "green") == []
        assert await found(elsewhere, "red") == ["e1"] * 3

    # R050
    async def test_deleting_is_of_one_user_of_one_app(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """The same id of another user, or app, stays, and may be added again."""
        for scope in (ANA, BEN, ANA_AT_BANK):
            await memories.add_session_to_memory(session(*THREE, scope=scope))
        await memories.delete_memory(**ANA, memory_id="e2")
        for scope in (BEN, ANA_AT_BANK):
            await memories.add_session_to_memory(session(*THREE, scope=scope))

            assert await found(elsewhere, "tea", scope) == ["e1", "e2", "e3"]
        assert await found(elsewhere, "tea") == ["e1", "e3"]

    async def test_unknown_id_is_no_matter(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Deleting what is not there does nothing, so that it may be added later; no id, too."""
        for name in ("e1", "", None):
            await memories.delete_memory(**ANA, memory_id=name)
        await memories.add_session_to_memory(session(*THREE))
        for name in ("e9", "", None):
            await memories.delete_memory(**ANA, memory_id=name)

        assert await found(elsewhere, "tea") == ["e1", "e2", "e3"]

    async def test_deleting_twice_is_deleting(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A second time, from elsewhere, changes nothing."""
        await memories.add_session_to_memory(session(*THREE))
        for service in (memories, elsewhere, memories):
            await service.delete_memory(**ANA, memory_id="e1")

        assert await found(elsewhere, "tea") == ["e2", "e3"]

    async def test_order_stays_when_the_first_is_deleted(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A session keeps its turn among equals without the memory that it began with."""
        await memories.add_session_to_memory(session(event("a1", "tea"), name="a"))
        await memories.add_session_to_memory(session(event("b1", "tea"), name="b"))
        await memories.delete_memory(**ANA, memory_id="a1")
        await memories.add_session_to_memory(session(event("a2", "tea"), name="a"))

        assert await found(elsewhere, "tea") == ["a2", "b1"]

    async def test_all_of_a_session_can_be_deleted(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A session of which all was deleted remembers what is said in it later."""
        await memories.add_session_to_memory(session(*THREE))
        for each in THREE:
            await memories.delete_memory(**ANA, memory_id=each.id)
        assert await found(elsewhere, "tea") == []
        await memories.add_session_to_memory(session(*THREE, event("e4", "mint tea")))

        assert await found(elsewhere, "tea") == ["e4"]
