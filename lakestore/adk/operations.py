"""What sessions of a lake are asked for, blocking, and knowing nothing of turns and locks.

Owns ADK's semantics of creating, reading, listing and deleting over `lakestore.history`. The two
faces, `lakestore.adk.sync` and `lakestore.adk.sessions`, settle what is under way before they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from google.adk.events.event import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from lakestore import errors
from lakestore.adk.appending import adk_errors, session_key
from lakestore.adk.build import Listed, chosen_events, last, session_of
from lakestore.adk.convert import json_state, to_event
from lakestore.history.user_events import event_rows, event_time
from lakestore.lake import Lake
from lakestore.log.keys import Scope, SessionKey, check_id

OrderBy = Literal["last_update_time", "session_id"]

_RECENT_SECONDS = 1.0
_ORDERS: dict[str, Callable[[Listed], tuple[object, ...]]] = {
    "last_update_time": lambda it: (it.time, it.key.user_id, it.key.session_id),
    "session_id": lambda it: (it.key.session_id, it.key.user_id),
}


class SessionOperations:
    """Works on the sessions of one lake; safe to use from many threads."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def create(
        self, app_name: str, user_id: str, state: dict[str, Any] | None, session_id: str | None
    ) -> Session:
        """Create a session; without an id, or with a blank one, its id is generated."""
        generated = is_blank(session_id)
        key = session_key(app_name, user_id, platform_uuid.new_uuid() if generated else session_id)
        delta = json_state(state or {})
        with adk_errors():
            view = self._lake.sessions.create(key, delta, generated=generated)
        shared = self._lake.sessions.shared
        scopes = (Scope(app_name, user_id), Scope(app_name, None))
        folds = shared.recent(scopes, _RECENT_SECONDS)
        return session_of(view, folds, [], self._lake.sessions.confirmations)

    def get(self, key: SessionKey, config: GetSessionConfig | None) -> Session | None:
        """Return a session with the events that `config` asks for, None when there is none."""
        found = self._lake.sessions.read(key)
        if found is None:
            return None
        view, folds = found
        events = chosen_events(view, config)
        return session_of(view, folds, events, self._lake.sessions.confirmations)

    def list_page(
        self,
        app_name: str,
        user_id: str | None,
        order_by: OrderBy | None,
        descending: bool,
        limit: int | None,
        offset: int | None,
    ) -> ListSessionsResponse:
        """Return a page of sessions without events."""
        check_id("app_name", app_name)
        if user_id is not None:
            check_id("user_id", user_id)
        if order_by is not None and order_by not in _ORDERS:
            raise errors.InputError(f"order_by is one of {sorted(_ORDERS)}. {order_by=}")
        _check_count("limit", limit)
        _check_count("offset", offset)
        listed = [Listed.of(view) for view in self._lake.sessions.read_all(app_name, user_id)]
        listed.sort(key=_ORDERS[order_by or "last_update_time"], reverse=descending)
        page = listed[offset or 0 :]
        return self._response(app_name, user_id, page if limit is None else page[:limit])

    def _response(
        self, app_name: str, user_id: str | None, page: Sequence[Listed]
    ) -> ListSessionsResponse:
        shared, confirmations = self._lake.sessions.shared, self._lake.sessions.confirmations
        if user_id is None:
            folds = shared.read_app(app_name, {listed.key.user_id for listed in page})
        else:
            folds = shared.read((Scope(app_name, user_id), Scope(app_name, None)))
        for listed in page:
            folds = shared.complete(listed.newest, folds)
        return ListSessionsResponse(sessions=[it.session(folds, confirmations) for it in page])

    def delete(self, key: SessionKey) -> None:
        """Delete a session; nothing happens when there is none."""
        self._lake.sessions.delete(key)

    def user_state(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, keys without prefix."""
        scope = Scope(check_id("app_name", app_name), check_id("user_id", user_id))
        return self._lake.sessions.shared.read([scope])[scope].values()

    def user_events(
        self,
        app_name: str,
        user_id: str,
        since: datetime | float | None,
        until: datetime | float | None,
        limit: int | None,
    ) -> list[Event]:
        """Return the events of all sessions of a user, in chronological order."""
        _check_count("limit", limit)
        rows = event_rows(self._lake.sessions, app_name, user_id, since, until)
        # Stable: what happened at one instant in one session stays in commit order.
        rows.sort(key=event_time)
        return [to_event(row) for row in last(rows, limit)]


def is_blank(session_id: object) -> bool:
    """Tell whether an id is missing, as ADK's services see it: None, empty, or only blanks."""
    return session_id is None or (isinstance(session_id, str) and not session_id.strip())


def _check_count(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise errors.InputError(f"{name} must be 0 or more. {name}={value}")
