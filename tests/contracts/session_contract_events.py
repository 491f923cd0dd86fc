"""The contract of event fields: an event comes back equal, whatever it carries.

Property tests over generated events are in `session_contract_properties`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, InvocationContext
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.genai import types

from tests.contracts.building import ANA, contents, key_of, loaded, said, session_with
from tests.contracts.event_samples import EVENTS, NULLS


class NewerActions(EventActions):
    """Actions of a later ADK, with a field that this one does not know."""

    hologram_delta: dict[str, Any] | None = None


class NewerPart(types.Part):
    """A part of a later google-genai."""

    smell: str | None = None


class NewerContent(types.Content):
    """A content that may hold such parts."""

    parts: list[NewerPart] | None = None  # type: ignore[assignment]


class NewerEvent(Event):
    """An event of a later ADK."""

    actions: NewerActions
    content: NewerContent | None = None
    mood: str | None = None


class CountingAgent(BaseAgent):
    """An agent that answers with the number of the turn, and remembers it in the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        turn = ctx.session.state.get("turn", 0) + 1
        event = said(f"turn {turn}", author=self.name, delta={"turn": turn, f"seen {turn}": True})
        event.invocation_id = ctx.invocation_id
        yield event


class EventFieldContract:
    """What of an event is stored: all of it."""

    @pytest.mark.parametrize("sample", EVENTS)
    async def test_event_comes_back_equal(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, sample: str
    ) -> None:
        """Every field of an event survives, field for field and byte for byte."""
        event = copy.deepcopy(EVENTS[sample])
        session = await session_with(sessions, [event])
        (stored,) = (await loaded(elsewhere, session)).events

        assert stored == EVENTS[sample]
        assert stored.model_dump() == EVENTS[sample].model_dump()

    # R038 R046
    @pytest.mark.parametrize("sample", NULLS)
    async def test_null_inside_an_event_is_kept(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, sample: str
    ) -> None:
        """A key whose value is null is not the same as no key, wherever in the event it is."""
        event = copy.deepcopy(NULLS[sample])
        session = await session_with(sessions, [event])

        assert (await loaded(elsewhere, session)).events == [NULLS[sample]]

    async def test_all_samples_make_one_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Events of all kinds live in one session, and the handle equals its reload."""
        session = await session_with(sessions, [copy.deepcopy(each) for each in EVENTS.values()])

        assert contents(session) == contents(await loaded(elsewhere, session))

    # R058
    async def test_event_of_a_newer_adk_does_not_hide_its_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Fields that this ADK does not know are left out on read; all else is there."""
        newer = NewerEvent(
            author="agent",
            actions=NewerActions(state_delta={"k": 1}, hologram_delta={"h": 1}),
            content=NewerContent(role="model", parts=[NewerPart(text="hi", smell="mint")]),
            mood="fine",
        )
        session = await session_with(sessions, [said("before"), newer, said("after")])
        reload = await loaded(elsewhere, session)

        assert [event.id for event in reload.events] == [event.id for event in session.events]
        assert reload.state == {"k": 1}
        read = reload.events[1]
        assert (read.author, read.timestamp) == ("agent", newer.timestamp)
        assert read.actions.state_delta == {"k": 1}
        assert read.content is not None
        assert [part.text for part in read.content.parts or []] == ["hi"]

    # R092
    async def test_rewind_is_stored_as_adk_decides_it(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """After Runner.rewind_async the state is ADK's: later keys and initial ones are None."""
        session = await sessions.create_session(**ANA, state={"initial": 1})
        async with Runner(
            app_name="travel", agent=CountingAgent(name="counter"), session_service=sessions
        ) as runner:
            for _ in range(3):
                message = types.Content(role="user", parts=[types.Part(text="count")])
                async for _event in runner.run_async(
                    user_id="ana", session_id=session.id, new_message=message
                ):
                    pass
            second = (await loaded(sessions, session)).events[2].invocation_id
            await runner.rewind_async(
                user_id="ana", session_id=session.id, rewind_before_invocation_id=second
            )

            reload = await elsewhere.get_session(**key_of(session))

        assert reload is not None
        assert [event.author for event in reload.events] == ["user", "counter"] * 3 + ["user"]
        assert reload.events[-1].actions.rewind_before_invocation_id == second
        assert reload.state == {
            "initial": None,
            "turn": 1,
            "seen 1": True,
            "seen 2": None,
            "seen 3": None,
        }
