"""ADK's memory service on a lake. Owns the async face, nothing of what it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from typing_extensions import override

from lakestore.adk.appending import key_of
from lakestore.adk.memory_entries import MemoryHistory, MemoryScope, check_memories
from lakestore.adk.sync_memories import SyncMemoryService
from lakestore.adk.uris import ServiceUri, shared_lake
from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.retrieval.rankings import RankingName
from lakestore.search.embedding import Embedder

_FLAGS = {"true": True, "false": False}
"""As they are written in a URI."""


class LakeMemoryService(BaseMemoryService):
    """Keeps what agents remember in a lake, which any number of processes may share.

    With the ranking `overlap` it finds what ADK 2.13's InMemoryMemoryService finds, in the same
    order; MEMORY.md says where it differs on purpose. When a call that adds or deletes returns,
    that is durable.
    """

    def __init__(
        self,
        lake: Lake | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | None = None,
        ranking: RankingName | None = None,
        max_results: int | None = None,
        embedder: Embedder | None = None,
        language: str | None = "english",
        thoughts: bool = False,
        tools: bool = False,
        **options: Any,
    ) -> None:
        """Work on `lake`, or on the one that `uri` names, as ADK's service registry calls it.

        Args:
            lake: An open lake, which you close: the service needs no closing.
            uri: See `LakeSessionService`; `ranking`, `max_results`, `language` (or `none`),
                `thoughts` and `tools` (`true` or `false`) may be in its query.
            agents_dir: Accepted, as ADK passes it, and not needed.
            ranking: `overlap` (the default): how many words of the query a memory has. `bm25`:
                rare words count more, and endings of words do not. `hybrid`: that, and what the
                embedder says is near.
            max_results: How many a search returns at most; 10, as in ADK.
            embedder: A function, no async one, from a list of texts to as many vectors. What is
                added gets its vector from it, and `hybrid` compares by it.
            language: Of `bm25` and `hybrid`: whose endings are taken off and whose stop words are
                passed over, a name that Snowball knows; None for neither.
            thoughts: Whether the model's thoughts are searched, too.
            tools: Whether names, arguments and results of tools are searched, too.
            **options: More options of the URI.

        Raises:
            InputError: not exactly one of `lake` and `uri` is given, or an option is not known.
            LakeError: the lake cannot be opened.
        """
        if (lake is None) == (uri is None):
            raise InputError("give either a lake or a uri")
        settings: Mapping[str, Any] = {}
        if lake is None:
            named = ServiceUri.parse(uri or "", options)
            lake, settings = shared_lake(named), named.settings
        elif options:
            raise InputError(f"options go with a uri. unknown={sorted(options)}")
        most = settings.get("max_results", "10") if max_results is None else max_results
        language = settings.get("language", language)
        self.lake = lake
        """The lake that memories are kept in."""
        self.sync = SyncMemoryService(
            lake,
            ranking or settings.get("ranking", "overlap"),
            int(most) if isinstance(most, str) and most.removeprefix("-").isdecimal() else most,
            embedder,
            None if language == "none" else language,
            thoughts=_FLAGS.get(settings.get("thoughts", ""), settings.get("thoughts", thoughts)),
            tools=_FLAGS.get(settings.get("tools", ""), settings.get("tools", tools)),
        )
        """The same operations, blocking, for code without an event loop."""

    @override
    async def add_session_to_memory(self, session: Session, *, scope: MemoryScope = "user") -> None:
        """Remember what was said in a session; nothing is lost by doing it again and again.

        What is known already is not stored again, and what was remembered stays when the session
        has it no more: this merges, where ADK's InMemoryMemoryService replaces. Costs 1 LIST, and
        1 PUT where there is anything new.

        Args:
            session: Its events with text are remembered, each under its id.
            scope: `user`: for this user. `app`: for all users of the app.

        Raises:
            InputError: an id cannot be stored; nothing was written.
            ReadOnlyError: the lake was opened with `read_only=True`.
            StorageError: it may not be stored; doing it again is safe.
        """
        key_of(session)
        session = copy(session)
        session.events = list(session.events)
        await self.lake.run(partial(self.sync.add_session_to_memory, session, scope=scope))

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """Remember some events, as `add_session_to_memory` does all of a session.

        Args:
            app_name: The app.
            user_id: The user.
            events: The events.
            session_id: The session that they are of; events of none are kept apart.
            custom_metadata: Is kept with each of them, and can be searched by.
            scope: See `add_session_to_memory`.

        Raises:
            InputError: an argument makes no sense; nothing was written.
            ReadOnlyError, StorageError: see `add_session_to_memory`.
        """
        add = partial(
            self.sync.add_events_to_memory,
            app_name=app_name,
            user_id=user_id,
            events=events,
            session_id=session_id,
            custom_metadata=custom_metadata,
            scope=scope,
        )
        await self.lake.run(add)

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """Remember facts that are of no event.

        Args:
            app_name: The app.
            user_id: The user.
            memories: One with an id replaces what was added under it before, unless that was
                forgotten: then this one is, too. One without gets a new id each time. A
                timestamp is as ISO 8601 has it, in UTC where it has no zone.
            custom_metadata: For those that lack some of its fields.
            scope: See `add_session_to_memory`.

        Raises:
            InputError: an argument makes no sense; nothing was written.
            ReadOnlyError, StorageError: see `add_session_to_memory`.
        """
        add = partial(
            self.sync.add_memory,
            app_name=app_name,
            user_id=user_id,
            memories=check_memories(memories),
            custom_metadata=custom_metadata,
            scope=scope,
        )
        await self.lake.run(add)

    @override
    async def search_memory(
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
        """Return the memories that suit a query best, the best first.

        Warm it costs 2 LIST, side by side, and a GET for each entry that was not seen before.

        Args:
            app_name: The app.
            user_id: The user.
            query: Any text.
            limit: How many at most; None: the service's `max_results`.
            scope: `user` or `app` alone; None: the user's own and the app's, the own first among
                equals.
            since: Only what happened after this time (exclusive).
            until: Only what happened up to this time (inclusive).
            session_ids: Only what came from these sessions.
            authors: Only what is by these.
            metadata: Only what has all these fields in its custom metadata, with equal values.

        Raises:
            InputError: an argument makes no sense.
            FormatError: what is packed of the app's memories is damaged.
            StorageError: the store failed.
        """
        search = partial(
            self.sync.search_memory,
            app_name=app_name,
            user_id=user_id,
            query=query,
            limit=limit,
            scope=scope,
            since=since,
            until=until,
            session_ids=session_ids,
            authors=authors,
            metadata=metadata,
        )
        return await self.lake.run(search)

    @override
    async def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: MemoryScope = "user",
    ) -> None:
        """Forget a memory for good: adding, compaction and rebuilds never bring it back.

        Nothing happens when there is none of that id, or none is given, as in ADK. The next
        compaction, and a sweep after the grace, take what it said out of the store.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: As `search_memory` has it.
            scope: `app`: one that all users of the app share.

        Raises:
            InputError: an id makes no sense, or it is the app's memory and not the user's.
            ReadOnlyError, StorageError: see `add_session_to_memory`.
        """
        delete = partial(
            self.sync.delete_memory,
            app_name=app_name,
            user_id=user_id,
            memory_id=memory_id,
            scope=scope,
        )
        await self.lake.run(delete)

    async def delete_session_memory(
        self, *, app_name: str, user_id: str, session_id: str, scope: MemoryScope | None = None
    ) -> int:
        """Forget all that is remembered of a session, as `delete_memory` does; return how much.

        Deleting a session leaves what was remembered of it.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session, which need not be there any more.
            scope: In the user's own memory or the app's alone; None: in both.

        Raises:
            InputError, ReadOnlyError, StorageError: see `delete_memory`.
        """
        delete = partial(
            self.sync.delete_session_memory,
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            scope=scope,
        )
        return await self.lake.run(delete)

    async def delete_user_memory(
        self, *, app_name: str, user_id: str, scope: MemoryScope | None = None
    ) -> int:
        """Forget all that is remembered of a user, as `delete_memory` does; return how much.

        `lakestore.jobs.erase_user` leaves no byte of it either.

        Args:
            app_name: The app.
            user_id: The user.
            scope: In the user's own memory, or what the app's has from the user, alone; None: in
                both.

        Raises:
            InputError, ReadOnlyError, StorageError: see `delete_memory`.
        """
        delete = partial(
            self.sync.delete_user_memory, app_name=app_name, user_id=user_id, scope=scope
        )
        return await self.lake.run(delete)

    async def get_memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: MemoryScope = "user"
    ) -> list[MemoryHistory]:
        """Return where a memory came from and what became of it, also when it is forgotten.

        One for each session that has it, mostly one; none where nothing is known of it. Reads all
        that is remembered in the scope: 1 LIST, 1 GET for each entry that is not packed.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: As `search_memory` has it.
            scope: Of the user, or of the app.

        Raises:
            InputError, FormatError, StorageError: see `search_memory`.
        """
        find = partial(
            self.sync.get_memory_history,
            app_name=app_name,
            user_id=user_id,
            memory_id=memory_id,
            scope=scope,
        )
        return await self.lake.run(find)
