"""The contract of a successful `append_event`: what is stored, and what the handle shows.

Second deliveries, stale handles and refusals have files of their own.
"""

from __future__ import annotations

import asyncio
import copy

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService
from google.genai import types

from tests.contracts.building import (
    ANA,
    contents,
    loaded,
    noted,
    said,
    session_with,
    text_of,
    texts,
)
from tests.contracts.cases import needs

# R083: a float cut to microseconds differs from the original three times in four.
ODD_TIMES = {
    "zero": 0.0,
    "before-1970": -1.0,
    "tenth-of-a-microsecond": 1e9 + 1e-7,
    "seven-digits": 1700000000.1234567,
    "whole": 1700000000.0,
    "year-3000": 32503680000.0,
}


class AppendContract:
    """What `append_event` promises when it returns."""

    # R043
    async def test_handle_equals_a_reload_after_every_append(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """After each append the handle is what a reader gets: events, state and time."""
        session = await sessions.create_session(**ANA, state={"a": 1, "user:u": 1, "app:p": 1})
        history = [
            said("hello"),
            said("hi", author="agent", delta={"a": 2, "b": [1, {"c": None}]}),
            noted({"user:u": 2, "user:v": "x", "app:p": None}),
            noted({}),
            said("", author="agent", delta={"b": None, "d": {}}),
            said("bye"),
        ]
        for event in history:
            await sessions.append_event(session, event)

            assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_append_returns_the_stored_event(self, sessions: BaseSessionService) -> None:
        """The event is returned and is the last one of the handle."""
        session = await sessions.create_session(**ANA)
        event = said("hello", at=1000.5)

        assert await sessions.append_event(session, event) is event
        assert session.events == [event]
        assert session.last_update_time == 1000.5

    # R043
    async def test_state_is_in_the_handle_at_once(self, sessions: BaseSessionService) -> None:
        """The handle holds every key of the delta, shared ones with their prefix."""
        session = await sessions.create_session(**ANA, state={"a": 1})
        delta = {"b": (1, 2), "user:u": 1, "app:p": 1, "temp:t": 1}
        await sessions.append_event(session, noted(delta))

        assert session.state == {"a": 1, **delta}

    async def test_partial_event_leaves_no_trace(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A fragment of a stream is returned, and neither stored, shown nor applied."""
        session = await session_with(sessions, [said("hello")])
        before = contents(session.model_copy(deep=True))
        event = said("hal", author="agent", partial=True, delta={"k": 1, "temp:t": 1})

        assert await sessions.append_event(session, event) is event
        assert contents(session) == before == contents(await loaded(elsewhere, session))

    async def test_temp_state_is_seen_but_not_stored(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """`temp:` keys are in the handle's state, and in no stored state or event."""
        session = await sessions.create_session(**ANA)
        event = noted({"temp:t": 1, "k": 2})
        await sessions.append_event(session, event)
        reload = await loaded(elsewhere, session)

        assert session.state == {"temp:t": 1, "k": 2}
        assert event.actions.state_delta == {"k": 2}
        assert reload.state == {"k": 2}
        assert reload.events == session.events == [event]

    async def test_temp_state_alone_still_stores_the_event(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """An event whose delta is all `temp:` is stored with an empty delta."""
        session = await session_with(sessions, [noted({"temp:t": 1})])
        reload = await loaded(elsewhere, session)

        assert [event.actions.state_delta for event in reload.events] == [{}]

    # R083 R112
    @pytest.mark.parametrize("time", ODD_TIMES)
    async def test_event_time_is_kept_exactly(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, time: str
    ) -> None:
        """An event's time comes back as the very float that it was."""
        session = await session_with(sessions, [said("hello", at=ODD_TIMES[time])])
        reload = await loaded(elsewhere, session)

        assert [event.timestamp for event in reload.events] == [ODD_TIMES[time]]

    # R083 R112
    @pytest.mark.parametrize("time", ODD_TIMES)
    async def test_last_update_time_is_the_last_events(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, time: str
    ) -> None:
        """The session's time is that of its last event, even where that goes back."""
        session = await session_with(sessions, [said("0"), said("1", at=ODD_TIMES[time])])
        (listed,) = (await elsewhere.list_sessions(**ANA)).sessions

        assert session.last_update_time == ODD_TIMES[time]
        assert (await loaded(elsewhere, session)).last_update_time == ODD_TIMES[time]
        assert listed.last_update_time == ODD_TIMES[time]

    # R083
    async def test_time_beyond_the_calendar_is_kept(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """An event stamped in milliseconds, in the year 55840, is stored like any other."""
        session = await session_with(sessions, [said("hello", at=1700000000123.0)])
        await sessions.append_event(session, said("again"))

        stored = (await loaded(elsewhere, session)).events
        assert {text_of(each): each.timestamp for each in stored} == {
            "hello": 1700000000123.0,
            "again": session.events[1].timestamp,
        }

    # R046
    @pytest.mark.parametrize(
        "event",
        [
            Event(author="user"),
            Event(),
            Event(author="agent", actions=EventActions(state_delta={"k": 1})),
            Event(author="agent", actions=EventActions(escalate=True)),
            Event(author="agent", error_code="RESOURCE_EXHAUSTED"),
            Event(author="user", content=types.Content()),
            Event(author="user", content=types.Content(role="user", parts=[])),
        ],
        ids=["author", "nothing", "delta", "actions", "error", "no-parts", "empty-parts"],
    )
    async def test_event_with_fields_missing_is_stored_as_it_is(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, event: Event
    ) -> None:
        """No invocation id, author or content is needed, and none is made up."""
        session = await session_with(sessions, [copy.deepcopy(event)])

        assert (await loaded(elsewhere, session)).events == [event]

    async def test_stored_event_is_not_the_callers_object(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Changing an event after its append changes nothing that is stored."""
        event = said("hello", delta={"list": [1]})
        session = await session_with(sessions, [event])
        event.author = "somebody else"
        event.actions.state_delta["list"].append(2)
        reload = await loaded(elsewhere, session)

        assert reload.events[0].author == "user"
        assert reload.state == {"list": [1]}

    # R041
    async def test_text_is_kept_character_by_character(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """NUL, controls, separators, emoji and both forms of an accent survive in texts."""
        odd = ["a\x00b", "\x1b[0m", "a\u2028b\r\n", "👩\u200d🚀", "é", "e\u0301", "مرحبا", " ", ""]
        session = await session_with(sessions, [said(text) for text in odd])

        assert texts(await loaded(elsewhere, session)) == odd

    # R061
    async def test_large_event_is_stored_whole(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A tool's answer of megabytes is an event like any other."""
        large = {"rows": [{"number": n, "text": "x" * 100} for n in range(20_000)]}
        answer = types.FunctionResponse(id="c1", name="query", response=large)
        content = types.Content(role="user", parts=[types.Part(function_response=answer)])
        session = await session_with(sessions, [Event(author="agent", content=content)])

        assert (await loaded(elsewhere, session)).events == session.events

    async def test_many_events_come_back_in_order(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A long history is whole and in order, and so is its end."""
        session = await session_with(sessions, [said(str(n)) for n in range(150)])

        assert texts(await loaded(elsewhere, session)) == [str(n) for n in range(150)]
        recent = await loaded(elsewhere, session, num_recent_events=2)
        assert texts(recent) == ["148", "149"]

    # R005
    @needs("guards_races")
    async def test_tasks_that_share_a_handle_are_put_in_order(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Concurrent appends through one handle all succeed, stored in the handle's order."""
        session = await sessions.create_session(**ANA)
        events = [said(str(n), delta={"last": n, f"k{n}": n}) for n in range(20)]

        await asyncio.gather(*(sessions.append_event(session, event) for event in events))

        assert sorted(texts(session)) == sorted(str(n) for n in range(20))
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_appends_alternate_between_two_services(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Whoever reads before appending goes on where the other stopped."""
        session = await sessions.create_session(**ANA)
        for number in range(10):
            service = (sessions, elsewhere)[number % 2]
            session = await loaded(service, session)
            await service.append_event(session, said(str(number)))

        assert texts(session) == [str(number) for number in range(10)]
        assert contents(session) == contents(await loaded(sessions, session))
