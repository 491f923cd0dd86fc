"""Random histories of memory in many scripts, against ADK's InMemoryMemoryService, one by one.

Jobs pack and sweep in between, and new processes read. Histories keep away from where the two
differ on purpose, which the contract lists: sessions grow, and thoughts are searched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from google.adk.events import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.sessions import Session
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakestore import Lake, LakeMemoryService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.jobs import check, compact, sweep
from lakestore.storage import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.scripts import texts

T = TypeVar("T")
SCOPES: list[Any] = [{"app_name": "app", "user_id": "ana"}, {"app_name": "app", "user_id": "ben"}]
IDS = [f"e{number}" for number in range(9)]
SESSIONS = st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from(["s1", "s2"]))
PARTS = st.lists(st.tuples(texts(), st.booleans()), min_size=1, max_size=2)


def now(asked: Coroutine[Any, Any, T]) -> T:
    """Return what a call of ADK's service gives."""
    return asyncio.run(asked)


class MemoryMachine(RuleBasedStateMachine):
    """Two users with two sessions each, and two processes that take turns."""

    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore("memories", clock=self.clock)
        self.adk = InMemoryMemoryService()
        self.lakes: list[Lake] = []
        self.services = [self.opened(), self.opened()]
        self.sessions: dict[tuple[int, str], list[Event]] = {}
        self.added: dict[tuple[int, str], int] = {}
        self.queries = {"東京 java the"}

    def opened(self) -> SyncMemoryService:
        self.lakes.append(Lake(self.store, clock=self.clock))
        return LakeMemoryService(self.lakes[-1], thoughts=True).sync

    @property
    def service(self) -> SyncMemoryService:
        self.services.reverse()
        return self.services[0]

    @rule(key=SESSIONS, parts=PARTS, asked=texts(3))
    def say(self, key: tuple[int, str], parts: list[tuple[str, bool]], asked: str) -> None:
        events = self.sessions.setdefault(key, [])
        if len(events) < len(IDS):
            said = [types.Part(text=text, thought=thought or None) for text, thought in parts]
            content = types.Content(role="user", parts=said)
            events.append(Event(id=IDS[len(events)], author="user", content=content))
            self.queries = {asked, " ".join(text for text, _ in parts)}

    @rule(key=SESSIONS)
    def add_all(self, key: tuple[int, str]) -> None:
        if events := self.sessions.get(key):
            scope = SCOPES[key[0]]
            given = Session(id=key[1], **scope, events=events)
            self.service.add_session_to_memory(given)
            now(self.adk.add_session_to_memory(given))
            self.added[key] = len(events)

    @rule(key=SESSIONS, again=st.integers(0, 2))
    def add_new(self, key: tuple[int, str], again: int) -> None:
        if events := self.sessions.get(key):
            new = events[max(0, self.added.get(key, 0) - again) :]
            asked = {**SCOPES[key[0]], "session_id": key[1], "events": new}
            if new:
                self.service.add_events_to_memory(**asked)
                now(self.adk.add_events_to_memory(**asked))
            self.added[key] = len(events)

    @rule(user=st.sampled_from([0, 0, 1]), name=st.sampled_from(IDS[:4]))
    def delete(self, user: int, name: str) -> None:
        self.service.delete_memory(**SCOPES[user], memory_id=name)
        now(self.adk.delete_memory(**SCOPES[user], memory_id=name))

    @rule()
    def compact(self) -> None:
        compact(self.lakes[-1])

    @rule()
    def sweep(self) -> None:
        self.clock.advance(86_400.0)
        sweep(self.lakes[-1])

    @rule()
    def begin_a_process(self) -> None:
        self.services[0] = self.opened()

    @invariant()
    def both_find_the_same(self) -> None:
        for scope in SCOPES:
            for query in self.queries:
                expected = now(self.adk.search_memory(**scope, query=query)).memories
                found = self.service.search_memory(**scope, query=query).memories
                assert [(one.id, one.content) for one in found] == [
                    (one.id, one.content) for one in expected
                ]

    def teardown(self) -> None:
        if self.lakes:
            assert check(self.lakes[-1]).findings == ()
        for lake in self.lakes:
            lake.close()


# Making a failing history short takes hypothesis minutes.
TestMemories = pytest.mark.timeout(4 * 3600)(MemoryMachine.TestCase)
TestMemories.settings = settings(max_examples=settings().max_examples * 2 // 3)
