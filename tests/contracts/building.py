"""The words the session contract is written in: scopes, events, reads.

Owns how a test says an event or reads a session in one line. It knows no service and no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types


class Scope(TypedDict):
    """Whose sessions."""

    app_name: str
    user_id: str


class SessionKey(Scope):
    """Which session."""

    session_id: str


ANA: Scope = {"app_name": "travel", "user_id": "ana"}
BEN: Scope = {"app_name": "travel", "user_id": "ben"}
ANA_AT_BANK: Scope = {"app_name": "bank", "user_id": "ana"}


def key_of(session: Session) -> SessionKey:
    """Return the key under which `session` is stored."""
    return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}


def said(
    text: str,
    *,
    author: str = "user",
    at: float | None = None,
    delta: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Event:
    """Return an event of `author` with one text part."""
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return _event(author, at, delta, content=content, **fields)


def noted(delta: Mapping[str, Any], *, author: str = "agent", at: float | None = None) -> Event:
    """Return an event without content that changes the state."""
    return _event(author, at, delta)


def _event(author: str, at: float | None, delta: Mapping[str, Any] | None, **fields: Any) -> Event:
    fields = {"invocation_id": "turn-1", **fields}
    if at is not None:
        fields["timestamp"] = at
    if delta is not None:
        # Given as an object, so that values of any type stay what they are.
        fields["actions"] = EventActions(state_delta=dict(delta))
    return Event(author=author, **fields)


async def loaded(
    service: BaseSessionService,
    session: Session,
    *,
    num_recent_events: int | None = None,
    after_timestamp: float | None = None,
) -> Session:
    """Return a new handle on the stored session, which must be there."""
    config = GetSessionConfig(num_recent_events=num_recent_events, after_timestamp=after_timestamp)
    found = await service.get_session(**key_of(session), config=config)
    assert found is not None
    return found


async def session_with(
    service: BaseSessionService, events: Iterable[Event], scope: Scope = ANA
) -> Session:
    """Return a handle on a new session that holds `events`."""
    session = await service.create_session(**scope)
    for event in events:
        await service.append_event(session, event)
    return session


def texts(session: Session) -> list[str]:
    """Return the text of every event of `session`, "" where there is none."""
    return [text_of(event) for event in session.events]


def text_of(event: Event) -> str:
    """Return the text of `event`, "" where there is none."""
    parts = event.content.parts if event.content else None
    return "".join(part.text or "" for part in parts or [])


def contents(session: Session) -> dict[str, Any]:
    """Return all that a caller sees of `session`, for comparing two handles."""
    return {name: getattr(session, name) for name in type(session).model_fields}
