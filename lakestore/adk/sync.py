"""The session service for code without an event loop. Owns nothing but waiting in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from lakestore import errors
from lakestore.adk.appending import Appender, adk_errors, check_events, key_of, session_key
from lakestore.adk.locks import KeyedLocks
from lakestore.adk.operations import (
    OrderBy,
    Page,
    SessionOperations,
    Span,
    check_config,
    check_scope,
    is_blank,
)
from lakestore.adk.uris import Durability, check_durability
from lakestore.checks import check_count
from lakestore.lake import Lake
from lakestore.log.ids import check_id
from lakestore.log.keys import SessionKey


class SyncSessionService:
    """The operations of `LakeSessionService`, where each is documented, blocking.

    Works in a thread with a running event loop too, as in notebooks, which stands still meanwhile.
    """

    def __init__(
        self,
        lake: Lake,
        durability: Durability = "append",
        payload_threshold: int | None = None,
    ) -> None:
        if not isinstance(lake, Lake):
            raise errors.InputError(
                "a service needs an open lake: LakeSessionService(Lake.open(...))."
                f" type={type(lake).__name__}"
            )
        self.lake = lake
        self._by_turn = check_durability(durability) == "turn"
        self._threshold = check_count("payload_threshold", payload_threshold)
        self.operations = SessionOperations(lake)
        self._begin()
        lake.before_close(self.flush)
        lake.after_fork(self._begin)

    def _begin(self) -> None:
        """Hold nothing and wait for nobody: what a forked process inherits is its parent's."""
        self.locks = KeyedLocks()
        self.appender = Appender(
            self.lake, by_turn=self._by_turn, payload_threshold=self._threshold
        )

    def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """See `LakeSessionService.create_session`."""
        return self.operations.create(app_name, user_id, state, session_id)

    def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """See `LakeSessionService.get_session`."""
        if is_blank(session_id):
            return None
        key = session_key(app_name, user_id, session_id)
        check_config(config)
        self._settle(key)
        self._settle_others(app_name, user_id)
        return self.operations.get(key, config)

    def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        order_by: OrderBy | None = None,
        descending: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> ListSessionsResponse:
        """See `LakeSessionService.list_sessions`."""
        check_scope(app_name, user_id)
        page = Page.asked(order_by, descending, limit, offset)
        self._settle_others(app_name, user_id)
        return self.operations.list_page(app_name, user_id, page)

    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `LakeSessionService.delete_session`."""
        if is_blank(session_id):
            return
        key = session_key(app_name, user_id, session_id)
        with self.locks.held(key), adk_errors():
            self.appender.write_held(key)
            self.operations.delete(key)

    def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See `LakeSessionService.get_user_state`."""
        check_scope(app_name, check_id("user_id", user_id))
        self._settle_others(app_name, user_id)
        return self.operations.user_state(app_name, user_id)

    def get_user_events(
        self,
        *,
        app_name: str,
        user_id: str,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """See `LakeSessionService.get_user_events`."""
        check_scope(app_name, check_id("user_id", user_id))
        span = Span.asked(since, until, limit)
        self._settle_others(app_name, user_id)
        return self.operations.user_events(app_name, user_id, span)

    def append_event(self, session: Session, event: Event) -> Event:
        """See `LakeSessionService.append_event`."""
        self.append_events(session, [event])
        return event

    def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """See `LakeSessionService.append_events`."""
        key = key_of(session)
        check_events(events)
        with self.locks.held(key):
            self.appender.commit(key, session, events)()
        return list(events)

    def flush(self, *, app_name: str | None = None, user_id: str | None = None) -> None:
        """See `LakeSessionService.flush`; of everyone, or of an app or user."""
        for name, given in (("app_name", app_name), ("user_id", user_id)):
            if given is not None:
                check_id(name, given)
        failures = []
        for key in self.appender.held(app_name, user_id):
            try:
                self._settle(key)
            except Exception as error:  # noqa: BLE001 - the others are written first
                failures.append(error)
        errors.raise_first(failures)

    def _settle_others(self, app_name: str, user_id: str | None) -> None:
        for key in self.appender.held(app_name, user_id):
            with self.locks.held(key):
                self.appender.write_unheard(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lake!r})"

    def close(self) -> None:
        """See `LakeSessionService.close`."""
        self.flush()

    def _settle(self, key: SessionKey) -> None:
        """Wait for the append to a session that is under way, and write what is held of it."""
        with self.locks.held(key):
            self.appender.write_held(key)

    def __enter__(self) -> SyncSessionService:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
