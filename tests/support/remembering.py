"""A lake with memories of two users and of their app, and every way to look for one of them."""

from __future__ import annotations

from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeMemoryService
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.storage import MemoryStore
from tests.support.aging import APP, AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import mentions
from tests.support.searching import hashed

ANA: Any = {"app_name": APP, "user_id": "anastasia"}
BEN: Any = {"app_name": APP, "user_id": "ben"}
SCOPES: Any = ("user", "app")


def fact(text: str, name: str, **more: Any) -> MemoryEntry:
    """Return a memory of no event."""
    content = types.Content(parts=[types.Part(text=text)])
    return MemoryEntry(content=content, id=name, **more)


class RememberingLake(AgingLake):
    """A lake in memory whose clock a test sets, with a memory service of its own."""

    def __init__(self) -> None:
        clock = ManualClock()
        super().__init__(MemoryStore(clock=clock), clock)
        self.memories = self.memory_of(self.lake)

    def memory_of(self, lake: Lake | None = None, **options: Any) -> SyncMemoryService:
        """Return the memory service of one more process, or on a lake."""
        return LakeMemoryService(lake or self.open(), **options).sync

    def found(self, query: str, whose: Any = ANA, service: SyncMemoryService | None = None) -> Any:
        """Return the ids of what is found, by a new process or a service."""
        asked = service or self.memory_of()
        found = asked.search_memory(**whose, query=query, limit=50)
        return [memory.id for memory in found.memories]

    def peopled(self, *words: str) -> dict[str, Session]:
        """Give both users two sessions, and remember them, facts, and some for the app."""
        handles = {}
        for whose in (ANA, BEN):
            user = whose["user_id"]
            for number in range(2):
                made = self.create(f"chat-{user}-{number}", user_id=user)
                for word in ("tea", "cake", *words):
                    self.say(made, f"{word} number {number} of sesame-{user}")
                self.memories.add_session_to_memory(made)
                handles[made.id] = made
            self.memories.add_session_to_memory(made, scope="app")
            facts = [fact(f"tea of sesame-{user}", name) for name in ("drink", f"own-{user}")]
            metadata = {"of": f"sesame-{user}"}
            for scope in SCOPES:
                self.memories.add_memory(
                    **whose,
                    memories=facts[scope == "app" :],
                    custom_metadata=metadata,
                    scope=scope,
                )
        return handles

    def answers(self, lake: Lake | None = None) -> list[Any]:
        """Return what both users find, by words and by meaning, and where it came from."""
        found: list[Any] = []
        for ranking in ("overlap", "hybrid"):
            service = self.memory_of(lake or self.open(), ranking=ranking, embedder=hashed)
            for whose in (ANA, BEN):
                found += [
                    service.search_memory(**whose, query=query, limit=7).memories
                    for query in ("tea number 1", "cake", "sesame-ben")
                ]
                found.append(service.get_memory_history(**whose, memory_id="drink"))
        return found

    def forms(self, word: str, name: str, whose: Any = ANA) -> dict[str, Any]:
        """Return in which forms a word, and a memory of an id, are there at all."""
        forms: dict[str, Any] = {
            ranking: self.found(word, whose, self.memory_of(ranking=ranking, embedder=hashed))
            for ranking in ("overlap", "bm25")
        }
        meant = self.memory_of(ranking="hybrid", embedder=hashed)
        near = meant.search_memory(**whose, query=word, limit=50).memories
        forms["hybrid"] = [one.id for one in near if word in str(one.content)]
        histories = [
            known
            for scope in SCOPES
            for known in self.memory_of().get_memory_history(
                **whose,
                memory_id=name,
                scope=scope,
            )
        ]
        forms["history"] = [known.session_id for known in histories if not known.forgotten]
        events = "select event_id from events where text like '%' || ? || '%'"
        forms["events"] = self.open(read_only=True).sql(events, [word]).fetchall()
        forms["bytes"] = mentions(self.store, word)
        return {form: found for form, found in forms.items() if found}
