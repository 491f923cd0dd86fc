"""The contract of second deliveries: an event counts once, however often it is handed over.

ADK's services disagree here: InMemorySessionService takes an equal event once, the SQL services
raise their database's key error. The contract follows InMemorySessionService, which documents it.
"""

from __future__ import annotations

import copy

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions import BaseSessionService

from tests.contracts.building import ANA, BEN, contents, loaded, noted, said, session_with, texts


# R044
class RedeliveryContract:
    """What `append_event` promises for an event that it has seen."""

    async def test_same_event_twice_is_stored_once(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Handing over the same object again is success and changes nothing."""
        event = said("hello", delta={"k": 1})
        session = await session_with(sessions, [event])

        assert await sessions.append_event(session, event) == event
        assert texts(session) == ["hello"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_equal_copy_is_stored_once(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A copy with the same id and content is the same event."""
        event = said("hello", delta={"k": 1, "app:q": 1})
        session = await session_with(sessions, [copy.deepcopy(event)])
        await sessions.append_event(session, copy.deepcopy(event))

        assert texts(session) == ["hello"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_retry_may_still_carry_temp_state(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A retry of the event as it first was, `temp:` keys and all, is the same event."""
        event = noted({"temp:t": 1, "k": 1})
        session = await session_with(sessions, [copy.deepcopy(event)])
        await sessions.append_event(session, event)

        assert len(session.events) == 1
        assert (await loaded(elsewhere, session)).events == session.events

    async def test_retry_of_an_older_event_changes_nothing(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """An event that others followed stays in its place, and its delta is not applied again."""
        first = said("first", delta={"k": 1, "user:p": 1})
        second = said("second", delta={"k": 2, "user:p": 2})
        session = await session_with(sessions, [first, second])
        await sessions.append_event(session, copy.deepcopy(first))

        assert texts(session) == ["first", "second"]
        assert session.state == {"k": 2, "user:p": 2}
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_retry_does_not_undo_another_sessions_write(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Shared state written elsewhere since is not overwritten by a second delivery."""
        event = noted({"app:q": "old"})
        session = await session_with(sessions, [event])
        await session_with(elsewhere, [noted({"app:q": "new"})], BEN)
        await sessions.append_event(session, copy.deepcopy(event))

        assert (await loaded(elsewhere, session)).state == {"app:q": "new"}

    async def test_retry_through_a_new_handle_is_stored_once(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A handle loaded after the event holds it, so it takes no second one."""
        event = said("hello", delta={"k": 1})
        session = await session_with(sessions, [copy.deepcopy(event)])
        other = await loaded(elsewhere, session)
        await elsewhere.append_event(other, copy.deepcopy(event))

        assert texts(other) == ["hello"]
        assert contents(other) == contents(await loaded(sessions, session))

    async def test_retry_through_a_handle_that_shows_nothing_is_stored_once(
        self, sessions: BaseSessionService
    ) -> None:
        """A handle loaded without its events takes no second one of the last of them either."""
        event = said("hello", delta={"k": 1, "app:q": 1})
        session = await session_with(sessions, [said("first"), copy.deepcopy(event)])
        other = await loaded(sessions, session, num_recent_events=0)
        await sessions.append_event(other, copy.deepcopy(event))
        await sessions.append_event(other, said("next"))

        assert texts(other) == ["hello", "next"]
        assert texts(await loaded(sessions, session)) == ["first", "hello", "next"]

    async def test_handle_takes_over_what_another_delivered(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A handle from before the event accepts it once, and goes on from there."""
        session = await sessions.create_session(**ANA)
        other = await loaded(elsewhere, session)
        event = said("hello", delta={"k": 1, "app:q": 1})
        await sessions.append_event(session, copy.deepcopy(event))
        await elsewhere.append_event(other, copy.deepcopy(event))

        assert contents(other) == contents(session)
        await elsewhere.append_event(other, said("next"))
        assert texts(await loaded(sessions, session)) == ["hello", "next"]

    async def test_retry_does_not_make_the_handle_stale(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """After a second delivery the handle appends as before."""
        event = said("hello")
        session = await session_with(sessions, [event])
        await sessions.append_event(session, copy.deepcopy(event))
        await sessions.append_event(session, said("next"))

        assert texts(session) == ["hello", "next"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_another_event_under_a_taken_id_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """The id of an event of the handle with other content raises AlreadyExistsError."""
        session = await session_with(sessions, [said("hello", id="e1", delta={"k": 1})])
        before = contents(session.model_copy(deep=True))

        with pytest.raises(AlreadyExistsError):
            await sessions.append_event(session, said("other", id="e1", delta={"k": 2}))

        assert contents(session) == before == contents(await loaded(elsewhere, session))

    async def test_event_ids_belong_to_their_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Two sessions may hold events of one id."""
        first = await session_with(sessions, [said("one", id="e1")])
        second = await session_with(sessions, [said("two", id="e1")])
        third = await session_with(sessions, [said("three", id="e1")], BEN)

        reloads = [await loaded(elsewhere, each) for each in (first, second, third)]
        assert [texts(each) for each in reloads] == [["one"], ["two"], ["three"]]
