"""Extractors that memory is rebuilt with: what they are given, and what they may return."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry

from lakestore.jobs import (
    History,
    rebuild_memory,
)
from tests.support.aging import APP, USER
from tests.support.rebuilding import (
    Remembering,
    entry,
    summary,
)


def test_an_extractor_makes_what_it_likes(kept: Remembering) -> None:
    """Entries of no event belong to the session, and the next rebuild replaces them."""
    report = rebuild_memory(kept.lake, APP, extractor=summary)
    assert kept.said() == [f"tea summary of s{number}, 4 events" for number in range(2)]
    assert (report.comparison.vanished, report.comparison.appeared) == (16, 4)
    assert report.comparison.appeared_first[0].startswith("tea summary of s")
    again = rebuild_memory(kept.lake, APP, extractor=lambda _: [entry("tea, in short")])
    assert (again.comparison.before, again.comparison.after) == (4, 4)
    assert kept.said() == ["tea, in short"] * 2
    (history,) = {
        one.session_id
        for name, _ in kept.found()[:1]
        for one in kept.memories.get_memory_history(app_name=APP, user_id=USER, memory_id=str(name))
    } - {"s1"}
    assert history == "s0"


def test_an_entry_with_the_id_of_an_event_is_its_memory(kept: Remembering) -> None:
    """It keeps author, time and place of the event, and re-adding the session changes it back."""

    def shouted(history: History) -> list[MemoryEntry]:
        return [
            entry(part.text.upper(), id=event.id)
            for event in history.events
            for part in (event.content and event.content.parts) or ()
            if part.text
        ]

    before = kept.found()
    report = rebuild_memory(kept.lake, APP, extractor=shouted)
    assert report.comparison.changed == 16
    assert [name for name, _ in kept.found()] == [name for name, _ in before]
    (one,) = kept.memories.get_memory_history(
        app_name=APP, user_id=USER, memory_id=str(before[0][0])
    )
    assert (one.author, one.event_id, one.session_id) == ("user", before[0][0], "s0")


@pytest.mark.parametrize("how", ["plain", "batches", "async", "async batches", "of a user"])
def test_extractors_of_every_kind(kept: Remembering, how: str) -> None:
    """One at a time, in batches, async, for a user at once; also where a loop is running."""

    async def later(history: History) -> list[MemoryEntry]:
        await asyncio.sleep(0)
        return summary(history)

    async def later_many(histories: list[History]) -> list[list[MemoryEntry]]:
        return [await later(history) for history in histories]

    kinds: dict[str, dict[str, Any]] = {
        "plain": {"extractor": summary},
        "batches": {"extractor": lambda many: map(summary, many), "batch_size": 3},
        "async": {"extractor": later},
        "async batches": {"extractor": later_many, "batch_size": 2},
        "of a user": {"extractor": summary, "per": "user"},
    }

    async def in_a_notebook() -> None:
        rebuild_memory(kept.lake, APP, **kinds[how])

    asyncio.run(in_a_notebook())
    of_a_user = ["tea summary of None, 8 events"]
    of_sessions = ["tea summary of s0, 4 events", "tea summary of s1, 4 events"]
    assert kept.said() == (of_a_user if how == "of a user" else of_sessions)


def test_one_session_that_fails_keeps_what_it_had(kept: Remembering) -> None:
    """Others are replaced; the report names it, with what was raised."""

    def picky(history: History) -> list[MemoryEntry]:
        if (history.user_id, history.session_id) == (USER, "s1"):
            raise ValueError("no luck")
        return summary(history)

    report = rebuild_memory(kept.lake, APP, extractor=picky)
    (failure,) = report.failures
    assert "failed=1" in repr(report)
    assert (failure.user_id, failure.session_id) == (USER, "s1")
    assert failure.error == "ValueError: no luck"
    assert [text for text in kept.said() if "summary" in text] == ["tea summary of s0, 4 events"]
    assert {text[-1] for text in kept.said() if "summary" not in text} == {"1"}
    assert kept.said("ben") == ["tea summary of s0, 4 events", "tea summary of s1, 4 events"]


@pytest.mark.parametrize(
    ("extractor", "says"),
    [
        (lambda _: "tea", "returns a list of MemoryEntry"),
        (lambda _: ["tea"], "memories are ADK's MemoryEntry"),
        (lambda _: [entry("tea", timestamp="yesterday")], "ISO 8601"),
    ],
)
def test_what_an_extractor_may_not_return(kept: Remembering, extractor: Any, says: str) -> None:
    """It fails for that session, in words, and nothing of it is stored."""
    before = kept.found()
    report = rebuild_memory(kept.lake, APP, extractor=extractor)
    assert len(report.failures) == 4
    assert all(says in failure.error for failure in report.failures)
    assert kept.found() == before


def test_batches_of_another_length_fail(kept: Remembering) -> None:
    """Nobody could tell whose memories are whose."""
    report = rebuild_memory(kept.lake, APP, extractor=lambda many: [[]], batch_size=2)
    assert "one list for each history. histories=2 lists=1" in report.failures[0].error
