"""The contract of handles: who may append, decided by what was committed and never by times."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterator

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions import BaseSessionService, Session

from tests.contracts.building import (
    ANA,
    BEN,
    contents,
    key_of,
    loaded,
    said,
    session_with,
    texts,
)
from tests.contracts.cases import needs
from tests.contracts.session_contract_append import ODD_TIMES

TimeZone = Callable[[str], None]


@pytest.fixture
def time_zone() -> Iterator[TimeZone]:
    """Set the zone of this process, for the length of a test."""
    with pytest.MonkeyPatch.context() as patch:

        def set_to(name: str) -> None:
            patch.setenv("TZ", name)
            time.tzset()

        yield set_to
    time.tzset()


def through_json(session: Session) -> Session:
    """Return the session as a client gets it: without its storage marker."""
    return Session.model_validate_json(session.model_dump_json())


def by_hand(session: Session) -> Session:
    """Return a session built from what its reader remembers, without a time."""
    return Session(
        id=session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        events=session.events[-1:],
    )


def with_a_foreign_marker(session: Session) -> Session:
    """Return a session as another kind of service would have marked it."""
    copied = session.model_copy(deep=True)
    # ADK's field for services to mark sessions; DatabaseSessionService puts a time into it.
    copied._storage_update_marker = "2024-01-05T12:30:00.000250"
    return copied


COPIES: dict[str, Callable[[Session], Session]] = {
    "deepcopy": copy.deepcopy,
    "model-copy": lambda session: session.model_copy(deep=True),
    "json": through_json,
    "by-hand": by_hand,
    "foreign": with_a_foreign_marker,
}


class StaleContract:
    """Which handles may append."""

    # R004
    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
    async def test_first_appends_are_never_stale(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        time_zone: TimeZone,
        zone: str,
    ) -> None:
        """Create and three appends in a row succeed, whatever zone, time and digits."""
        time_zone(zone)
        for at in ODD_TIMES.values():
            events = [said(str(number), at=at) for number in range(3)]
            session = await session_with(sessions, events)
            await sessions.append_event(session, said("now"))

            assert len((await loaded(elsewhere, session)).events) == 4

    # R005
    @needs("guards_stale")
    async def test_overtaken_handle_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of two handles the second to append gets StaleSessionError, unchanged, and reloads."""
        session = await session_with(sessions, [said("0")])
        overtaken = await loaded(sessions, session)
        before = contents(overtaken.model_copy(deep=True))
        await elsewhere.append_event(await loaded(elsewhere, session), said("1"))

        for _ in range(2):
            with pytest.raises(StaleSessionError):
                await sessions.append_event(overtaken, said("2", delta={"k": 2, "app:q": 2}))

        assert contents(overtaken) == before
        reload = await loaded(sessions, session)
        assert (texts(reload), reload.state) == (["0", "1"], {})
        await sessions.append_event(reload, said("2"))
        assert texts(await loaded(elsewhere, session)) == ["0", "1", "2"]

    # R004 R005
    @needs("guards_stale")
    @pytest.mark.parametrize("at", [1000.0, 2000.0, 3000.0], ids=["earlier", "same", "later"])
    async def test_stale_is_a_matter_of_commits_not_of_times(
        self, sessions: BaseSessionService, at: float
    ) -> None:
        """A handle is overtaken by an event of any time, its own last one's included."""
        session = await session_with(sessions, [said("0", at=2000.0)])
        overtaken = await loaded(sessions, session)
        await sessions.append_event(session, said("1", at=at))

        with pytest.raises(StaleSessionError):
            await sessions.append_event(overtaken, said("2", at=2500.0))

        assert texts(await loaded(sessions, session)) == ["0", "1"]

    # R005
    @needs("guards_stale")
    async def test_refused_append_leaves_no_shared_state(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of a refused event nothing is stored, its shared keys included."""
        session = await sessions.create_session(**ANA)
        overtaken = await loaded(sessions, session)
        await sessions.append_event(session, said("1"))

        with pytest.raises(StaleSessionError):
            await sessions.append_event(overtaken, said("2", delta={"user:p": 1, "app:q": 1}))

        assert await elsewhere.get_user_state(**ANA) == {}
        assert (await elsewhere.create_session(**BEN)).state == {}

    # R004
    @pytest.mark.parametrize("events", [0, 1, 3])
    @pytest.mark.parametrize("made", COPIES)
    async def test_current_copy_of_a_handle_appends(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, made: str, events: int
    ) -> None:
        """A copy, a session sent through JSON and one built by hand append if they are current."""
        session = await session_with(sessions, [said(str(n)) for n in range(events)])
        copied = COPIES[made](session)
        await elsewhere.append_event(copied, said("by the copy"))
        await elsewhere.append_event(copied, said("and again"))

        stored = texts(await loaded(sessions, session))
        assert stored == [*map(str, range(events)), "by the copy", "and again"]

    # R005
    @needs("guards_stale")
    @pytest.mark.parametrize("events", [0, 1, 3])
    @pytest.mark.parametrize("made", COPIES)
    async def test_overtaken_copy_of_a_handle_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, made: str, events: int
    ) -> None:
        """Copies and sessions without a marker are stale like any handle."""
        session = await session_with(sessions, [said(str(n)) for n in range(events)])
        copied = COPIES[made](session)
        await sessions.append_event(session, said("by the original"))

        with pytest.raises(StaleSessionError):
            await elsewhere.append_event(copied, said("by the copy"))

        stored = texts(await loaded(sessions, session))
        assert stored == [*map(str, range(events)), "by the original"]

    @pytest.mark.parametrize("made", COPIES)
    async def test_copy_of_a_deleted_session_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, made: str
    ) -> None:
        """With or without a marker, a handle of a deleted session gets SessionNotFoundError."""
        session = await session_with(sessions, [said("0")])
        copied = COPIES[made](session)
        await elsewhere.delete_session(**key_of(session))

        with pytest.raises(SessionNotFoundError):
            await sessions.append_event(copied, said("late"))

        assert await sessions.get_session(**key_of(session)) is None

    # R005
    @needs("guards_races")
    async def test_one_of_ten_racing_handles_wins(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of concurrent appends through equally current handles one succeeds, all others stale."""
        session = await sessions.create_session(**ANA)
        services = [(sessions, elsewhere)[number % 2] for number in range(10)]
        handles = [await loaded(service, session) for service in services]

        outcomes = await asyncio.gather(
            *(
                service.append_event(handle, said(str(number), delta={f"app:{number}": 1}))
                for number, (service, handle) in enumerate(zip(services, handles, strict=True))
            ),
            return_exceptions=True,
        )

        losers = [each for each in outcomes if isinstance(each, StaleSessionError)]
        assert len(losers) == 9
        (winner,) = [handle for handle in handles if handle.events]
        assert contents(winner) == contents(await loaded(elsewhere, session))

    # R005
    @needs("reopen", "guards_races")
    async def test_two_writers_that_retry_lose_nothing(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Two writers of twenty events each, who reload when stale, store all forty once."""
        session = await sessions.create_session(**ANA)

        async def write(service: BaseSessionService, name: str) -> None:
            handle = await loaded(service, session)
            for number in range(20):
                event = said(f"{name}{number:02}")
                while event.id not in {each.id for each in handle.events}:
                    try:
                        await service.append_event(handle, event)
                    except StaleSessionError:
                        handle = await loaded(service, session)

        await asyncio.gather(write(sessions, "a"), write(elsewhere, "b"))

        stored = texts(await loaded(sessions, session))
        for name in "ab":
            own = [text for text in stored if text.startswith(name)]
            assert own == [f"{name}{number:02}" for number in range(20)]
        assert len(stored) == 40
