"""Events of many megabytes are encoded and read in threads: the event loop goes on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from threading import get_ident

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types
from typing_extensions import override

from lakestore import Lake, LakeSessionService
from lakestore.adk.uris import Durability
from lakestore.adk.weight import is_heavy
from lakestore.storage import MemoryStore
from tests.support.session_writers import APP
from tests.support.ticking import Ticker

TICK_SECONDS = 0.01
LATE_SECONDS = 0.05
TRIES = 4
MEGABYTES = 10

Append = Callable[[LakeSessionService, Session, list[Event]], Awaitable[object]]


class Telltale(Event):
    """An event that notes in which threads it is encoded."""

    @override
    def model_dump_json(self, **options: object) -> str:
        THREADS.add(get_ident())
        return super().model_dump_json(**options)  # type: ignore[arg-type] # passed on as given


THREADS: set[int] = set()


def photo() -> Event:
    """Return a user's message with a large picture, which holds a turn open."""
    blob = types.Blob(data=bytes(range(250)) * (MEGABYTES * 4_000), mime_type="image/png")
    content = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    return Telltale(author="user", content=content)


def document() -> Event:
    """Return a tool's answer with a long text, and a state that holds it."""
    text = "a line of a long text\n" * (MEGABYTES * 20_000)
    response = types.FunctionResponse(name="read", response={"text": text})
    content = types.Content(role="user", parts=[types.Part(function_response=response)])
    delta = {"text": text}
    return Telltale(author="agent", content=content, actions=EventActions(state_delta=delta))


async def one_by_one(service: LakeSessionService, session: Session, events: list[Event]) -> None:
    """Append each by itself."""
    for event in events:
        await service.append_event(session, event)


async def at_once(service: LakeSessionService, session: Session, events: list[Event]) -> None:
    """Append all as one commit."""
    await service.append_events(session, events)


@pytest.fixture
def _frozen() -> Iterator[None]:
    """Let the collector pass over what the tests before have left: a full round of it is long."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize("append", [one_by_one, at_once])
@pytest.mark.parametrize("durability", ["append", "turn"])
async def test_a_large_event_never_holds_up_the_loop(
    durability: Durability, append: Append
) -> None:
    """While 20 MB are appended and read, a 10 ms ticker is late by 50 ms at most.

    What its threads waited for a core is taken off; only a service that holds the loop up is late
    each time.
    """
    late = []
    for _ in range(TRIES):
        THREADS.clear()
        events = [photo(), document()]
        ticker = Ticker(TICK_SECONDS)
        with Lake(MemoryStore()) as lake:
            service = LakeSessionService(lake, durability=durability)
            session = await service.create_session(app_name=APP, user_id="u", session_id="s")
            async with ticker:
                await append(service, session, events)
                await service.flush()
                found = await service.get_session(app_name=APP, user_id="u", session_id="s")
                await asyncio.sleep(TICK_SECONDS)
            assert found is not None
            assert [event.id for event in found.events] == [event.id for event in events]
        assert get_ident() not in THREADS
        late.append(ticker.latest)
        if ticker.latest <= LATE_SECONDS:
            return
    pytest.fail(f"the loop was held up for {min(late):.3f} seconds")


async def test_large_and_small_events_keep_their_order() -> None:
    """What is held in the loop does not overtake what a thread still encodes."""
    with Lake(MemoryStore()) as lake:
        service = LakeSessionService(lake, durability="turn")
        session = await service.create_session(app_name=APP, user_id="u", session_id="s")
        words = types.Content(role="user", parts=[types.Part(text="hello")])
        events = [photo(), Event(author="user", content=words), photo()]
        await asyncio.gather(*(service.append_event(session, event) for event in events))
        assert [event.id for event in session.events] == [event.id for event in events]
        found = await service.get_session(app_name=APP, user_id="u", session_id="s")
        assert found is not None
        assert [event.id for event in found.events] == [event.id for event in events]


def cyclic() -> list[Event]:
    """Return an event that holds itself."""
    itself: list[object] = []
    itself.append(itself)
    return [Event(author="a", custom_metadata={"it": itself})]


WEIGHTS: dict[str, tuple[bool, Callable[[], list[Event]]]] = {
    "nothing": (False, list),
    "a word": (False, lambda: [Event(author="a")]),
    "a picture": (True, lambda: [photo()]),
    "many small": (True, lambda: [Event(author="a")] * 5_000),
    "many numbers": (
        True,
        lambda: [Event(author="a", actions=EventActions(state_delta={"n": [*range(10**6)]}))],
    ),
    "itself": (True, cyclic),
}


@pytest.mark.parametrize("heavy", WEIGHTS)
def test_what_is_heavy(heavy: str) -> None:
    """It is told by what is in the events, wherever it is."""
    expected, make = WEIGHTS[heavy]
    assert is_heavy(make()) is expected
