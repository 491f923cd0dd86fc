"""The contract of adding: what is remembered, once, and how it comes back."""

from __future__ import annotations

import pytest
from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.genai import types

from tests.contracts.building import ANA
from tests.contracts.memory_building import bare, event, found, search, session
from tests.contracts.session_contract_stale import TimeZone

TURNS = [event(f"e{number}", f"turn {number}", at=1000.0 + number) for number in range(9)]
NAMES = [each.id for each in TURNS]


class MemoryAddContract:
    """What `add_session_to_memory` and `add_events_to_memory` promise."""

    # R052
    async def test_session_is_added_after_every_turn(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A session that is added at 3, 6 and 9 events has each event in memory once, in order."""
        for count in (3, 6, 9, 9):
            await memories.add_session_to_memory(session(*TURNS[:count]))
            assert await found(elsewhere, "turn") == NAMES[:count]

    # R052
    async def test_deltas_and_then_all(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Events that were added as deltas are not doubled when their session is added whole."""
        for few in (TURNS[:3], TURNS[2:5], TURNS[5:]):
            await memories.add_events_to_memory(**ANA, events=few, session_id="s1")
        await memories.add_session_to_memory(session(*TURNS))

        assert await found(elsewhere, "turn") == NAMES

    async def test_what_came_first_stays_first(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Adding the whole session after its last events does not move these among equals."""
        await memories.add_events_to_memory(**ANA, events=TURNS[7:], session_id="s1")
        await memories.add_session_to_memory(session(*TURNS))

        assert await found(elsewhere, "turn") == [*NAMES[7:], *NAMES[:7]]

    async def test_nothing_is_dropped_by_adding(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """What was remembered stays when the session that is added has it no more."""
        await memories.add_session_to_memory(session(*TURNS[:6]))
        await memories.add_session_to_memory(session(*TURNS[4:8]))

        assert await found(elsewhere, "turn") == NAMES[:8]

    async def test_event_given_twice_is_one_memory(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Of events of one id in one call the first counts."""
        twice = [event("e1", "red"), event("e1", "red blue"), event("e2", "red")]
        await memories.add_events_to_memory(**ANA, events=twice, session_id="s1")

        assert await found(elsewhere, "red") == ["e1", "e2"]
        assert await found(elsewhere, "blue") == []

    async def test_session_with_an_event_twice_has_it_once(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A session, too, gives one memory for each id."""
        await memories.add_session_to_memory(session(event("e1", "red"), event("e1", "red")))

        assert await found(elsewhere, "red") == ["e1"]

    async def test_changed_event_of_a_session_is_found_by_what_it_says_now(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """An event that says something else when its session is added again says that alone."""
        await memories.add_session_to_memory(session(event("e1", "red"), event("e2", "red")))
        await memories.add_session_to_memory(session(event("e1", "red blue"), event("e2", "red")))

        assert await found(elsewhere, "blue") == ["e1"]
        assert await found(elsewhere, "red") == ["e1", "e2"]

    async def test_changed_event_is_found_by_what_it_says_now(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """The same holds for events that are added alone."""
        for text in ("red", "blue"):
            await memories.add_events_to_memory(**ANA, events=[event("e1", text)], session_id="s1")

        assert await found(elsewhere, "blue") == ["e1"]
        assert await found(elsewhere, "red") == []

    async def test_same_id_in_two_sessions_is_two_memories(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """An id is unique in its session only; events of no session are kept apart from all."""
        for name in ("s1", "s2", None):
            await memories.add_events_to_memory(
                **ANA, events=[event("e1", f"hello {name}")], session_id=name
            )

        assert await found(elsewhere, "hello") == ["e1"] * 3

    # R046 R053
    @pytest.mark.parametrize(
        "odd",
        [
            bare("odd", None),
            bare("odd"),
            bare("odd", types.Part(text="")),
            bare("odd", types.Part(function_call=types.FunctionCall(name="tea", args={}))),
            bare(
                "odd",
                types.Part(function_response=types.FunctionResponse(name="tea", response={})),
            ),
            bare("odd", types.Part(inline_data=types.Blob(data=b"tea", mime_type="image/png"))),
            Event(id="odd", author="agent", error_code="tea"),
        ],
        ids=["none", "empty", "blank", "call", "answer", "image", "error"],
    )
    async def test_event_without_text_is_no_hindrance(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService, odd: Event
    ) -> None:
        """Events that say nothing are passed over, and those around them are found."""
        await memories.add_session_to_memory(session(event("e1", "tea"), odd, event("e2", "tea")))

        assert await found(elsewhere, "tea") == ["e1", "e2"]

    # R053
    async def test_text_among_other_parts_is_found(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """All text parts of an event are searched, each word in one part, and all parts return."""
        mixed = bare(
            "e1",
            types.Part(text="green"),
            types.Part(function_call=types.FunctionCall(name="brew", args={"cups": 2}, id="c")),
            types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png")),
            types.Part(text="tea", thought_signature=b"\xff\x00"),
        )
        await memories.add_session_to_memory(session(mixed))
        (memory,) = await search(elsewhere, "green tea")

        assert memory.content == mixed.content
        assert await found(elsewhere, "greentea brew") == []

    # R053
    async def test_thoughts_are_not_searched(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """What the model thought is no memory; what it said beside is, and returns whole."""
        thought = types.Part(text="secretly bored", thought=True)
        both = bare("e2", thought, types.Part(text="gladly"))
        await memories.add_session_to_memory(session(bare("e1", thought), both))

        assert await found(elsewhere, "bored") == []
        (memory,) = await search(elsewhere, "gladly")
        assert memory.content == both.content

    async def test_memory_returns_as_it_was_said(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A memory has the id, author and content of its event."""
        said = event("e1", "héllo\x00 wörld", "東京", author="agent")
        await memories.add_session_to_memory(session(said))
        (memory,) = await search(elsewhere, "héllo")

        assert (memory.id, memory.author) == ("e1", "agent")
        assert memory.content == said.content

    # R055
    @pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
    async def test_times_are_in_utc(
        self,
        memories: BaseMemoryService,
        elsewhere: BaseMemoryService,
        time_zone: TimeZone,
        zone: str,
    ) -> None:
        """The time of a memory is in UTC and says so, whatever the zone of the machine."""
        time_zone(zone)
        await memories.add_session_to_memory(session(event("e1", "hello", at=1710057600.25)))
        (memory,) = await search(elsewhere, "hello")

        assert memory.timestamp == "2024-03-10T08:00:00.250000+00:00"

    async def test_time_past_the_years_is_no_hindrance(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Milliseconds that were taken for seconds cost the memory its time, and no search."""
        odd = event("e1", "tea", at=1_796_000_000_000.0)
        await memories.add_session_to_memory(session(odd, event("e2", "tea")))
        first, second = await search(elsewhere, "tea")

        assert (first.id, first.timestamp) == ("e1", None)
        assert second.timestamp

    async def test_memory_is_not_the_callers_object(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """What the caller does with an event, or with what was found, changes no memory."""
        mine = event("e1", "hello")
        given = session(mine)
        await memories.add_session_to_memory(given)
        assert mine.content is not None
        mine.content.parts = [types.Part(text="goodbye")]
        given.events.clear()
        (memory,) = await search(elsewhere, "hello")
        memory.content.parts = []

        (memory,) = await search(elsewhere, "hello")
        assert memory.content == types.Content(role="user", parts=[types.Part(text="hello")])

    async def test_empty_session_is_no_matter(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A session without events, or no event at all, can be added."""
        await memories.add_session_to_memory(session())
        await memories.add_events_to_memory(**ANA, events=[], session_id="s2")

        assert await found(elsewhere, "hello") == []

    async def test_adding_leaves_events_as_they_are(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """The session that was given is as before."""
        given = session(event("e1", "hello"), bare("e2", None))
        before = given.model_copy(deep=True)
        await memories.add_session_to_memory(given)

        assert given == before
        assert await found(elsewhere, "hello") == ["e1"]
