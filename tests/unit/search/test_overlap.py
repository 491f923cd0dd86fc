"""`overlap` finds what ADK's InMemoryMemoryService finds, in its order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from lakestore.search.overlap import Overlap
from lakestore.tables import memory
from tests.support.memories import forget, rows_of
from tests.support.scripts import texts


@dataclass(frozen=True, slots=True)
class Said:
    """An event that is added alone."""

    session_id: str
    parts: tuple[str, ...]


SAID = st.builds(
    Said, st.sampled_from(["s1", "s2", "s3"]), st.lists(texts(), min_size=1, max_size=3).map(tuple)
)


def event(number: int, *parts: str) -> Event:
    """Return an event with these text parts."""
    content = types.Content(role="user", parts=[types.Part(text=text) for text in parts])
    return Event(id=f"e{number}", author="user", content=content)


def adk_finds(service: InMemoryMemoryService, query: str) -> list[str | None]:
    """Return the ids that ADK finds."""
    found = asyncio.run(service.search_memory(app_name="a", user_id="u", query=query))
    return [one.id for one in found.memories]


@given(
    said=st.lists(SAID, max_size=25),
    gone=st.sets(st.integers(0, 24), max_size=4),
    queries=st.lists(texts(4), min_size=1, max_size=4),
    data=st.data(),
)
def test_it_finds_what_adk_finds(
    said: list[Said], gone: set[int], queries: list[str], data: st.DataObject
) -> None:
    """Over the same memories the same ids come in the same order, whatever order we learn them in.

    Some were deleted in between, and some entries are read twice.
    """
    events = [event(number, *one.parts) for number, one in enumerate(said)]
    service = InMemoryMemoryService()
    for one, made in zip(said, events, strict=True):
        asyncio.run(
            service.add_events_to_memory(
                app_name="a", user_id="u", events=[made], session_id=one.session_id
            )
        )
    rows = rows_of((one.session_id, made) for one, made in zip(said, events, strict=True))
    for number in gone & set(range(len(said))):
        asyncio.run(service.delete_memory(app_name="a", user_id="u", memory_id=f"e{number}"))
        rows.append(forget(rows[number], 100 + number))

    ranking = Overlap()
    index = ranking.index()
    shuffled = data.draw(st.permutations(rows + rows[:5]))
    cut = data.draw(st.integers(0, len(shuffled)))
    index.add(memory.to_table(shuffled[:cut]))
    for row in shuffled[cut:]:
        ranking.rank([index], queries[0])
        index.add(memory.to_table([row]))

    for query in queries:
        found = [hit.key[1] for hit in ranking.rank([index], query)]
        assert found == adk_finds(service, query)


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("東京でJavaを学ぶ", ["Java", "java", "学ぶ", "東京"]),
        ("부산에 살아요", ["부산"]),
        ("مرحبا بك", ["مرحبا"]),
        ("Straße", ["straße", "STRAßE"]),
        ("cafe\u0301", ["café", "CAFÉ", "cafe\u0301"]),
        ("café", ["cafe\u0301", "CAFE\u0301"]),
    ],
)
def test_every_script_is_found(text: str, queries: list[str]) -> None:
    """A word is found in every script, case and form; a part of a Latin word is none."""
    ranking = Overlap()
    index = ranking.index()
    index.add(memory.to_table(rows_of([("s", event(1, text)), ("s", event(2, "other"))])))

    for query in queries:
        assert [hit.key for hit in ranking.rank([index], query)] == [("s", "e1")]
    assert ranking.rank([index], "ava") == []


def test_more_words_come_first_and_the_rest_is_cut() -> None:
    """Of a thousand memories that share a word, those come first that share more; ties in order."""
    texts = [f"the {number}" for number in range(1_000)]
    texts[700] = "the refund"
    texts[800] = "the refund for order 77"
    ranking = Overlap()
    index = ranking.index()
    index.add(memory.to_table(rows_of(("s", event(n, text)) for n, text in enumerate(texts))))

    hits = ranking.rank([index], "the refund for order 77")
    assert [(hit.key[1], hit.score) for hit in hits[:3]] == [("e800", 5), ("e77", 2), ("e700", 2)]
    assert [hit.key[1] for hit in hits[3:]] == [f"e{number}" for number in range(7)]
    assert [len(ranking.rank([index], "the", limit)) for limit in (0, 1, 25)] == [0, 1, 25]


def test_what_has_no_word_is_not_found() -> None:
    """Calls of tools, images and punctuation have no words; nothing finds them."""
    content = types.Content(parts=[types.Part(function_call=types.FunctionCall(name="look"))])
    silent = Event(id="e1", author="agent", content=content)
    ranking = Overlap()
    index = ranking.index()
    index.add(memory.to_table(rows_of([("s", silent), ("s", event(2, "?! …"))])))

    assert [ranking.rank([index], query) for query in ("look", "?!", "…", "", " ")] == [[]] * 5
