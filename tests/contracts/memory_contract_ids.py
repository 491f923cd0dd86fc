"""The contract of whose memories are whose: any text is an id, and two texts are two ids."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService

from tests.contracts.building import ANA, ANA_AT_BANK, BEN, Scope
from tests.contracts.memory_building import event, found, session
from tests.contracts.session_contract_ids import ODD_IDS

# R001: each is taken for several of the others by what globs or decodes.
ALIKE = ["-", "u1", "u[1]", "u*", "u?", "U1", "u%31", "../u1", "u1/", "\u00e9", "e\u0301"]
IMPOSSIBLE = {"empty": "", "nul": "a\x00b", "surrogate": "a\ud800", "number": 5, "none": None}


class MemoryIdContract:
    """Who sees what."""

    # R050
    async def test_same_ids_under_two_users_and_two_apps(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Session and event ids are of one user of one app: each finds their own alone."""
        scopes = (ANA, BEN, ANA_AT_BANK)
        for number, scope in enumerate(scopes):
            await memories.add_session_to_memory(
                session(event("e1", f"tea word{number}"), name="main", scope=scope)
            )

        for number, scope in enumerate(scopes):
            for other in range(len(scopes)):
                expected = ["e1"] if other == number else []
                assert await found(elsewhere, f"word{other}", scope) == expected

    # R001
    async def test_ids_are_no_patterns(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Users whose ids look like patterns, or like each other, keep their own, deleting too."""
        scopes: list[Scope] = [{"app_name": "app", "user_id": name} for name in ALIKE]
        for number, scope in enumerate(scopes):
            await memories.add_session_to_memory(
                session(event("e1", f"tea {number}"), event("e2", "tea"), scope=scope)
            )
        for scope in scopes[3:6]:
            await memories.delete_memory(**scope, memory_id="e2")

        for number, scope in enumerate(scopes):
            left = ["e1"] if 3 <= number < 6 else ["e1", "e2"]
            assert await found(elsewhere, "tea", scope) == left
            assert await found(elsewhere, str(number), scope) == ["e1"]

    # R001 R028 R029 R034 R035 R037 R080 R113
    async def test_any_text_is_an_id(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """An app, user, session and event may be called anything."""
        for number, name in enumerate(ODD_IDS.values()):
            scope: Scope = {"app_name": "app", "user_id": name if number % 2 else "u"}
            await memories.add_session_to_memory(
                session(event(f"{name}{number}", f"tea{number}"), name=name, scope=scope)
            )
            assert await found(elsewhere, f"tea{number}", scope) == [f"{name}{number}"]
            await elsewhere.delete_memory(**scope, memory_id=f"{name}{number}")
            assert await found(memories, f"tea{number}", scope) == []

    @pytest.mark.parametrize("name", IMPOSSIBLE)
    @pytest.mark.parametrize("field", ["app_name", "user_id"])
    async def test_impossible_ids_are_refused(
        self,
        memories: BaseMemoryService,
        elsewhere: BaseMemoryService,
        refusal: type[Exception],
        field: str,
        name: str,
    ) -> None:
        """What is no id is refused by every call, and nothing is remembered."""
        scope: Any = {**ANA, field: IMPOSSIBLE[name]}
        given = session(event("e1", "hello"))
        setattr(given, field, IMPOSSIBLE[name])
        with pytest.raises(refusal, match=field):
            await memories.add_session_to_memory(given)
        with pytest.raises(refusal, match=field):
            await memories.add_events_to_memory(**scope, events=[event("e1", "hello")])
        with pytest.raises(refusal, match=field):
            await memories.search_memory(**scope, query="hello")
        with pytest.raises(refusal, match=field):
            await memories.delete_memory(**scope, memory_id="e1")
        assert await found(elsewhere, "hello") == []

    @pytest.mark.parametrize("name", ["empty", "nul", "surrogate", "number"])
    async def test_impossible_session_id_is_refused(
        self,
        memories: BaseMemoryService,
        elsewhere: BaseMemoryService,
        refusal: type[Exception],
        name: str,
    ) -> None:
        """A session id that is no id is refused, and nothing is remembered."""
        impossible: Any = IMPOSSIBLE[name]
        with pytest.raises(refusal, match="session_id"):
            await memories.add_events_to_memory(
                **ANA, events=[event("e1", "hello")], session_id=impossible
            )
        assert await found(elsewhere, "hello") == []

    async def test_half_a_character_is_refused(
        self,
        memories: BaseMemoryService,
        elsewhere: BaseMemoryService,
        refusal: type[Exception],
    ) -> None:
        """Text that no file can hold is refused, and nothing of its session is remembered."""
        with pytest.raises(refusal):
            await memories.add_session_to_memory(
                session(event("e1", "hello"), event("e2", "hello \ud800"))
            )
        assert await found(elsewhere, "hello") == []
