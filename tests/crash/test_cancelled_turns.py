"""`durability="turn"` and cancellation: what was held is written, whoever was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.storage import MemoryStore
from tests.support.session_writers import APP, said
from tests.support.stepping_store import SteppingStore

KEY: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}


@pytest.fixture
def store() -> SteppingStore:
    """A store in memory that can be stopped."""
    return SteppingStore(MemoryStore())


@pytest.fixture
async def turns(store: SteppingStore) -> AsyncIterator[LakeSessionService]:
    """A service on that store that holds events until their turn ends."""
    with Lake(store) as lake:
        yield LakeSessionService(lake, durability="turn")
        store.open_gate()


def called(event_id: str) -> Event:
    """Return an event in which the agent calls a tool: no end of a turn."""
    call = types.FunctionCall(id="c", name="look", args={})
    content = types.Content(role="model", parts=[types.Part(function_call=call)])
    return Event(id=event_id, author="agent", invocation_id="i", content=content)


def answered(event_id: str) -> Event:
    """Return the agent's final response."""
    content = types.Content(role="model", parts=[types.Part(text="done")])
    return Event(id=event_id, author="agent", invocation_id="i", content=content)


def stored(store: SteppingStore) -> list[str]:
    """Return the ids of the events that a process sees that has just opened the lake."""
    with Lake(store.inner) as lake:
        found = LakeSessionService(lake).sync.get_session(**KEY)
    assert found is not None
    return [event.id for event in found.events]


def ids(session: Session) -> list[str]:
    """Return the ids of the events that the object shows."""
    return [event.id for event in session.events]


async def settle() -> None:
    """Wait for all that goes on in the background."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def cancel_after(
    service: LakeSessionService, session: Session, event: Event, loops: int
) -> None:
    """Append, let the event loop go round so many times, and cancel if it has not ended."""
    task = asyncio.ensure_future(service.append_event(session, event))
    for _ in range(loops):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("loops", range(1, 10))
async def test_held_events_are_written(
    store: SteppingStore, turns: LakeSessionService, loops: int
) -> None:
    """A cancelled append writes what was held before it, though the turn has not ended."""
    session = await turns.create_session(**KEY)
    await turns.append_event(session, said("question", {"k": 1, "app:k": 1}))
    task = asyncio.ensure_future(turns.append_event(session, called("call")))
    for _ in range(loops):
        await asyncio.sleep(0)
    if not task.cancel():
        return  # it had ended before
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()

    assert stored(store) == ids(session) == ["question", "call"]


@pytest.mark.parametrize("loops", range(1, 10))
async def test_first_event_of_a_turn(
    store: SteppingStore, turns: LakeSessionService, loops: int
) -> None:
    """Also when the cancelled event is the first that is held."""
    session = await turns.create_session(**KEY)
    task = asyncio.ensure_future(turns.append_event(session, said("question")))
    for _ in range(loops):
        await asyncio.sleep(0)
    if not task.cancel():
        return  # it had ended before
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()

    assert stored(store) == ids(session)


@pytest.mark.parametrize("stop", range(6))
async def test_end_of_a_turn_at_a_request(
    store: SteppingStore, turns: LakeSessionService, stop: int
) -> None:
    """Cancelled while a turn is written, it is written once, and the next turn follows it."""
    session = await turns.create_session(**KEY)
    await turns.append_event(session, said("question", {"k": 1, "user:k": 1, "app:k": 1}))
    await turns.append_event(session, called("call"))
    store.close_gate()
    task = asyncio.ensure_future(turns.append_event(session, answered("answer")))
    for _ in range(stop):
        await store.stop()
        store.go()
    await store.stop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.open_gate()

    await turns.append_event(session, said("next question"))
    await turns.append_event(session, answered("next answer"))
    written = ["question", "call", "answer", "next question", "next answer"]
    assert stored(store) == ids(session) == written


@pytest.mark.parametrize("loops", range(10))
async def test_flush_leaves_nothing_held(
    store: SteppingStore, turns: LakeSessionService, loops: int
) -> None:
    """After a cancelled append, `flush` leaves nothing that only this process knows."""
    session = await turns.create_session(**KEY)
    await turns.append_event(session, said("question"))
    await cancel_after(turns, session, called("call"), loops)
    await cancel_after(turns, session, called("call 2"), loops)
    await turns.close()

    assert stored(store) == ids(session)
    await turns.append_event(session, answered("answer"))
    assert stored(store) == ids(session)
    assert ids(session)[0] == "question"
    assert ids(session)[-1] == "answer"


async def test_cancelled_flush(store: SteppingStore, turns: LakeSessionService) -> None:
    """A cancelled flush goes on, and the session with it."""
    session = await turns.create_session(**KEY)
    await turns.append_event(session, said("question"))
    store.close_gate()
    flushing = asyncio.ensure_future(turns.flush())
    await store.stop()
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    store.open_gate()
    await turns.append_event(session, answered("answer"))

    assert stored(store) == ids(session) == ["question", "answer"]
