"""Many calls at once on few threads (R115): everyone is served, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from lakestore.adk.uris import Durability
from lakestore.storage import MemoryStore
from tests.support.faulty_store import AroundStore
from tests.support.session_writers import APP, said

THREADS = 4
CALLS = 64
SECONDS = 20.0


class FarStore(AroundStore):
    """A store that is worth a thread for each request."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.near = False


@pytest.fixture(params=["near", "far"])
async def lake(request: pytest.FixtureRequest) -> AsyncIterator[Lake]:
    """A lake with few threads."""
    store = MemoryStore() if request.param == "near" else FarStore()
    with Lake(store, max_concurrency=THREADS) as lake:
        yield lake


async def all_of(calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Await all calls at once, and fail when one of them never ends."""
    return await asyncio.wait_for(asyncio.gather(*calls), SECONDS)


async def begin(service: LakeSessionService, count: int) -> list[Session]:
    """Create so many sessions, each with an event."""
    sessions = await all_of(
        [
            service.create_session(app_name=APP, user_id="u", session_id=f"s{number}")
            for number in range(count)
        ]
    )
    await all_of([service.append_event(session, said("e")) for session in sessions])
    return sessions


def read(service: LakeSessionService, session: Session) -> Coroutine[Any, Any, Session | None]:
    """Read a session."""
    return service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )


async def test_more_reads_than_threads(lake: Lake) -> None:
    """Sixty-four reads at once on four threads all return."""
    service = LakeSessionService(lake)
    sessions = await begin(service, CALLS)
    cold = LakeSessionService(lake)
    found = await all_of([read(cold, session) for session in sessions])
    assert all(each is not None and len(each.events) == 1 for each in found)


async def test_more_appends_to_one_session_than_threads(lake: Lake) -> None:
    """Appends that wait for their turn take no thread from the one whose turn it is."""
    service = LakeSessionService(lake)
    (session,) = await begin(service, 1)
    await all_of([service.append_event(session, said(f"e{number}")) for number in range(CALLS)])
    assert [event.id for event in session.events[1:]] == [f"e{number}" for number in range(CALLS)]


async def test_appends_and_deletes(lake: Lake) -> None:
    """Deletions that wait for appends to their sessions leave these the threads they need."""
    service = LakeSessionService(lake)
    sessions = await begin(service, CALLS)
    await all_of(
        [
            call
            for session in sessions
            for call in (
                service.append_event(session, said("last")),
                service.delete_session(
                    app_name=APP, user_id=session.user_id, session_id=session.id
                ),
            )
        ]
    )
    assert await all_of([read(service, session) for session in sessions]) == [None] * CALLS


@pytest.mark.parametrize("durability", ["append", "turn"])
async def test_appends_and_reads(lake: Lake, durability: Durability) -> None:
    """Reads that wait for what is held of a turn leave threads to those who hold it."""
    service = LakeSessionService(lake, durability=durability)
    sessions = await begin(service, CALLS)
    for round_ in range(3):
        await all_of(
            [
                call
                for session in sessions
                for call in (
                    service.append_event(session, said(f"e{round_}")),
                    read(service, session),
                )
            ]
        )
    await service.close()
    assert all(len(session.events) == 4 for session in sessions)
    found = await all_of([read(service, session) for session in sessions])
    assert [each.model_dump() for each in found] == [each.model_dump() for each in sessions]
