"""What the writers of races do, each in its process; returns what was acknowledged.

Here and not beside the tests, because processes that are spawned import it by name.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Thread

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from tests.support.processes import SECONDS, at_once

APP = "race"


def said(event_id: str, delta: dict[str, object] | None = None) -> Event:
    """Return an event whose text is its id."""
    content = types.Content(role="user", parts=[types.Part(text=event_id)])
    actions = EventActions(state_delta=dict(delta or {}))
    return Event(id=event_id, author="user", invocation_id="i", content=content, actions=actions)


@contextmanager
def opened(folder: str) -> Iterator[SyncSessionService]:
    """Open the lake in `folder`, with threads that give way at any moment."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with Lake.open(folder) as lake:
            yield LakeSessionService(lake).sync
    finally:
        sys.setswitchinterval(before)


def reload(service: SyncSessionService, session: Session) -> Session:
    """Return a new handle on the stored session."""
    found = service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    assert found is not None
    return found


def _given(event: Event, _: Session) -> Event:
    """Return the event, whatever the session."""
    return event.model_copy(deep=True)


def append_or_reload(
    service: SyncSessionService, session: Session, make: Callable[[Session], Event]
) -> Session:
    """Append what `make` makes of the session; when another was quicker, reload and try again."""
    while True:
        try:
            service.append_event(session, make(session))
        except StaleSessionError:
            session = reload(service, session)
        else:
            return session


def append_in_turns(folder: str, user: str, session_id: str, writer: str, count: int) -> list[str]:
    """Append `count` events, each with a key of every scope; return the acknowledged ids."""
    acknowledged = []
    with opened(folder) as service:
        session = service.get_session(app_name=APP, user_id=user, session_id=session_id)
        assert session is not None
        at_once()
        for number in range(count):
            name = f"{writer}-{number:03}"
            delta = {f"{scope}{name}": number for scope in ("", "user:", "app:")}
            event = said(name, dict(delta))
            session = append_or_reload(service, session, partial(_given, event))
            acknowledged.append(name)
    return acknowledged


def append_until_stale(
    folder: str, user: str, session_id: str, writer: str, count: int
) -> list[str]:
    """Append through one handle, never reloading; return the acknowledged ids."""
    acknowledged = []
    with opened(folder) as service:
        session = service.get_session(app_name=APP, user_id=user, session_id=session_id)
        assert session is not None
        at_once()
        for number in range(count):
            try:
                acknowledged.append(service.append_event(session, said(f"{writer}-{number}")).id)
            except StaleSessionError:
                continue
    return acknowledged


def set_app_keys(folder: str, writer: str, threads: int) -> None:
    """Set one `app:` key in each of some threads, each in a session of its own, all at once."""
    with opened(folder) as service:
        start = Barrier(threads)

        def write(number: int) -> None:
            session = service.create_session(app_name=APP, user_id=f"{writer}-{number}")
            start.wait(SECONDS)
            delta = {f"app:{writer}-{number}": number, "app:last": f"{writer}-{number}"}
            service.append_event(session, said("e", delta))

        at_once()
        working = [Thread(target=write, args=(number,)) for number in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()


def create_same(folder: str, session_ids: list[str], writer: str, tasks: int) -> list[list[str]]:
    """Create each id from many tasks at once; return, for each id, the names of those that won."""

    async def create(service: LakeSessionService, session_id: str, name: str) -> bool:
        try:
            await service.create_session(
                app_name=APP, user_id="u", session_id=session_id, state={"by": name}
            )
        except AlreadyExistsError:
            return False
        return True

    async def create_all() -> list[list[str]]:
        names = [f"{writer}-{number}" for number in range(tasks)]
        with Lake.open(folder) as lake:
            service = LakeSessionService(lake)
            at_once()
            winners = []
            for session_id in session_ids:
                won = await asyncio.gather(*(create(service, session_id, n) for n in names))
                winners.append([name for name, did in zip(names, won, strict=True) if did])
            return winners

    return asyncio.run(create_all())


def create_different(folder: str, writer: str, tasks: int) -> list[str]:
    """Open a lake that may not be there yet, and create many sessions at once."""

    async def create_all() -> list[str]:
        at_once()
        with Lake.open(folder) as lake:
            service = LakeSessionService(lake)
            made = await asyncio.gather(
                *(
                    service.create_session(
                        app_name=APP,
                        user_id="u",
                        session_id=f"{writer}-{number}",
                        state={f"app:{writer}-{number}": 1, f"user:{writer}-{number}": 1},
                    )
                    for number in range(tasks)
                )
            )
            return [session.id for session in made]

    return asyncio.run(create_all())


def move_money(folder: str, session_id: str, writer: str, transfers: int) -> int:
    """Move money between accounts in the session's state; return how much was moved."""
    chance, moved = random.Random(writer), 0
    with opened(folder) as service:
        session = service.get_session(app_name=APP, user_id="u", session_id=session_id)
        assert session is not None
        at_once()
        for number in range(transfers):
            giver, taker = chance.sample(["a", "b", "c"], 2)
            amount = chance.randint(1, 30)

            def transfer(
                state: Session, giver: str = giver, taker: str = taker, amount: int = amount
            ) -> Event:
                delta = {giver: state.state[giver] - amount, taker: state.state[taker] + amount}
                return said(f"{writer}-{number}", dict(delta))  # noqa: B023 - called right here

            session = append_or_reload(service, session, transfer)
            moved += amount
    return moved
