"""The contract of searching by words: what is found, in what order, and how much of it."""

from __future__ import annotations

import unicodedata

from google.adk.memory.base_memory_service import BaseMemoryService

from tests.contracts.building import ANA
from tests.contracts.memory_building import event, found, search, session

LINES = {
    "japanese": "東京でJavaを学ぶ",
    "korean": "부산에 살아요",
    "arabic": "مرحبا بك",
    "german": "eine lange Straße",
    "french": unicodedata.normalize("NFC", "un café noir"),
    "decomposed": unicodedata.normalize("NFD", "deux cafés"),
    "thai": "สวัสดีครับ",
    "hindi": "हिन्दी भाषा",
    "punjabi": "ਪੰਜਾਬੀ",
    "chinese": "我喜欢黑猫",
    "russian": "Какие новости",
    "turkish": "İstanbul güzel",
    "greek": "ΟΔΥΣΣΕΑΣ",
    "nul": "a\x00b",
    "snake": "call snake_case now",
}
QUERIES = {
    "Java": "japanese",
    "java": "japanese",
    "ava": "",
    "東京": "japanese",
    "京": "japanese",
    "부산": "korean",
    "부산에": "korean",
    "مرحبا": "arabic",
    "straße": "german",
    "STRASSE": "",
    "café": "french decomposed",
    "CAFÉ": "french decomposed",
    unicodedata.normalize("NFD", "café"): "french decomposed",
    "cafe": "",
    "สวัสดี": "thai",
    "भाषा": "hindi",
    "ਪੰਜਾਬੀ": "punjabi",
    "黑猫": "chinese",
    "какие": "russian",
    "güzel": "turkish",
    "b": "nul",
    "a": "nul",
    "snake_case": "snake",
    "snake": "",
    "🙂 ... ?!": "",
    "": "",
    " \n": "",
}


class MemorySearchContract:
    """What `search_memory` promises."""

    # R023 R041
    async def test_every_script_is_found(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Words of any script, case and form find their lines, and parts of Latin words do not."""
        events = [event(name, text) for name, text in LINES.items()]
        await memories.add_session_to_memory(session(*events))

        answers = {query: await found(elsewhere, query) for query in QUERIES}
        assert answers == {query: names.split() for query, names in QUERIES.items()}

    async def test_more_words_come_first(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """What has more words of the query comes first, however often it has them."""
        events = [
            event("one", "refund refund refund refund"),
            event("three", "the refund of order 77"),
            event("two", "order a refund"),
            event("none", "hello"),
        ]
        await memories.add_session_to_memory(session(*events))

        assert await found(elsewhere, "refund order 77 order 77") == ["three", "two", "one"]

    # R025
    async def test_ten_come_at_most(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Of many that share a word with the query the best ten come, the oldest among equals."""
        events = [event(f"e{number}", f"the day {number}") for number in range(40)]
        events[33] = event("best", "the refund for order 77")
        await memories.add_session_to_memory(session(*events))

        expected = ["best", *(f"e{number}" for number in range(9))]
        assert await found(elsewhere, "the refund for order 77") == expected

    async def test_equals_come_session_by_session(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Among equals, sessions come as they were first added, and events as in the session."""
        old, new = event("old1", "tea", at=9.0), event("new1", "tea", at=1.0)
        await memories.add_session_to_memory(session(old, name="b"))
        await memories.add_session_to_memory(session(new, name="a"))
        await memories.add_session_to_memory(session(old, event("old2", "tea", at=2.0), name="b"))

        assert await found(elsewhere, "tea") == ["old1", "old2", "new1"]

    async def test_session_that_said_nothing_keeps_its_turn(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Among equals, a session stands where its first memory does."""
        await memories.add_session_to_memory(session(name="empty"))
        await memories.add_session_to_memory(session(event("e1", "tea"), name="first"))
        await memories.add_session_to_memory(session(event("e2", "tea"), name="empty"))

        assert await found(elsewhere, "tea") == ["e1", "e2"]

    async def test_long_text_is_found_by_its_last_word(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """No text is too long."""
        text = " ".join(f"word{number}" for number in range(20_000))
        await memories.add_session_to_memory(session(event("e1", text)))

        assert await found(elsewhere, "word19999") == ["e1"]

    # R071
    async def test_nobody_known_has_no_memories(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """Of an app, or a user, that nothing is known of nothing is found."""
        assert await search(elsewhere, "hello") == []
        await memories.add_session_to_memory(session(event("e1", "hello")))
        assert await search(elsewhere, "hello", {**ANA, "user_id": "ben"}) == []

    # R002
    async def test_what_another_adds_is_found_at_once(
        self, memories: BaseMemoryService, elsewhere: BaseMemoryService
    ) -> None:
        """A handle that has searched finds what the other adds after that, and so back."""
        for number in range(3):
            one, other = (memories, elsewhere) if number % 2 else (elsewhere, memories)
            await one.add_events_to_memory(
                **ANA, events=[event(f"e{number}", "tea")], session_id="s1"
            )
            expected = [f"e{each}" for each in range(number + 1)]
            assert await found(other, "tea") == expected
            assert await found(one, "tea") == expected
