"""The event loop is never held up (R062), and one service serves any number of loops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from threading import Thread
from typing import Any

import pytest
from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from lakestore.adk.uris import Durability
from lakestore.storage import MemoryStore
from tests.support.session_writers import APP, said
from tests.support.stepping_store import SteppingStore
from tests.support.ticking import Ticker, TickingStore

TICK_SECONDS = 0.01
SLOW_TICKS = 30
LATE_SECONDS = 0.05
TRIES = 3
SECONDS = 5.0
DELTA: dict[str, Any] = {"k": 1, "user:k": 1, "app:k": 1}

Work = Callable[[LakeSessionService], Awaitable[None]]


async def work_beside(ticker: Ticker, ticks: int, work: Work) -> None:
    """Do `work` on a store whose requests take so many ticks, while `ticker` ticks."""
    with Lake(TickingStore(MemoryStore(), ticker, ticks)) as lake:
        async with ticker:
            while not ticker.ticks:
                await asyncio.sleep(TICK_SECONDS)
            await work(LakeSessionService(lake))


async def append_twenty(service: LakeSessionService) -> None:
    """Append 20 events, to four sessions at once."""
    await asyncio.gather(*(append_five(service, f"s{number}", {}) for number in range(4)))


async def do_everything(service: LakeSessionService) -> None:
    """Do all that a service can do."""
    await append_five(service, "s", DELTA)
    for work in (
        service.get_session(app_name=APP, user_id="u", session_id="s"),
        service.list_sessions(app_name=APP),
        service.get_user_events(app_name=APP, user_id="u"),
        service.get_user_state(app_name=APP, user_id="u"),
        service.delete_session(app_name=APP, user_id="u", session_id="s"),
        service.flush(),
        service.close(),
    ):
        await work


async def append_five(service: LakeSessionService, session_id: str, delta: dict[str, Any]) -> None:
    """Create a session and append to it."""
    session = await service.create_session(app_name=APP, user_id="u", session_id=session_id)
    for number in range(5):
        await service.append_event(session, said(f"e{number}", dict(delta)))


@pytest.mark.parametrize("durability", ["append", "turn"])
async def test_no_request_is_made_in_the_loop(durability: Durability) -> None:
    """Every request runs in a thread: this store's requests end only when the loop goes on."""

    async def work(service: LakeSessionService) -> None:
        await do_everything(LakeSessionService(service.lake, durability=durability))

    await work_beside(Ticker(0.001), 3, work)


async def test_ticker_is_never_late() -> None:
    """While requests take 300 ms each, a 10 ms ticker in the same loop is late by 50 ms at most.

    Another process may take the processor away for so long; only a service that does it is late
    each time.
    """
    late = []
    for _ in range(TRIES):
        ticker = Ticker(TICK_SECONDS)
        await work_beside(ticker, SLOW_TICKS, append_twenty)
        late.append(ticker.latest)
        if ticker.latest <= LATE_SECONDS:
            return
    pytest.fail(f"the loop was held up for {min(late):.3f} seconds")


# --- more than one loop ------------------------------------------------------------------------


@pytest.fixture
def store() -> SteppingStore:
    """A store in memory that can be stopped."""
    return SteppingStore(MemoryStore())


@pytest.fixture
def service(store: SteppingStore) -> Iterator[LakeSessionService]:
    """A service on that store, for loops that a test makes."""
    lake = Lake(store)
    yield LakeSessionService(lake)
    store.open_gate()
    lake.close()


def begin(service: LakeSessionService, session_id: str = "s") -> Session:
    """Create a session."""
    return service.sync.create_session(app_name=APP, user_id="u", session_id=session_id)


def stored(service: LakeSessionService, session_id: str = "s") -> list[str]:
    """Return the ids of the session's events."""
    found = service.sync.get_session(app_name=APP, user_id="u", session_id=session_id)
    assert found is not None
    return [event.id for event in found.events]


def ids(session: Session) -> list[str]:
    """Return the ids of the events that the object shows."""
    return [event.id for event in session.events]


def test_loops_one_after_the_other(service: LakeSessionService) -> None:
    """One service and one session go on from loop to loop, and between loops without one."""
    session = begin(service)
    for number in range(0, 10, 2):
        asyncio.run(service.append_event(session, said(f"e{number}")))
        service.sync.append_event(session, said(f"e{number + 1}"))
    assert stored(service) == ids(session) == [f"e{number}" for number in range(10)]


def test_loops_side_by_side(service: LakeSessionService) -> None:
    """Loops in threads share the service: each with its session, and all with one."""
    shared = begin(service, "shared")
    count = 5

    async def work(writer: str) -> None:
        own = await service.create_session(app_name=APP, user_id="u", session_id=writer)
        for number in range(count):
            await asyncio.gather(
                service.append_event(own, said(f"{number}")),
                service.append_event(shared, said(f"{writer}-{number}")),
            )

    writers = [f"w{number}" for number in range(4)]
    in_threads([work(writer) for writer in writers])

    for writer in writers:
        assert stored(service, writer) == [f"{number}" for number in range(count)]
        mine = [name for name in stored(service, "shared") if name.startswith(writer)]
        assert mine == [f"{writer}-{number}" for number in range(count)]
    assert ids(shared) == stored(service, "shared")
    assert len(shared.events) == len(writers) * count


def in_threads(works: list[Coroutine[Any, Any, None]]) -> None:
    """Run each of `works` in a loop of its own in a thread, all at once."""
    failures: list[BaseException] = []

    def run(work: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


async def append_and_give_up(
    store: SteppingStore, service: LakeSessionService, session: Session
) -> None:
    """Begin an append and cancel it when its commit stands, and its shared state does not."""
    store.close_gate()
    appending = asyncio.ensure_future(service.append_event(session, said("given up", DELTA)))
    assert await store.stop() == "before put"
    store.go()
    assert await store.stop() == "after put"
    appending.cancel()
    await asyncio.wait([appending])


async def append_next(service: LakeSessionService, session: Session) -> None:
    """Append within a time that is long enough unless someone waits for what never comes."""
    await asyncio.wait_for(service.append_event(session, said("next")), SECONDS)


def test_loop_that_ends_in_an_append(store: SteppingStore, service: LakeSessionService) -> None:
    """A loop that ends, and so cancels what goes on in it, leaves a session that goes on."""
    session = begin(service)
    asyncio.run(append_and_give_up(store, service, session))
    store.open_gate()
    asyncio.run(append_next(service, session))

    assert stored(service) == ids(session) == ["given up", "next"]
    assert session.state == DELTA


def test_loop_that_is_dropped_in_an_append(
    store: SteppingStore, service: LakeSessionService
) -> None:
    """So does a loop that is closed and never runs its tasks to their end."""
    session = begin(service)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(append_and_give_up(store, service, session))
    loop.close()
    store.open_gate()
    asyncio.run(append_next(service, session))

    assert stored(service) == ids(session) == ["given up", "next"]
    assert session.state == DELTA


def test_close_beside_another_loop(store: SteppingStore, service: LakeSessionService) -> None:
    """A service can be closed from one loop while another loop's append is under way."""
    session = begin(service)
    store.close_gate()

    async def append() -> None:
        await service.append_event(session, said("e"))

    async def close() -> None:
        await store.stop()
        closing = asyncio.ensure_future(service.close())
        await asyncio.sleep(0)
        store.open_gate()
        # A loop that nobody wakes goes on when this time is over, as if all were well.
        async with asyncio.timeout(SECONDS):
            await closing
        assert time.monotonic() - started < SECONDS

    started = time.monotonic()
    in_threads([append(), close()])
    assert stored(service) == ids(session) == ["e"]
