"""A lake of some users with sessions that are remembered, for tests of rebuilding and pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from lakestore import Lake, LakeMemoryService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.jobs import History
from lakestore.storage import MemoryStore
from tests.support.aging import APP, USER, AgingLake
from tests.support.clocks import ManualClock

SAID = ("green tea", "the refund for order 77", "東京でJavaを学ぶ", "tea again")
QUERY = "tea java order"
USERS = (USER, "ben")


def entry(text: str, **fields: Any) -> MemoryEntry:
    """Return a memory that says `text`."""
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


def summary(history: History) -> list[MemoryEntry]:
    """Make one memory of a session, or of a user."""
    return [entry(f"tea summary of {history.session_id}, {len(history.events)} events")]


class Stopped(BaseException):
    """Ends a process at once."""


def stopping_at(user: str) -> Callable[[History], list[MemoryEntry]]:
    """Return an extractor that ends the process when it meets a user."""

    def extract(history: History) -> list[MemoryEntry]:
        if history.user_id == user:
            raise Stopped
        return [entry(f"tea of {history.user_id}")]

    return extract


def memories_of(lake: Lake, **options: Any) -> SyncMemoryService:
    """Return the service on a lake."""
    return LakeMemoryService(lake, **options).sync


class Remembering:
    """A lake of two users with two sessions each, all of them in memory, and a fact by hand."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.aging = AgingLake(MemoryStore(clock=clock), clock)
        self.lake = self.aging.lake
        self.memories = memories_of(self.lake)

    def fill(
        self, sessions: int = 2, users: Iterable[str] = USERS, *, remember: bool = True
    ) -> None:
        """Let each user say something in so many sessions, side by side."""
        for number in range(sessions):
            made = [self.aging.create(f"s{number}", user_id=user) for user in users]
            for text in SAID:
                for session in made:
                    self.aging.say(session, f"{text} {number}")
                    self.aging.clock.advance(1)
            for session in made if remember else ():
                self.memories.add_session_to_memory(session)

    def by_hand(self) -> None:
        """Remember a fact for the user, and one for all."""
        for scope in ("user", "app"):
            self.memories.add_memory(
                app_name=APP,
                user_id=USER,
                memories=[entry(f"tea by hand of {scope}", id=f"hand-{scope}")],
                scope=scope,
            )

    def found(
        self, user: str = USER, lake: Lake | None = None, query: str = QUERY, limit: int = 50
    ) -> list[tuple[str | None, str]]:
        """Return ids and texts of what a new process finds, in its order."""
        service = memories_of(lake or self.aging.open(read_only=True))
        answer = service.search_memory(app_name=APP, user_id=user, query=query, limit=limit)
        return [(one.id, text_of(one)) for one in answer.memories]

    def said(self, user: str = USER) -> list[str]:
        """Return the texts of what a new process finds, in alphabetical order."""
        return sorted(text for _, text in self.found(user))

    def close(self) -> None:
        self.lake.close()


def text_of(memory: MemoryEntry) -> str:
    """Return what a memory says."""
    return " ".join(part.text or "" for part in memory.content.parts or ())


def counting(made: Callable[[History], list[MemoryEntry]], seen: list[str | None]) -> Any:
    """Return an extractor that notes what it is given."""

    def extract(history: History) -> list[MemoryEntry]:
        seen.append(f"{history.user_id}/{history.session_id}")
        return made(history)

    return extract
