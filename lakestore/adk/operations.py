"""What sessions of a lake are asked for, blocking, and knowing nothing of turns and locks.

Owns ADK's semantics of creating, reading, listing and deleting over `lakestore.history`. The two
faces, `lakestore.adk.sync` and `lakestore.adk.sessions`, settle what is under way before they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from google.adk.events.event import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from lakestore.adk.appending import adk_errors, session_key
from lakestore.adk.build import Listed, last, session_of, wanted_rows
from lakestore.adk.convert import json_state, to_event
from lakestore.checks import check_choice, check_count, check_flag, check_seconds, check_time
from lakestore.errors import InputError
from lakestore.history.reading import Found, Wanted
from lakestore.history.user_events import event_rows
from lakestore.lake import Lake
from lakestore.log.ids import check_id
from lakestore.log.keys import Scope, SessionKey
from lakestore.tables.events import EventRow, event_time

OrderBy = Literal["last_update_time", "session_id"]

_RECENT_SECONDS = 1.0
_ORDERS: dict[str, Callable[[Listed], tuple[object, ...]]] = {
    "last_update_time": lambda it: (it.time, it.key.user_id, it.key.session_id),
    "session_id": lambda it: (it.key.session_id, it.key.user_id),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Which of the sessions a list shows, and in what order."""

    order: Callable[[Listed], tuple[object, ...]]
    """The key to sort by."""
    descending: bool
    first: int
    """How many to leave out."""
    limit: int | None
    """At most so many."""

    @classmethod
    def asked(cls, order_by: object, descending: object, limit: object, offset: object) -> Page:
        """Return the page that a caller asks for.

        Raises:
            InputError: an argument makes no sense.
        """
        order = "last_update_time" if order_by is None else order_by
        return cls(
            _ORDERS[check_choice("order_by", order, _ORDERS)],
            check_flag("descending", descending),
            check_count("offset", offset) or 0,
            check_count("limit", limit),
        )

    def of(self, listed: Iterable[Listed]) -> list[Listed]:
        """Return those of `listed` that are on it."""
        ordered = sorted(listed, key=self.order, reverse=self.descending)[self.first :]
        return ordered if self.limit is None else ordered[: self.limit]


@dataclass(frozen=True, slots=True)
class Span:
    """Which of a user's events are asked for."""

    since: float | None
    until: float | None
    limit: int | None
    """At most so many, the most recent."""

    @classmethod
    def asked(cls, since: object, until: object, limit: object) -> Span:
        """Return the span that a caller asks for.

        Raises:
            InputError: an argument makes no sense.
        """
        return cls(
            check_time("since", since), check_time("until", until), check_count("limit", limit)
        )


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
        delta = json_state({} if state is None else state)
        with adk_errors():
            view = self._lake.sessions.create(key, delta, generated=generated)
        shared = self._lake.sessions.shared
        scopes = (Scope(app_name, user_id), Scope(app_name, None))
        folds = shared.recent(scopes, _RECENT_SECONDS)
        return session_of(view, folds, [], self._lake.sessions.confirmations)

    def get(self, key: SessionKey, config: GetSessionConfig | None) -> Session | None:
        """Return a session with the events that `config` asks for, None when there is none."""
        last_ones, after = wanted_rows(config)
        wanted = Wanted(last_ones if after is None else None, after)
        sessions = self._lake.sessions

        def read() -> tuple[Found | None, Sequence[EventRow]]:
            found = sessions.read_events(key, wanted)
            rows = found.rows if found else []
            if after is not None:
                rows = [row for row in rows if event_time(row) >= after]
            return found, last(rows, last_ones)

        found, rows = sessions.payloads.whole(read, lambda: sessions.begin_again(key.app_name, key))
        if found is None:
            return None
        events = [to_event(row) for row in rows]
        return session_of(found.view, found.folds, events, sessions.confirmations)

    def list_page(self, app_name: str, user_id: str | None, page: Page) -> ListSessionsResponse:
        """Return a page of sessions without events."""
        views = self._lake.sessions.read_all(app_name, user_id)
        return self._response(app_name, user_id, page.of(map(Listed.of, views)))

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
        scope = Scope(app_name, user_id)
        return self._lake.sessions.shared.read([scope])[scope].values()

    def user_events(self, app_name: str, user_id: str, span: Span) -> list[Event]:
        """Return the events of all sessions of a user, in chronological order."""
        sessions = self._lake.sessions

        def read() -> tuple[None, Sequence[EventRow]]:
            rows = event_rows(sessions, app_name, user_id, span.since, span.until)
            # Stable: what happened at one instant in one session stays in commit order.
            rows.sort(key=event_time)
            return None, last(rows, span.limit)

        _, rows = sessions.payloads.whole(read, lambda: sessions.begin_again(app_name))
        return [to_event(row) for row in rows]


def is_blank(session_id: object) -> bool:
    """Tell whether an id is missing, as ADK's services see it: None, empty, or only blanks."""
    return session_id is None or (isinstance(session_id, str) and not session_id.strip())


def check_scope(app_name: object, user_id: object) -> None:
    """Refuse what cannot name an app or one of its users; None stands for all of them.

    Raises:
        InputError: one of them cannot be an id.
    """
    check_id("app_name", app_name)
    if user_id is not None:
        check_id("user_id", user_id)


def check_config(config: object) -> None:
    """Refuse what does not say which events to read.

    Raises:
        InputError: it is no `GetSessionConfig`, or was given values that make no sense.
    """
    if config is None:
        return
    if not isinstance(config, GetSessionConfig):
        raise InputError(f"config is a GetSessionConfig. type={type(config).__name__}")
    # Pydantic does not check what is assigned to a field.
    check_count("num_recent_events", config.num_recent_events)
    if config.after_timestamp is not None:
        check_seconds("after_timestamp", config.after_timestamp)
