"""The memory service for code without an event loop, which is the implementation of both.

Owns ADK's semantics of adding, searching and deleting over `lakestore.history.memories`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import get_args

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from lakestore.adk.appending import check_events, key_of
from lakestore.adk.convert import to_draft
from lakestore.adk.memory_entries import (
    MemoryHistory,
    MemoryScope,
    check_memories,
    entry_of,
    history_of,
    metadata_of,
    row_of,
)
from lakestore.checks import check_choice, check_flag, check_number, check_text
from lakestore.errors import InputError, ReadOnlyError
from lakestore.history.memories import Memories
from lakestore.history.recollecting import Source, Taste, forget_of, of_event
from lakestore.lake import Lake
from lakestore.log.ids import check_id
from lakestore.log.keys import Scope
from lakestore.retrieval.rankings import RankingName, ranking_of
from lakestore.search.embedding import Embedder, embed
from lakestore.search.filters import filter_of
from lakestore.search.index import Index
from lakestore.search.rows import Rows, session_of
from lakestore.tables.memory import MemoryRow, vector


class SyncMemoryService:
    """The operations of `LakeMemoryService`, where each is documented, blocking.

    Works in a thread with a running event loop too, as in notebooks, which stands still meanwhile.
    """

    def __init__(
        self,
        lake: Lake,
        ranking: RankingName = "overlap",
        max_results: int = 10,
        embedder: Embedder | None = None,
        language: str | None = "english",
        *,
        thoughts: bool = False,
        tools: bool = False,
    ) -> None:
        if not isinstance(lake, Lake):
            raise InputError(
                "a service needs an open lake: LakeMemoryService(Lake.open(...))."
                f" type={type(lake).__name__}"
            )
        self.lake = lake
        self._most = check_number("max_results", max_results, least=1)
        self._taste = Taste(check_flag("thoughts", thoughts), check_flag("tools", tools))
        self._embedder = embedder
        self._ranking = ranking_of(ranking, embedder, language)
        self._begin()
        lake.after_fork(self._begin)

    def _begin(self) -> None:
        """Know nothing: what a forked process inherits is its parent's."""
        lake = self.lake
        self._memories = Memories(lake.environment, lake.sessions.archive, self._ranking())

    def add_session_to_memory(self, session: Session, *, scope: MemoryScope = "user") -> None:
        """See `LakeMemoryService.add_session_to_memory`."""
        key = key_of(session)
        marker = self.lake.sessions.confirmations.parse(key.log, session._storage_update_marker)
        source = Source(
            key.app_name,
            self._owner(scope, key.user_id),
            key.user_id,
            key.session_id,
            marker.version if marker else 0,
        )
        self._add_events(source, session.events)

    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """See `LakeMemoryService.add_events_to_memory`."""
        metadata = metadata_of(custom_metadata)
        source = replace(
            self._source(app_name, user_id, scope),
            session_id=None if session_id is None else check_id("session_id", session_id),
            metadata=metadata,
        )
        check_events(events)
        self._add_events(source, events)

    def _add_events(self, source: Source, events: Iterable[Event]) -> None:
        rows = []
        for event in events:
            if event.content and event.content.parts:
                check_id("an event's id", event.id)
                row = of_event(source, json.loads(to_draft(event).event_json), self._taste)
                if row is not None:
                    rows.append(row)
        self._add(source, rows)

    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """See `LakeMemoryService.add_memory`."""
        source = self._source(app_name, user_id, scope)
        shared = metadata_of(custom_metadata) or {}
        token, taste = self.lake.environment.new_token, self._taste
        entries = check_memories(memories)
        rows = [row_of(source, entry, token() + token(), shared, taste) for entry in entries]
        self._add(source, rows)

    def _add(self, source: Source, rows: Sequence[MemoryRow]) -> None:
        """Store those of `rows` that are new, or say something else than what is there."""
        self._check_writable()
        scope = Scope(source.app_name, source.user_id)
        if not rows:
            return
        (index,) = self._memories.indexes([scope])
        first: dict[str, MemoryRow] = {}
        for row in rows:
            first.setdefault(row.key, row)
        with index.lock:
            new = [found for row in first.values() if (found := _news(index.rows, row)) is not None]
        self._memories.put(scope, self._embedded(new))

    def _embedded(self, rows: Sequence[MemoryRow]) -> Sequence[MemoryRow]:
        """Return rows with the vectors of their texts; one that says nothing is near to nothing."""
        if self._embedder is None:
            return rows
        said = (row.text for row in rows if row.text and not row.text.isspace())
        texts = list(dict.fromkeys(said))
        vectors = dict(zip(texts, map(vector, embed(self._embedder, texts)), strict=True))
        return [replace(row, embedding=vectors.get(row.text or "")) for row in rows]

    def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        limit: int | None = None,
        scope: MemoryScope | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        session_ids: Iterable[str] | None = None,
        authors: Iterable[str] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SearchMemoryResponse:
        """See `LakeMemoryService.search_memory`."""
        scopes = self._scopes(app_name, user_id, scope)
        check_text("query", query)
        most = self._most if limit is None else check_number("limit", limit, least=1)
        where = filter_of(since, until, session_ids, authors, metadata)
        indexes = self._memories.indexes(scopes)
        hits = self._memories.ranking.rank(indexes, query, most, where)
        return SearchMemoryResponse(memories=[entry_of(hit) for hit in hits])

    def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """See `LakeMemoryService.delete_memory`."""
        source = self._source(app_name, user_id, scope)
        self._check_writable()
        if not memory_id:
            return
        check_id("memory_id", memory_id)
        own = Scope(source.app_name, source.user_id)
        shared = Scope(source.app_name, None)
        indexes = self._memories.indexes(list(dict.fromkeys((own, shared))))
        if self._forget(own, indexes[0], lambda rows: rows.find(memory_id)):
            return
        if indexes[-1].rows.find(memory_id):
            raise InputError(
                "this memory is not the user's own but the app's, for all its users:"
                f' delete_memory(..., scope="app") deletes it. {memory_id=}'
            )

    def delete_session_memory(
        self, *, app_name: str, user_id: str, session_id: str, scope: MemoryScope | None = None
    ) -> int:
        """See `LakeMemoryService.delete_session_memory`."""
        return self._forget_from(app_name, user_id, scope, [check_id("session_id", session_id)])

    def delete_user_memory(
        self, *, app_name: str, user_id: str, scope: MemoryScope | None = None
    ) -> int:
        """See `LakeMemoryService.delete_user_memory`."""
        return self._forget_from(app_name, user_id, scope, None)

    def _forget_from(
        self,
        app_name: str,
        user_id: str,
        scope: MemoryScope | None,
        sessions: Collection[str] | None,
    ) -> int:
        """Forget what came from a user, of some `sessions` alone; return how many memories."""
        scopes = self._scopes(app_name, user_id, scope)
        self._check_writable()

        def chosen(rows: Rows) -> list[int]:
            return [
                number
                for number in rows.numbers()
                if rows.shown(number)["source_user_id"] == user_id
                and (sessions is None or rows.keys[number][0] in sessions)
            ]

        indexes = self._memories.indexes(scopes)
        return sum(self._forget(*each, chosen) for each in zip(scopes, indexes, strict=True))

    def _forget(self, scope: Scope, index: Index, chosen: Callable[[Rows], list[int]]) -> int:
        """Forget the rows with the `chosen` numbers for good; return how many there were."""
        with index.lock:
            rows = [forget_of(scope, index.rows, number) for number in chosen(index.rows)]
        self._memories.put(scope, rows)
        return len(rows)

    def get_memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: MemoryScope = "user"
    ) -> list[MemoryHistory]:
        """See `LakeMemoryService.get_memory_history`."""
        source = self._source(app_name, user_id, scope)
        check_id("memory_id", memory_id)
        rows = self._memories.rows(Scope(source.app_name, source.user_id))
        return [history_of(row, scope) for row in rows if row.id == memory_id]

    def _source(self, app_name: str, user_id: str, scope: object) -> Source:
        check_id("app_name", app_name)
        check_id("user_id", user_id)
        return Source(app_name, self._owner(scope, user_id), user_id)

    def _owner(self, scope: object, user_id: str) -> str | None:
        return user_id if check_choice("scope", scope, get_args(MemoryScope)) == "user" else None

    def _scopes(self, app_name: str, user_id: str, scope: object) -> list[Scope]:
        """Return where to look, the user's own first; a `scope` of None means both."""
        source = self._source(app_name, user_id, "user" if scope is None else scope)
        own = Scope(app_name, source.user_id)
        return [own] if scope is not None else [own, Scope(app_name, None)]

    def _check_writable(self) -> None:
        if self.lake.read_only:
            raise ReadOnlyError("a lake that was opened with read_only=True remembers nothing new")


def _news(known: Rows, row: MemoryRow) -> MemoryRow | None:
    """Return what of `row` is to be stored; None when it is known, or forgotten."""
    if known.is_forgotten(row.id):
        return None
    number = known.at(session_of(row.source_user_id, row.session_id), row.id)
    if number is None:
        return row
    there = known.shown(number)
    # Adding again without metadata takes none away.
    merged = replace(
        row,
        custom_metadata=row.custom_metadata or there["custom_metadata"],
        place=known.place(number),
    )
    is_same = all(there[name] == getattr(merged, name) for name in _TELLING)
    return None if is_same else merged


_TELLING = ("content", "text", "author", "event_time", "custom_metadata")
