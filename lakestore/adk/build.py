"""From folded history to ADK's `Session` objects. Owns which events and what state they show."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from lakestore.history.scopes import ScopeFold
from lakestore.history.view import SessionView
from lakestore.log.commits import Confirmations, Marker
from lakestore.log.keys import Scope, SessionKey
from lakestore.tables.events import EventRow

R = TypeVar("R")
Folds = Mapping[Scope, ScopeFold]


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list of sessions needs of one; its events are not kept in memory."""

    key: SessionKey
    marker: Marker
    state: Mapping[str, Any]
    time: float
    newest: tuple[EventRow, ...]

    @classmethod
    def of(cls, view: SessionView) -> Listed:
        """Return what a list needs of `view`."""
        newest = view.newest if view.newest and view.newest[0].stamp else ()
        return cls(view.key, view.marker, view.state, view.last_update_time, newest)

    def session(self, folds: Folds, confirmations: Confirmations) -> Session:
        """Return the session without its events, as ADK's `list_sessions` does."""
        return _session(self.key, self.marker, self.state, folds, [], self.time, confirmations)


def session_of(
    view: SessionView, folds: Folds, events: list[Event], confirmations: Confirmations
) -> Session:
    """Return the session with `events` and the state of all its scopes.

    Args:
        view: The session.
        folds: The shared state of its user and app.
        events: What it shall show.
        confirmations: Remembers when the view was confirmed.
    """
    time = view.last_update_time
    return _session(view.key, view.marker, view.state, folds, events, time, confirmations)


def wanted_rows(config: GetSessionConfig | None) -> tuple[int | None, float | None]:
    """Return how many events `config` asks for, the last ones (None: all), and from which time on.

    ADK's contract: `after_timestamp` is inclusive (0.0 is a time like any other), and
    `num_recent_events` keeps the most recent of what is left.
    """
    return (config.num_recent_events, config.after_timestamp) if config else (None, None)


def last(rows: Sequence[R], count: int | None) -> Sequence[R]:
    """Return the last `count` of `rows`, all of them for None or when there are fewer."""
    return rows if count is None else rows[max(0, len(rows) - count) :]


def _session(
    key: SessionKey,
    marker: Marker,
    state: Mapping[str, Any],
    folds: Folds,
    events: list[Event],
    time: float,
    confirmations: Confirmations,
) -> Session:
    session = Session(
        app_name=key.app_name,
        user_id=key.user_id,
        id=key.session_id,
        state=_merged_state(key, state, folds),
        events=events,
        last_update_time=time,
    )
    session._storage_update_marker = confirmations.text(key.log, marker)
    return session


def _merged_state(key: SessionKey, state: Mapping[str, Any], folds: Folds) -> dict[str, Any]:
    """Return the state of all scopes, keys prefixed as in ADK's `_merge_state`."""
    merged = copy.deepcopy(dict(state))
    for scope, prefix in (
        (Scope(key.app_name, None), State.APP_PREFIX),
        (Scope(key.app_name, key.user_id), State.USER_PREFIX),
    ):
        if scope in folds:
            merged.update({prefix + name: v for name, v in folds[scope].values().items()})
    return merged
