"""The session service, blocking. Owns ADK's session operations over `lakestore.history`.

`lakestore.adk.sessions` awaits these methods and documents them; nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal

from google.adk.events.event import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from lakestore import errors
from lakestore.adk.appending import Appender, adk_errors, key_of, session_key
from lakestore.adk.build import Listed, chosen_events, session_of
from lakestore.adk.convert import json_state, to_event
from lakestore.adk.locks import KeyedLocks
from lakestore.history.user_events import event_rows, event_time
from lakestore.lake import Lake
from lakestore.log.keys import Scope, check_id

Durability = Literal["append", "turn"]
OrderBy = Literal["last_update_time", "session_id"]

_RECENT_SECONDS = 1.0
_ORDERS = {
    "last_update_time": lambda it: (it.time, it.key.user_id, it.key.session_id),
    "session_id": lambda it: (it.key.session_id, it.key.user_id),
}


class SyncSessionService:
    """The operations of `LakeSessionService`, where each is documented, for code without a loop."""

    def __init__(self, lake: Lake, durability: Durability = "append") -> None:
        if durability not in ("append", "turn"):
            raise errors.InputError(f'durability is "append" or "turn". {durability=}')
        self.lake = lake
        self.locks = KeyedLocks()
        self.appender = Appender(lake, by_turn=durability == "turn")

    def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """See `LakeSessionService.create_session`."""
        given = session_id if session_id is not None and session_id.strip() else None
        key = session_key(app_name, user_id, given or platform_uuid.new_uuid())
        delta = json_state(state or {})
        with adk_errors():
            view = self.lake.sessions.create(key, delta, generated=given is None)
        shared = self.lake.sessions.shared
        scopes = (Scope(app_name, user_id), Scope(app_name, None))
        folds = {scope: shared.recent(scope, _RECENT_SECONDS) for scope in scopes}
        return session_of(view, folds, [], self.lake.sessions.confirmations)

    def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """See `LakeSessionService.get_session`."""
        if not session_id or not session_id.strip():
            return None
        key = session_key(app_name, user_id, session_id)
        self.flush(app_name=app_name, user_id=user_id)
        found = self.lake.sessions.read(key)
        if found is None:
            return None
        view, folds = found
        return session_of(
            view, folds, chosen_events(view, config), self.lake.sessions.confirmations
        )

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
        check_id("app_name", app_name)
        if user_id is not None:
            check_id("user_id", user_id)
        _check_page(order_by, limit, offset)
        self.flush(app_name=app_name, user_id=user_id)
        listed = [Listed.of(view) for view in self.lake.sessions.read_all(app_name, user_id)]
        listed.sort(key=_ORDERS[order_by or "last_update_time"], reverse=descending)
        page = listed[offset or 0 :]
        return self._response(app_name, user_id, page if limit is None else page[:limit])

    def _response(
        self, app_name: str, user_id: str | None, page: list[Listed]
    ) -> ListSessionsResponse:
        shared = self.lake.sessions.shared
        if user_id is None:
            folds = shared.read_app(app_name, {listed.key.user_id for listed in page})
        else:
            scopes = (Scope(app_name, user_id), Scope(app_name, None))
            folds = {scope: shared.read(scope) for scope in scopes}
        for listed in page:
            folds = shared.complete(listed.newest, folds)
        confirmations = self.lake.sessions.confirmations
        return ListSessionsResponse(
            sessions=[listed.session(folds, confirmations) for listed in page]
        )

    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `LakeSessionService.delete_session`."""
        if not session_id or not session_id.strip():
            return
        key = session_key(app_name, user_id, session_id)
        with self.locks.held(key), adk_errors():
            self.appender.write_held(key)
            self.lake.sessions.delete(key)

    def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See `LakeSessionService.get_user_state`."""
        scope = Scope(check_id("app_name", app_name), check_id("user_id", user_id))
        self.flush(app_name=app_name, user_id=user_id)
        return self.lake.sessions.shared.read(scope).values()

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
        _check_page(None, limit, None)
        self.flush(app_name=app_name, user_id=user_id)
        rows = event_rows(self.lake.sessions, app_name, user_id, since, until)
        # Stable: what happened at one instant in one session stays in commit order.
        rows.sort(key=event_time)
        return [to_event(row) for row in (rows if limit is None else rows[len(rows) - limit :])]

    def append_event(self, session: Session, event: Event) -> Event:
        """See `LakeSessionService.append_event`."""
        self.append_events(session, [event])
        return event

    def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """See `LakeSessionService.append_events`."""
        key = key_of(session)
        with self.locks.held(key):
            self.appender.apply(session, self.appender.commit(key, session, events))
        return list(events)

    def flush(self, *, app_name: str | None = None, user_id: str | None = None) -> None:
        """See `LakeSessionService.flush`."""
        for key in self.appender.held(app_name, user_id):
            with self.locks.held(key):
                self.appender.write_held(key)

    def close(self) -> None:
        """See `LakeSessionService.close`."""
        self.flush()

    def __enter__(self) -> SyncSessionService:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check_page(order_by: str | None, limit: int | None, offset: int | None) -> None:
    if order_by is not None and order_by not in _ORDERS:
        raise errors.InputError(f"order_by is one of {sorted(_ORDERS)}. {order_by=}")
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and value < 0:
            raise errors.InputError(f"{name} must be 0 or more. {name}={value}")
