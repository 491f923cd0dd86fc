"""What requests were made in a block, and events to make them with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from lakestore import LakeSessionService

APP = "travel"
USER = "ana"


@contextmanager
def requests_of(service: LakeSessionService) -> Iterator[dict[str, int]]:
    """Yield a dictionary that holds, after the block, the requests made in it, by kind."""
    before = service.lake.metrics.requests
    made: dict[str, int] = {}
    yield made
    made.update(service.lake.metrics.requests_since(before))


def said(text: str, delta: dict[str, Any] | None = None) -> Event:
    """Return an answer of an agent, which ends its turn."""
    return Event(
        author="agent",
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta or {}),
    )


def asked(text: str) -> Event:
    """Return a message of a user, which begins a turn."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content)


async def begin(service: LakeSessionService, events: int = 0, user: str = USER) -> Session:
    """Create a session under a generated id and append `events` events, one by one."""
    session = await service.create_session(app_name=APP, user_id=user)
    for number in range(events):
        await service.append_event(session, said(f"{number}"))
    return session


async def load(service: LakeSessionService, session: Session, **config: Any) -> Session | None:
    """Read the session that `session` names."""
    return await service.get_session(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        config=GetSessionConfig(**config) if config else None,
    )
