"""The words the memory contract is written in: events, sessions, what is found.

It knows no service and no rule.
"""

from __future__ import annotations

from typing import Any

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from tests.contracts.building import ANA, Scope


def event(name: str, *texts: str, author: str = "user", at: float = 1000.0, **more: Any) -> Event:
    """Return an event of that id, with one part for each of `texts`."""
    content = types.Content(role="user", parts=[types.Part(text=text) for text in texts])
    return Event(id=name, author=author, content=content, timestamp=at, **more)


def bare(name: str, *parts: types.Part | None, author: str = "agent") -> Event:
    """Return an event with these parts; a None for no content at all."""
    content = None if None in parts else types.Content(role="model", parts=[*filter(None, parts)])
    return Event(id=name, author=author, content=content, timestamp=1000.0)


def session(*events: Event, name: str = "s1", scope: Scope = ANA) -> Session:
    """Return a session with these events, that nobody has stored."""
    return Session(id=name, **scope, events=list(events))


async def search(
    service: BaseMemoryService, query: str, whose: Scope = ANA, **more: Any
) -> list[MemoryEntry]:
    """Return what is found."""
    return (await service.search_memory(**whose, query=query, **more)).memories


async def found(
    service: BaseMemoryService, query: str, whose: Scope = ANA, **more: Any
) -> list[str | None]:
    """Return the ids of what is found."""
    return [memory.id for memory in await search(service, query, whose, **more)]


def fact(text: str, name: str | None = None, **more: Any) -> MemoryEntry:
    """Return a memory that is of no event."""
    content = types.Content(parts=[types.Part(text=text)])
    return MemoryEntry(content=content, id=name, **more)


def said_by(memory: MemoryEntry) -> str:
    """Return the text of a memory."""
    return "".join(part.text or "" for part in memory.content.parts or [])
