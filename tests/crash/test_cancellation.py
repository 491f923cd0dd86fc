"""Writes that are cancelled: at every request of theirs, and at every turn of the event loop.

ADK's server cancels runs and then appends to the same session. So afterwards the `Session` object
is as it was, or shows what is stored, and the next append through it succeeds.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from lakestore.storage import MemoryStore
from tests.support.lake_against_model import shown
from tests.support.session_writers import APP, said
from tests.support.stepping_store import SteppingStore

DELTA: dict[str, Any] = {"k": 1, "user:k": 1, "app:k": 1}
KEY: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
# A commit and an entry for each of two shared scopes, each with a stop before and after.
STOPS = range(6)
LOOPS = range(12)

Write = Callable[[LakeSessionService, Session], Coroutine[Any, Any, Any]]
WRITES: dict[str, tuple[Write, list[str]]] = {
    "one": (lambda service, session: service.append_event(session, said("new", DELTA)), ["new"]),
    "three": (
        lambda service, session: service.append_events(
            session, [said("new", DELTA), said("new 2"), said("new 3", {"k": 3})]
        ),
        ["new", "new 2", "new 3"],
    ),
}


@pytest.fixture
def store() -> SteppingStore:
    """A store in memory that can be stopped."""
    return SteppingStore(MemoryStore())


@pytest.fixture
async def service(store: SteppingStore) -> AsyncIterator[LakeSessionService]:
    """A service on that store."""
    with Lake(store) as lake:
        yield LakeSessionService(lake)
        store.open_gate()


async def begin(service: LakeSessionService) -> Session:
    """Create the session, with one event."""
    session = await service.create_session(**KEY)
    await service.append_event(session, said("first"))
    return session


def stored(store: SteppingStore) -> Session | None:
    """Return the session as a process sees it that has just opened the lake."""
    with Lake(store.inner) as lake:
        return LakeSessionService(lake).sync.get_session(**KEY)


async def cancel_at(store: SteppingStore, call: Coroutine[Any, Any, Any], stop: int) -> None:
    """Let `call` pass so many stops and cancel it at the next, while its thread stands there."""
    store.close_gate()
    task = asyncio.ensure_future(call)
    for _ in range(stop):
        await store.stop(task)
        store.go()
    if await store.stop(task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task  # it needs fewer requests than that


async def cancel_after(call: Coroutine[Any, Any, Any], loops: int) -> None:
    """Let the event loop go round so many times and cancel `call`, if it has not ended."""
    task = asyncio.ensure_future(call)
    for _ in range(loops):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def check_goes_on(
    store: SteppingStore, service: LakeSessionService, session: Session, new: list[str]
) -> None:
    """The next append succeeds, and nothing is lost, doubled or shown that is not stored."""
    await service.append_event(session, said("next", {"next": 1}))
    found = stored(store)
    assert found is not None
    assert [event.id for event in session.events] in (
        ["first", *new, "next"],
        ["first", "next"],
    )
    assert session.model_dump() == found.model_dump()
    assert found.state.keys() in ({*DELTA, "next"}, {"next"})


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("what", WRITES)
async def test_append_at_a_request(
    store: SteppingStore, service: LakeSessionService, what: str, stop: int
) -> None:
    """An append that is cancelled at a request shows nothing until all of it stands."""
    session = await begin(service)
    write, new = WRITES[what]
    before = shown(copy.deepcopy(session))

    await cancel_at(store, write(service, session), stop)

    assert shown(session) == before
    store.open_gate()
    await check_goes_on(store, service, session, new)
    assert len(session.events) == len(new) + 2


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("what", WRITES)
async def test_append_at_an_await(
    store: SteppingStore, service: LakeSessionService, what: str, loops: int
) -> None:
    """So does one that is cancelled at any turn of the event loop."""
    session = await begin(service)
    write, new = WRITES[what]
    await cancel_after(write(service, session), loops)
    await check_goes_on(store, service, session, new)


async def test_cancelled_again_and_again(store: SteppingStore, service: LakeSessionService) -> None:
    """Appends that are all cancelled leave a session that goes on, whatever landed."""
    session = await begin(service)
    for loops in LOOPS:
        await cancel_after(service.append_event(session, said(f"e{loops}", DELTA)), loops)
    await service.append_event(session, said("next"))

    found = stored(store)
    assert found is not None
    assert session.model_dump() == found.model_dump()
    events = [event.id for event in found.events]
    assert events == ["first", *(f"e{n}" for n in LOOPS if f"e{n}" in events), "next"]


@pytest.mark.parametrize("stop", STOPS)
async def test_second_delivery_after_cancellation(
    store: SteppingStore, service: LakeSessionService, stop: int
) -> None:
    """Who cancels an append and delivers the same event again stores it once."""
    session = await begin(service)
    event = said("new", DELTA)
    await cancel_at(store, service.append_event(session, copy.deepcopy(event)), stop)
    store.open_gate()
    await service.append_event(session, copy.deepcopy(event))

    found = stored(store)
    assert found is not None
    assert [event.id for event in found.events] == ["first", "new"]
    assert session.model_dump() == found.model_dump()


async def test_two_tasks_are_put_in_order(
    store: SteppingStore, service: LakeSessionService
) -> None:
    """Tasks that append through one object are served first come, first served."""
    session = await begin(service)
    names = [f"e{number:02}" for number in range(20)]
    await asyncio.gather(*(service.append_event(session, said(name)) for name in names))

    found = stored(store)
    assert found is not None
    assert [event.id for event in found.events] == ["first", *names]
    assert session.model_dump() == found.model_dump()


async def test_cancelled_while_it_waits_its_turn(
    store: SteppingStore, service: LakeSessionService
) -> None:
    """A task that is cancelled in the queue of an object neither holds up nor overtakes others."""
    session = await begin(service)
    store.close_gate()
    names = ["e0", "e1", "e2", "e3"]
    tasks = [
        asyncio.ensure_future(service.append_event(session, said(name, DELTA))) for name in names
    ]
    await store.stop()
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.sleep(0)
    store.open_gate()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(result, asyncio.CancelledError) for result in results] == [
        False,
        True,
        True,
        False,
    ]
    found = stored(store)
    assert found is not None
    events = [event.id for event in found.events]
    assert events == ["first", *(name for name in names if name in events)]
    assert {"e0", "e3"} <= set(events)
    assert session.model_dump() == found.model_dump()


@pytest.mark.parametrize("loops", LOOPS)
async def test_delete_at_an_await(
    store: SteppingStore, service: LakeSessionService, loops: int
) -> None:
    """A deletion that is cancelled goes on or has not begun."""
    session = await begin(service)
    await cancel_after(service.delete_session(**KEY), loops)
    await check_deleted_or_goes_on(store, service, session)


# What is read first, and the commit, each with a stop before and after.
@pytest.mark.parametrize("stop", range(8))
async def test_delete_at_a_request(
    store: SteppingStore, service: LakeSessionService, stop: int
) -> None:
    """So does one that is cancelled at a request."""
    session = await begin(service)
    await cancel_at(store, service.delete_session(**KEY), stop)
    store.open_gate()
    await check_deleted_or_goes_on(store, service, session)


async def check_deleted_or_goes_on(
    store: SteppingStore, service: LakeSessionService, session: Session
) -> None:
    """The next append says whether the session is there; a second deletion ends it."""
    try:
        await service.append_event(session, said("next"))
    except SessionNotFoundError:
        assert stored(store) is None
    else:
        found = stored(store)
        assert found is not None
        assert session.model_dump() == found.model_dump()
    await service.delete_session(**KEY)
    assert stored(store) is None
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("too late"))


@pytest.mark.parametrize("loops", LOOPS)
async def test_create_at_an_await(
    store: SteppingStore, service: LakeSessionService, loops: int
) -> None:
    """A creation that is cancelled makes the session with all of its state, or none."""
    await cancel_after(service.create_session(**KEY, state=dict(DELTA)), loops)
    await check_created_once(store, service)


# A listing, the commit, two entries, two listings for what is shown.
@pytest.mark.parametrize("stop", range(12))
async def test_create_at_a_request(
    store: SteppingStore, service: LakeSessionService, stop: int
) -> None:
    """So does one that is cancelled at a request."""
    await cancel_at(store, service.create_session(**KEY, state=dict(DELTA)), stop)
    store.open_gate()
    await check_created_once(store, service)


async def check_created_once(store: SteppingStore, service: LakeSessionService) -> None:
    """A second creation is refused or makes it; either way it is there once, and goes on."""
    with suppress(AlreadyExistsError):
        await service.create_session(**KEY, state=dict(DELTA))
    found = stored(store)
    assert found is not None
    assert found.state == DELTA
    await service.append_event(found, said("next"))
    assert await service.get_user_state(app_name=APP, user_id="u") == {"k": 1}


@pytest.mark.parametrize("stop", STOPS)
async def test_server_cancels_a_run_and_appends(
    store: SteppingStore, service: LakeSessionService, stop: int
) -> None:
    """A run is cancelled in the middle of an append; what its server appends next follows it."""
    session = await begin(service)

    async def run() -> None:
        for number in range(9):
            await service.append_event(session, said(f"e{number}", DELTA))

    await cancel_at(store, run(), len(STOPS) + stop)
    # The server does not wait for the run's append: it appends at once.
    appending = asyncio.ensure_future(service.append_event(session, said("cancelled")))
    await asyncio.sleep(0)
    store.open_gate()
    await appending

    found = stored(store)
    assert found is not None
    assert [event.id for event in found.events] == ["first", "e0", "e1", "cancelled"]
    assert session.model_dump() == found.model_dump()
