"""ADK's session service on a lake. Owns the async face, and what becomes of cancelled awaits."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from typing_extensions import override

from lakestore.adk.appending import adk_errors, check_events, key_of, session_key
from lakestore.adk.operations import OrderBy, Page, Span, check_config, check_scope, is_blank
from lakestore.adk.showing import Showing
from lakestore.adk.sync import SyncSessionService
from lakestore.adk.uris import Durability, ServiceUri, check_durability, shared_lake
from lakestore.checks import check_count
from lakestore.errors import InputError, raise_first
from lakestore.lake import Lake
from lakestore.log.ids import check_id
from lakestore.log.keys import SessionKey

R = TypeVar("R")


class LakeSessionService(BaseSessionService):
    """Keeps ADK sessions in a lake, which any number of processes may share.

    Behaves as ADK 2.13's own services where they agree. When `append_event` returns, the event and
    its whole state delta are durable. A cancelled `append_event` goes on in the background and may
    still land; the next append to that session waits for it.
    """

    def __init__(
        self,
        lake: Lake | None = None,
        *,
        uri: str | None = None,
        agents_dir: str | None = None,
        durability: Durability | None = None,
        payload_threshold: int | None = None,
        **options: Any,
    ) -> None:
        """Work on `lake`, or on the one that `uri` names, as ADK's service registry calls it.

        Args:
            lake: An open lake, which stays open when the service is closed.
            uri: `lakestore+file:///<percent-encoded path>`, `lakestore+s3://<bucket>/<prefix>`,
                `lakestore+gs://<bucket>/<prefix>` or `lakestore+memory://<name>`, with options,
                such as `region`, in its query. Services of one URI in one process share one lake.
            agents_dir: Accepted, as ADK passes it, and not needed.
            durability: `append` (the default): every event is durable when its append returns.
                `turn`: the events of a turn are held in this process until an agent's final
                response, `flush`, or a read of the session, and written as one commit.
            payload_threshold: Inline data of an event, such as an image or audio, that is more than
                so many bytes is stored beside the events, once a session, and is put back when
                they are read. None (the default): it stays in the events.
            **options: More options of the URI, such as ADK's `session_db_kwargs`.

        Raises:
            InputError: not exactly one of `lake` and `uri` is given, or an option is not known.
            LakeError: the lake cannot be opened.
        """
        if (lake is None) == (uri is None):
            raise InputError("give either a lake or a uri")
        if durability is not None:
            check_durability(durability)
        threshold = check_count("payload_threshold", payload_threshold)
        if lake is None:
            named = ServiceUri.parse(uri or "", options)
            asked = check_durability(named.settings.get("durability", "append"))
            if threshold is None:
                threshold = named.count("payload_threshold")
            lake, durability = shared_lake(named), durability or asked
        elif options:
            raise InputError(f"options go with a uri. unknown={sorted(options)}")
        self.lake = lake
        """The lake that the sessions are kept in."""
        self.sync = SyncSessionService(lake, durability or "append", threshold)
        """The same operations, blocking, for code without an event loop."""
        self._under_way: set[Future[Any]] = set()

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; an id that is not given, or blank, is generated.

        A generated id costs 1 PUT, and 2 LIST for the shared state unless it was listed within the
        last second; `user:` and `app:` keys of `state` cost 1 PUT a scope.

        Raises:
            AlreadyExistsError: a living session has that id.
            InputError: an id or the state cannot be stored; nothing was written.
            StorageError: it was not created, or (`UnknownOutcomeError`) it may have been.
        """
        operations = self.sync.operations
        return await self.lake.run(lambda: operations.create(app_name, user_id, state, session_id))

    @override
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session as it is stored now, None when there is none.

        Events are in commit order. `after_timestamp` keeps every event at or after it, wherever it
        stands; `num_recent_events` then keeps the last ones, and 0 reads none.

        Raises:
            InputError: an id or `config` makes no sense.
            FormatError: an object of the session is damaged.
            StorageError: the store failed.
        """
        if is_blank(session_id):
            return None
        key = session_key(app_name, user_id, session_id)
        check_config(config)
        await self._settle(key)
        await self._settle_others(app_name, user_id)
        return await self.lake.run(lambda: self.sync.operations.get(key, config))

    @override
    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        order_by: OrderBy | None = None,
        descending: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> ListSessionsResponse:
        """Return sessions without events, with the state of all scopes.

        Args:
            app_name: The app.
            user_id: The user; None for all users.
            order_by: `last_update_time` (ADK's contract: oldest first) or `session_id`; ties are
                broken by user and id.
            descending: Turn the order around.
            limit: At most so many.
            offset: Leave out so many first.

        Raises:
            InputError: an argument makes no sense.
            StorageError: the store failed.
        """
        check_scope(app_name, user_id)
        page = Page.asked(order_by, descending, limit, offset)
        await self._settle_others(app_name, user_id)
        operations = self.sync.operations
        return await self.lake.run(lambda: operations.list_page(app_name, user_id, page))

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; nothing happens when there is none. Shared state stays.

        Raises:
            InputError: an id makes no sense.
            StorageError: it was not deleted, or (`UnknownOutcomeError`) it may have been.
        """
        if not is_blank(session_id):
            key = session_key(app_name, user_id, session_id)
            await self._alone(key, lambda: self._delete(key))

    def _delete(self, key: SessionKey) -> None:
        with adk_errors():
            self.sync.appender.write_held(key)
            self.sync.operations.delete(key)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, keys without `user:`; {} when there is none.

        Raises:
            InputError: an id makes no sense.
            StorageError: the store failed.
        """
        check_scope(app_name, check_id("user_id", user_id))
        await self._settle_others(app_name, user_id)
        return await self.lake.run(lambda: self.sync.operations.user_state(app_name, user_id))

    async def get_user_events(
        self,
        *,
        app_name: str,
        user_id: str,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return the events of all sessions of a user, in chronological order.

        Args:
            app_name: The app.
            user_id: The user.
            since: Only events after this time (exclusive).
            until: Only events up to this time (inclusive).
            limit: Only so many, the most recent.

        Raises:
            InputError: an argument makes no sense.
            StorageError: the store failed.
        """
        check_scope(app_name, check_id("user_id", user_id))
        span = Span.asked(since, until, limit)
        await self._settle_others(app_name, user_id)
        operations = self.sync.operations
        return await self.lake.run(lambda: operations.user_events(app_name, user_id, span))

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append one event: 1 PUT, and 1 more for each of `user:` and `app:` that it sets.

        With a `payload_threshold` 1 PUT besides for each large image that the session has not had.

        Partial events are not stored. An event that the session holds already, or that is the
        stored next one, is a re-delivery and accepted once. On failure `session` and `event` stay
        as they were.

        Raises:
            StaleSessionError: another writer has appended since `session` was loaded.
            SessionNotFoundError: the session does not exist.
            AlreadyExistsError: `session` holds another event of that id.
            InputError: the event cannot be stored; nothing was written.
            StorageError: it was not stored, or (`UnknownOutcomeError`) it may have been.
        """
        await self.append_events(session, [event])
        return event

    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """Append many events as one commit, all or none; costs and errors as `append_event`."""
        key = key_of(session)
        check_events(events)
        if not self._hold(key, session, events):
            loop, appender = asyncio.get_running_loop(), self.sync.appender
            work = self._start(key, lambda: appender.commit(key, session, events, loop))
            try:
                show = await asyncio.wrap_future(work)
            except asyncio.CancelledError:
                work.add_done_callback(_show_soon)
                if not appender.is_settled(key):
                    self._start(key, lambda: appender.write_unheard(key))
                raise
            show()
        return list(events)

    def _hold(self, key: SessionKey, session: Session, events: Sequence[Event]) -> bool:
        """Hold events of a turn right here, if nothing has to be waited for."""
        appender = self.sync.appender
        if not appender.can_hold(key, session, events):
            return False
        with self.sync.locks.held_if_free(key) as held:
            if held:
                appender.commit(key, session, events)()
        return held

    @override
    async def flush(self) -> None:
        """Write what is held of turns that have not ended.

        Raises:
            StaleSessionError: another writer has appended to such a session; its events are lost.
            StorageError: as `append_event`; what was not stored is held still.
        """
        failures = []
        for key in self.sync.appender.held():
            try:
                await self._settle(key)
            except Exception as error:  # noqa: BLE001 - the others are written first
                failures.append(error)
        raise_first(failures)

    async def close(self) -> None:
        """Finish what is under way, in any loop, and write what is held. The lake stays open."""
        while self._under_way:
            await asyncio.wait([asyncio.wrap_future(work) for work in self._under_way.copy()])
        await self.flush()

    async def _settle(self, key: SessionKey) -> None:
        """Wait for the append to a session that is under way, and write what is held of it."""
        appender = self.sync.appender
        if not (self.sync.locks.is_free(key) and appender.is_settled(key)):
            await self._alone(key, lambda: appender.write_held(key))

    async def _settle_others(self, app_name: str, user_id: str | None) -> None:
        """Write what is held of a user or an app. What cannot be is told to its own session."""
        appender = self.sync.appender
        for key in appender.held(app_name, user_id):
            await self._alone(key, partial(appender.write_unheard, key))

    async def _alone(self, key: SessionKey, work: Callable[[], R]) -> R:
        """Await `work` in a thread, alone on its session; it goes on when the await is cancelled.

        Appends to one session are put in the order of their calls, and whatever becomes of the
        await or its loop, commit and shared state are one step: ADK's server cancels runs and then
        appends to the same session.
        """
        return await asyncio.wrap_future(self._start(key, work))

    def _start(self, key: SessionKey, work: Callable[[], R]) -> Future[R]:
        context = contextvars.copy_context()
        started = self.sync.locks.run(key, self.lake.submit, lambda: context.run(work))
        self._under_way.add(started)
        started.add_done_callback(self._under_way.discard)
        return started

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lake!r})"

    async def __aenter__(self) -> LakeSessionService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _show_soon(work: Future[Showing]) -> None:
    if work.exception() is None:
        work.result().soon()
