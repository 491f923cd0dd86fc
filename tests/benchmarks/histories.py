"""Events to measure with: turns of four, as an agent that calls a tool writes them.

Owns what they look like. Every call makes fresh objects, since an append changes what it is given.
"""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

APP = "travel_desk"
USER = "mia@example.com"
TURN = 4

_BEGIN = 1_760_000_000.0
_ANSWER = {
    "flights": [
        {
            "flight_number": f"HAT{number}",
            "origin": "JFK",
            "destination": "SEA",
            "departs": "2024-05-20T06:00:00",
            "arrives": "2024-05-20T12:15:00",
            "seats": {"economy": 12, "business": 3},
            "prices": {"economy": 182, "business": 411},
        }
        for number in (69, 83, 136)
    ]
}


def events(count: int, first: int = 0, *, shared_state: bool = False) -> list[Event]:
    """Return `count` events from number `first`, each fourth of which sets a key of the session.

    Args:
        count: How many.
        first: The number of the first one; turns begin at multiples of `TURN`.
        shared_state: Let the fourth set a `user:` key instead.
    """
    return [_event(number, shared_state) for number in range(first, first + count)]


def _event(number: int, shared_state: bool) -> Event:
    turn, place = divmod(number, TURN)
    role, part = _part(turn, place)
    key = "user:last_route" if shared_state else "last_route"
    delta: dict[str, Any] = {key: f"JFK-SEA {turn}"} if place == 3 else {}
    spoke = place in (1, 3)
    return Event(
        id=f"event-{number:08}",
        invocation_id=f"turn-{turn:06}",
        author="user" if place == 0 else "flight_agent",
        timestamp=_BEGIN + number * 0.7,
        content=types.Content(role=role, parts=[part]),
        actions=EventActions(state_delta=delta),
        usage_metadata=_usage(turn) if spoke else None,
        finish_reason=types.FinishReason.STOP if spoke else None,
    )


def _part(turn: int, place: int) -> tuple[str, types.Part]:
    call_id, tool = f"call-{turn}", "search_flights"
    if place == 0:
        return "user", types.Part(
            text=f"Request {turn}: I'd like to fly from New York to Seattle on May 20, one way,"
            " in economy, and not before eleven in the morning."
        )
    if place == 1:
        asked = {"origin": "JFK", "destination": "SEA", "date": "2024-05-20", "page": turn}
        return "model", types.Part(
            function_call=types.FunctionCall(id=call_id, name=tool, args=asked)
        )
    if place == 2:
        found = types.FunctionResponse(id=call_id, name=tool, response=_ANSWER)
        return "user", types.Part(function_response=found)
    return "model", types.Part(
        text="There are three direct flights: HAT069 at 6:00, HAT083 at 8:30 and HAT136 at 11:45,"
        " each with economy seats for 182 dollars. Only HAT136 leaves after eleven. Shall I book"
        " it with your certificate, and pay the rest with the card that ends in 7447?"
    )


def _usage(turn: int) -> types.GenerateContentResponseUsageMetadata:
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=900 + turn,
        candidates_token_count=120,
        total_token_count=1_020 + turn,
    )


async def begin(service: BaseSessionService, session_id: str) -> Session:
    """Create the session of that id, of the one user there is."""
    return await service.create_session(app_name=APP, user_id=USER, session_id=session_id)


async def record(service: BaseSessionService, session_id: str, count: int) -> None:
    """Create a session and append `count` events to it, one by one."""
    session = await begin(service, session_id)
    for event in events(count):
        await service.append_event(session, event)
