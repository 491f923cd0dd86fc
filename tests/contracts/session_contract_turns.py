"""The contract of `durability="turn"`: a turn's events are written at its final response.

Every other rule holds for such a service too; here is what is added.
"""

from __future__ import annotations

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

from tests.contracts.building import ANA, contents, key_of, loaded, said, session_with, texts
from tests.contracts.cases import ExtraSessions, needs


def called() -> Event:
    """Return an event in which the agent calls a tool: no final response."""
    call = types.FunctionCall(id="c1", name="look", args={})
    content = types.Content(role="model", parts=[types.Part(function_call=call)])
    return Event(author="agent", invocation_id="turn-1", content=content)


def answered() -> Event:
    """Return the tool's answer: no final response either."""
    answer = types.FunctionResponse(id="c1", name="look", response={"seen": 1})
    content = types.Content(role="user", parts=[types.Part(function_response=answer)])
    return Event(author="agent", invocation_id="turn-1", content=content)


async def held_by(turns: BaseSessionService) -> Session:
    """Return a handle whose last two events are held: only this service knows them."""
    session = await session_with(turns, [said("before", author="agent")])
    await turns.append_event(session, said("question", delta={"k": 1, "user:p": 1, "app:q": 1}))
    await turns.append_event(session, called())
    return session


async def stored(elsewhere: BaseSessionService, session: Session) -> list[str]:
    """Return the texts that another process sees."""
    return texts(await loaded(elsewhere, session))


@needs("turn")
class TurnContract:
    """When a turn is written, and what happens to one that cannot be."""

    async def test_turn_is_written_at_its_final_response(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """Until then nothing is stored, then all of it in order; the handle shows it at once."""
        session = await held_by(turns)
        await turns.append_event(session, answered())
        assert texts(session) == ["before", "question", "", ""]
        assert session.state == {"k": 1, "user:p": 1, "app:q": 1}
        assert await stored(elsewhere, session) == ["before"]

        await turns.append_event(session, said("answer", author="agent"))

        assert await stored(elsewhere, session) == ["before", "question", "", "", "answer"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_long_running_call_ends_the_turn(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """What ADK calls a final response is one: a call that others will answer later."""
        session = await held_by(turns)
        call = called()
        call.long_running_tool_ids = {"c1"}
        await turns.append_event(session, call)

        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_users_event_without_content_is_written_at_once(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """A rewind, or a state change by a server, is followed by no response: it does not wait."""
        session = await held_by(turns)
        rewind = EventActions(rewind_before_invocation_id="turn-1", state_delta={"k": None})
        await turns.append_event(session, Event(author="user", actions=rewind))

        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_flush_writes_what_is_held(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """After flush everything is stored, and a second flush has nothing to do."""
        session = await held_by(turns)
        await turns.flush()
        assert contents(session) == contents(await loaded(elsewhere, session))

        await turns.flush()
        await turns.append_event(session, said("answer", author="agent"))

        assert await stored(elsewhere, session) == ["before", "question", "", "answer"]

    async def test_flush_writes_the_turns_of_all_sessions(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """Sessions are held side by side, each with its own turn."""
        handles = [await held_by(turns) for _ in range(3)]
        await turns.flush()

        assert [await stored(elsewhere, each) for each in handles] == [
            ["before", "question", ""]
        ] * 3

    async def test_close_writes_what_is_held(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """A service that is closed leaves nothing unwritten."""
        session = await held_by(turns)
        await turns.close()

        assert await stored(elsewhere, session) == ["before", "question", ""]

    async def test_reading_a_session_writes_its_turn_first(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """get_session of the same service returns what is held, and it is stored by then."""
        session = await held_by(turns)
        read = await loaded(turns, session)

        assert contents(read) == contents(session) == contents(await loaded(elsewhere, session))
        await turns.append_event(session, said("answer", author="agent"))
        assert (await stored(elsewhere, session))[-1] == "answer"

    async def test_every_read_counts_what_is_held(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """No read of the same service answers as if an acknowledged event were not there."""
        session = await held_by(turns)
        (listed,) = (await turns.list_sessions(**ANA)).sessions
        assert (listed.state, listed.last_update_time) == (session.state, session.last_update_time)

        await turns.append_event(session, said("more", delta={"user:p": 2}))
        assert await turns.get_user_state(**ANA) == {"p": 2}

        await turns.append_event(session, said("and more"))
        assert await turns.get_user_events(**ANA) == session.events
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_another_handles_append_writes_the_turn_first(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """A second handle of the same service cannot slip in before what was acknowledged."""
        session = await session_with(turns, [said("before", author="agent")])
        other = await loaded(turns, session)
        await turns.append_event(session, said("question"))

        with pytest.raises(StaleSessionError):
            await turns.append_event(other, said("other", author="agent"))

        assert await stored(elsewhere, session) == ["before", "question"]
        await turns.append_event(session, said("answer", author="agent"))
        assert await stored(elsewhere, session) == ["before", "question", "answer"]

    async def test_delete_ends_the_turn_too(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """After a delete nothing of the held turn comes back."""
        session = await held_by(turns)
        await turns.delete_session(**key_of(session))
        await turns.flush()

        assert await elsewhere.get_session(**key_of(session)) is None
        with pytest.raises(SessionNotFoundError):
            await turns.append_event(session, said("answer", author="agent"))

    async def test_overtaken_turn_is_refused_when_it_is_written(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """Where another process appended meanwhile the final response raises, nothing is mixed."""
        session = await held_by(turns)
        other = await loaded(elsewhere, session)
        await elsewhere.append_event(other, said("other", author="agent"))

        with pytest.raises(StaleSessionError):
            await turns.append_event(session, said("answer", author="agent"))

        assert await stored(elsewhere, session) == ["before", "other"]
        await turns.flush()  # what can never be written is held no longer

    async def test_overtaken_turn_is_refused_by_flush(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """A flush that cannot write says so."""
        session = await held_by(turns)
        other = await loaded(elsewhere, session)
        await elsewhere.append_event(other, said("other", author="agent"))

        with pytest.raises(StaleSessionError):
            await turns.flush()

        assert await stored(elsewhere, session) == ["before", "other"]
        await turns.flush()  # what can never be written is held no longer

    # R011 R043
    async def test_unstorable_event_is_refused_at_once(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """What cannot be stored raises when it is appended, not at the end of the turn."""
        session = await held_by(turns)
        before = contents(session.model_copy(deep=True))

        with pytest.raises(ValueError, match="blob"):
            await turns.append_event(session, said("bad", delta={"blob": b"\xff"}))

        assert contents(session) == before
        await turns.append_event(session, said("answer", author="agent"))
        assert await stored(elsewhere, session) == ["before", "question", "", "answer"]

    # R044
    async def test_retry_within_a_turn_counts_once(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """An equal event that is held already is not held twice."""
        session = await turns.create_session(**ANA)
        event = said("question", delta={"k": 1})
        await turns.append_event(session, event.model_copy(deep=True))
        await turns.append_event(session, event)
        await turns.append_event(session, said("answer", author="agent"))

        assert await stored(elsewhere, session) == ["question", "answer"]

    async def test_partial_and_temp_are_as_ever(
        self, turns: ExtraSessions, elsewhere: BaseSessionService
    ) -> None:
        """Fragments are not held, and `temp:` keys are in the handle only."""
        session = await turns.create_session(**ANA)
        await turns.append_event(session, said("question", delta={"temp:t": 1, "k": 1}))
        await turns.append_event(session, said("ans", author="agent", partial=True))
        assert session.state == {"temp:t": 1, "k": 1}
        assert await stored(elsewhere, session) == []

        await turns.append_event(session, said("answer", author="agent"))

        assert (await loaded(elsewhere, session)).state == {"k": 1}
        assert await stored(elsewhere, session) == ["question", "answer"]
