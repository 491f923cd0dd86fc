"""The contract of what only lakestore's memory service has: facts, app-wide memory, filters, more.

Rules for the blocking twin and for rankings are here, too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.genai import types

from tests.contracts.building import ANA, ANA_AT_BANK, BEN
from tests.contracts.cases import needs
from tests.contracts.memory_building import bare, event, fact, found, said_by, search, session

TALK = [
    event("e1", "red tea", at=100.0),
    event("e2", "green tea", author="agent", at=200.0),
    event("e3", "black tea", at=300.0),
]
FILTERED: list[tuple[dict[str, Any], str]] = [
    ({}, "e1 e2 e3 later fact"),
    ({"since": 100.0}, "e2 e3 later"),
    ({"until": 200.0}, "e1 e2"),
    ({"since": 100.0, "until": datetime.fromtimestamp(200.0, UTC)}, "e2"),
    ({"authors": ["agent"]}, "e2"),
    ({"authors": ["agent", "user"], "until": 100.0}, "e1"),
    ({"session_ids": ["s2"]}, "later"),
    ({"session_ids": ["s1", "s2"], "since": 250.0}, "e3 later"),
    ({"session_ids": []}, ""),
    ({"metadata": {"kind": "taste"}}, "fact"),
    ({"metadata": {"kind": "taste", "sure": 1}}, "fact"),
    ({"metadata": {"kind": "taste", "sure": 2}}, ""),
    ({"metadata": {"deep": {"b": 1, "a": [1]}}}, "fact"),
    ({"limit": 1}, "e1"),
    ({"limit": 2, "since": 100.0}, "e2 e3"),
]


@needs("extras")
class MemoryFactContract:
    """What `add_memory` promises: facts that are of no event."""

    async def test_facts_have_ids(self, memories: Any, elsewhere: Any) -> None:
        """A fact without an id gets one, another each time; one with an id is replaced by it."""
        for text in ("likes tea", "likes green tea"):
            await memories.add_memory(**ANA, memories=[fact(text), fact(text, "drink")])
        ids = await found(elsewhere, "likes")

        assert len(set(ids)) == 3
        assert ids.count("drink") == 1
        assert [said_by(one) for one in await search(elsewhere, "green", limit=1)] == [
            "likes green tea"
        ]

    async def test_fact_returns_as_it_was_given(self, memories: Any, elsewhere: Any) -> None:
        """Content, author, time, in UTC, and metadata of a fact are kept."""
        given = fact(
            "likes tea",
            "drink",
            author="agent",
            timestamp="2026-03-10T10:00:00+02:00",
            custom_metadata={"kind": "taste", "sure": 0.5, "deep": {"a": [1, None]}},
        )
        await memories.add_memory(
            **ANA, memories=[given], custom_metadata={"kind": "none", "of": "job"}
        )
        (memory,) = await search(elsewhere, "tea")

        assert memory.content == given.content
        assert (memory.id, memory.author) == ("drink", "agent")
        assert memory.timestamp == "2026-03-10T08:00:00+00:00"
        assert memory.custom_metadata == {**given.custom_metadata, "of": "job"}

    async def test_fact_without_anything_else(self, memories: Any, elsewhere: Any) -> None:
        """A fact needs no author and no time, and one without text is kept and not found."""
        image = types.Part(inline_data=types.Blob(data=b"tea", mime_type="image/png"))
        blank = fact("", "blank")
        blank.content = types.Content(parts=[image])
        await memories.add_memory(**ANA, memories=[fact("likes tea", "drink"), blank])
        (memory,) = await search(elsewhere, "tea")

        assert (memory.author, memory.timestamp, memory.custom_metadata) == (None, None, {})
        (known,) = await elsewhere.get_memory_history(**ANA, memory_id="blank")
        assert not known.forgotten

    async def test_deleted_fact_stays_deleted(self, memories: Any, elsewhere: Any) -> None:
        """Adding under an id that was deleted adds nothing."""
        await memories.add_memory(**ANA, memories=[fact("likes tea", "drink")])
        await elsewhere.delete_memory(**ANA, memory_id="drink")
        await memories.add_memory(**ANA, memories=[fact("likes tea", "drink")])

        assert await found(elsewhere, "tea") == []

    async def test_fact_and_event_of_one_id_are_two(self, memories: Any, elsewhere: Any) -> None:
        """A fact is of no session, so an event of the same id in one is another memory."""
        await memories.add_session_to_memory(session(*TALK))
        await memories.add_memory(**ANA, memories=[fact("tea", "e1")])

        assert await found(elsewhere, "tea") == ["e1", "e2", "e3", "e1"]


@needs("extras")
class MemoryScopeContract:
    """What app-wide memory promises, beside each user's own."""

    async def test_all_users_find_the_apps(self, memories: Any, elsewhere: Any) -> None:
        """App-wide memory is found by all users of the app, by no other app, after one's own."""
        await memories.add_memory(**ANA, memories=[fact("tea at five", "rule")], scope="app")
        await memories.add_session_to_memory(session(event("b1", "tea"), scope=BEN))

        assert await found(elsewhere, "tea", BEN) == ["b1", "rule"]
        assert await found(elsewhere, "tea", ANA) == ["rule"]
        assert await found(elsewhere, "tea", ANA_AT_BANK) == []
        assert await found(elsewhere, "tea", BEN, scope="user") == ["b1"]
        assert await found(elsewhere, "tea", BEN, scope="app") == ["rule"]

    async def test_sessions_and_events_can_be_the_apps(self, memories: Any, elsewhere: Any) -> None:
        """Whole sessions, and events alone, may be added for all."""
        await memories.add_session_to_memory(session(*TALK[:2]), scope="app")
        await memories.add_events_to_memory(**ANA, events=TALK[2:], session_id="s1", scope="app")

        assert await found(elsewhere, "tea", BEN) == ["e1", "e2", "e3"]

    # R050
    async def test_same_ids_of_two_users_are_two_of_the_apps(
        self, memories: Any, elsewhere: Any
    ) -> None:
        """What two users' sessions of one id give the app is kept apart, each once, in turn."""
        for whose in (ANA, BEN):
            name = whose["user_id"]
            said = [event(f"e{number}", f"tea {name}") for number in range(2)]
            for _ in range(2):
                await memories.add_session_to_memory(
                    session(*said, name="main", scope=whose), scope="app"
                )

        assert await found(elsewhere, "tea") == ["e0", "e1", "e0", "e1"]
        assert await found(elsewhere, "tea ben", limit=2) == ["e0", "e1"]
        histories = await elsewhere.get_memory_history(**ANA, memory_id="e0", scope="app")
        assert len(histories) == 2
        assert await memories.delete_user_memory(**ANA) == 2
        assert await found(elsewhere, "ana") == []

    async def test_deleting_ones_own_leaves_the_apps(self, memories: Any, elsewhere: Any) -> None:
        """An id is deleted where it is said to be; what is the app's is not deleted unasked."""
        for scope in ("user", "app"):
            await memories.add_memory(**ANA, memories=[fact(f"tea {scope}", "f")], scope=scope)
        await memories.delete_memory(**ANA, memory_id="f")
        assert [said_by(one) for one in await search(elsewhere, "tea")] == ["tea app"]
        await memories.add_memory(**ANA, memories=[fact("tea", "g")], scope="app")
        with pytest.raises(ValueError, match=r'scope="app"'):
            await memories.delete_memory(**ANA, memory_id="g")
        await memories.delete_memory(**BEN, memory_id="f", scope="app")

        assert await found(elsewhere, "tea") == ["g"]

    async def test_best_of_both_comes_first(self, memories: Any, elsewhere: Any) -> None:
        """Both are ranked together, and cut together."""
        await memories.add_session_to_memory(session(*TALK))
        await memories.add_memory(**BEN, memories=[fact("green tea", "rule")], scope="app")

        assert await found(elsewhere, "green tea") == ["e2", "rule", "e1", "e3"]
        assert await found(elsewhere, "green tea", limit=2) == ["e2", "rule"]


@needs("extras")
class MemoryPurgeContract:
    """What deleting by session and by user, and the history of a memory, promise."""

    # R010
    async def test_all_of_a_session_is_forgotten(self, memories: Any, elsewhere: Any) -> None:
        """Both scopes forget it, how much is told, and it does not come back."""
        await memories.add_session_to_memory(session(*TALK, name="s1"))
        await memories.add_session_to_memory(session(event("x", "tea"), name="s2"))
        await memories.add_session_to_memory(session(event("y", "tea"), name="s1"), scope="app")
        await memories.add_session_to_memory(
            session(event("z", "tea"), name="s1", scope=BEN), scope="app"
        )
        assert await elsewhere.delete_session_memory(**ANA, session_id="s1") == 4
        await memories.add_session_to_memory(session(*TALK, name="s1"))

        assert await found(elsewhere, "tea") == ["x", "z"]
        assert await memories.delete_session_memory(**ANA, session_id="s1") == 0

    async def test_session_is_forgotten_in_one_scope(self, memories: Any, elsewhere: Any) -> None:
        """Asked for one scope, the other stays."""
        for scope in ("user", "app"):
            await memories.add_session_to_memory(session(TALK[0]), scope=scope)
        assert await elsewhere.delete_session_memory(**ANA, session_id="s1", scope="app") == 1
        assert await found(elsewhere, "tea") == ["e1"]
        assert await elsewhere.delete_session_memory(**ANA, session_id="s1", scope="user") == 1
        assert await found(memories, "tea") == []

    # R010
    async def test_all_of_a_user_is_forgotten(self, memories: Any, elsewhere: Any) -> None:
        """Own memory and what the app's has from the user go; others' and other apps' stay."""
        for scope in (ANA, BEN, ANA_AT_BANK):
            await memories.add_session_to_memory(session(*TALK, scope=scope))
            await memories.add_memory(
                **scope, memories=[fact("tea", f"of {scope['user_id']}")], scope="app"
            )
        assert await elsewhere.delete_user_memory(**ANA) == 4
        await memories.add_session_to_memory(session(*TALK))

        assert await found(elsewhere, "tea") == ["of ben"]
        assert await found(elsewhere, "tea", BEN) == ["e1", "e2", "e3", "of ben"]
        assert await found(elsewhere, "tea", ANA_AT_BANK) == ["e1", "e2", "e3", "of ana"]
        assert await memories.delete_user_memory(**ANA) == 0
        await memories.add_session_to_memory(session(event("new", "tea")))
        assert await found(elsewhere, "tea") == ["new", "of ben"]

    async def test_history_of_a_memory(self, memories: Any, elsewhere: Any) -> None:
        """Where it came from is known, also when it is forgotten; nothing of what is unknown."""
        call = types.Part(function_call=types.FunctionCall(name="brew", args={}, id="call-1"))
        mixed = bare("e1", types.Part(text="tea"), call)
        mixed.invocation_id = "turn-7"
        before = datetime.now(UTC) - timedelta(seconds=1)
        await memories.add_session_to_memory(session(mixed))
        await memories.add_session_to_memory(session(mixed, name="s2"), scope="app")
        (known,) = await elsewhere.get_memory_history(**ANA, memory_id="e1")

        assert (known.memory_id, known.scope) == ("e1", "user")
        assert (known.session_id, known.event_id, known.author) == ("s1", "e1", "agent")
        assert (known.invocation_id, known.tool_call_id) == ("turn-7", "call-1")
        assert not known.forgotten
        assert before < known.added <= known.changed < datetime.now(UTC) + timedelta(seconds=1)
        (shared,) = await elsewhere.get_memory_history(**BEN, memory_id="e1", scope="app")
        assert (shared.session_id, shared.scope) == ("s2", "app")
        await memories.delete_memory(**ANA, memory_id="e1")
        (gone,) = await elsewhere.get_memory_history(**ANA, memory_id="e1")
        assert gone.forgotten
        assert (gone.session_id, gone.event_id, gone.added) == ("s1", "e1", known.added)
        assert gone.changed >= known.changed
        assert await elsewhere.get_memory_history(**ANA, memory_id="e9") == []


@needs("extras")
class MemoryFilterContract:
    """What filters, the cap and metadata promise."""

    async def test_filters_narrow(self, memories: Any, elsewhere: Any) -> None:
        """Each filter that is given narrows what is found; what has no time is at none."""
        await memories.add_session_to_memory(session(*TALK))
        await memories.add_events_to_memory(
            **ANA, events=[event("later", "tea", at=400.0)], session_id="s2"
        )
        deep = {"kind": "taste", "sure": 1.0, "deep": {"a": [1], "b": 1}}
        await memories.add_memory(**ANA, memories=[fact("tea", "fact", custom_metadata=deep)])

        answers = [await found(elsewhere, "tea", **asked) for asked, _ in FILTERED]
        assert answers == [names.split() for _, names in FILTERED]

    async def test_filters_come_before_the_cut(self, memories: Any, elsewhere: Any) -> None:
        """The best ten of those that a filter lets through come, however many are better."""
        many = [event(f"e{number}", "green tea", author="agent") for number in range(30)]
        last = event("last", "tea", author="user")
        await memories.add_session_to_memory(session(*many, last))

        assert "last" not in await found(elsewhere, "green tea")
        assert await found(elsewhere, "green tea", authors=["user"]) == ["last"]

    async def test_metadata_of_events_is_kept(self, memories: Any, elsewhere: Any) -> None:
        """Metadata comes back, stays when the event is added without, and is replaced by new."""
        metadata = {"topic": "drinks", "sure": 0.5}
        await memories.add_events_to_memory(
            **ANA, events=TALK[:1], session_id="s1", custom_metadata=metadata
        )
        await memories.add_session_to_memory(session(*TALK))
        (memory,) = await search(elsewhere, "tea", metadata={"topic": "drinks"})
        assert memory.custom_metadata == metadata
        await memories.add_events_to_memory(
            **ANA, events=TALK[:1], session_id="s1", custom_metadata={"topic": "other"}
        )

        assert await found(elsewhere, "tea", metadata={"topic": "drinks"}) == []
        assert await found(elsewhere, "tea", metadata={"topic": "other"}) == ["e1"]

    async def test_more_than_ten_can_be_asked_for(self, memories: Any, elsewhere: Any) -> None:
        """The cap is ADK's unless the caller says otherwise."""
        many = [event(f"e{number}", "tea") for number in range(30)]
        await memories.add_session_to_memory(session(*many))

        assert len(await found(elsewhere, "tea")) == 10
        assert await found(elsewhere, "tea", limit=25) == [each.id for each in many[:25]]


@needs("blocking")
class MemoryBlockingContract:
    """What the blocking twin promises."""

    # R094
    async def test_twin_works_in_a_running_loop(self, memories: Any, elsewhere: Any) -> None:
        """In a notebook, where a loop is running, every blocking call returns its answer."""
        twin = memories.sync
        twin.add_session_to_memory(session(*TALK))
        twin.add_events_to_memory(**ANA, events=[event("f", "tea")], session_id="s2")
        twin.add_memory(**ANA, memories=[fact("tea", "fact")])
        ids = [one.id for one in twin.search_memory(**ANA, query="tea").memories]
        assert ids == await found(elsewhere, "tea") == ["e1", "e2", "e3", "f", "fact"]
        (known,) = twin.get_memory_history(**ANA, memory_id="fact")
        assert not known.forgotten
        twin.delete_memory(**ANA, memory_id="e1")
        assert twin.delete_session_memory(**ANA, session_id="s2") == 1
        assert await found(elsewhere, "tea") == ["e2", "e3", "fact"]
        assert twin.delete_user_memory(**ANA) == 3
        assert await found(elsewhere, "tea") == []
