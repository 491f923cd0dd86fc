"""The contract under generated input: any state and any event survives the round trip.

The strategies are in `tests.support.strategies`. Each property names explicit examples too, so
that a service that does not keep it fails at every run, not only when the dice say so.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService
from google.genai import types
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.contracts.building import Scope, contents, loaded, noted, session_with
from tests.contracts.event_samples import NULLS
from tests.support import strategies

# One service serves all examples of a property; each example has an app of its own in it.
per_example = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
numbers = itertools.count()


def fresh_scope() -> Scope:
    """Return a scope that no example has used."""
    return {"app_name": f"app {next(numbers)}", "user_id": "ana"}


def call_with(args: dict[str, Any]) -> Event:
    """Return an event that calls a tool."""
    call = types.FunctionCall(name="f", args=args)
    return Event(author="agent", content=types.Content(parts=[types.Part(function_call=call)]))


class PropertyContract:
    """What holds for any input."""

    @pytest.mark.timeout(900)  # the nightly profile tries thousands
    @per_example
    @given(initial=strategies.state_dicts(), deltas=st.lists(strategies.state_dicts(), max_size=3))
    @example(initial={"k": "a\x00b"}, deltas=[{"k": "a\x00b", "other": 1}])
    @example(initial={"": None, "user:": 10**30}, deltas=[{"app:": -0.0, "user:": [5e-324]}])
    async def test_any_state_survives(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        initial: dict[str, Any],
        deltas: list[dict[str, Any]],
    ) -> None:
        """The stored state is the initial one with the deltas laid over it, in handle and store."""
        scope = fresh_scope()
        session = await sessions.create_session(**scope, state=initial)
        expected = dict(initial)
        for delta in deltas:
            await sessions.append_event(session, noted(delta))
            expected |= delta

        reload = await loaded(elsewhere, session)

        assert reload.state == session.state == expected
        assert [event.actions.state_delta for event in reload.events] == deltas
        users = {key[5:]: expected[key] for key in expected if key.startswith("user:")}
        assert await elsewhere.get_user_state(**scope) == users

    @pytest.mark.timeout(900)  # the nightly profile tries thousands
    @per_example
    @given(event=strategies.events())
    @example(event=NULLS["state-delta"].model_copy(deep=True))
    @example(event=call_with({"x": None, "y": [10**30, "\x00"]}))
    @example(event=Event(author="agent", actions=EventActions(state_delta={"k": "a\x00b"})))
    async def test_any_event_survives(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, event: Event
    ) -> None:
        """Any event comes back equal, and so does the state that it made."""
        sent = event.model_copy(deep=True)
        session = await session_with(sessions, [event], fresh_scope())
        reload = await loaded(elsewhere, session)

        assert reload.events == session.events == [sent]
        assert reload.state == session.state == sent.actions.state_delta

    @pytest.mark.timeout(900)  # the nightly profile tries thousands
    @per_example
    @given(
        app_name=strategies.ids(),
        user_id=strategies.ids(),
        session_id=strategies.ids(),
    )
    async def test_any_id_is_kept(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        app_name: str,
        user_id: str,
        session_id: str,
    ) -> None:
        """Any app, user and session id names a session, and is listed letter by letter."""
        # Examples may repeat ids: an app prefix keeps them apart.
        scope: Scope = {"app_name": f"{next(numbers)}{app_name}", "user_id": user_id}
        session = await sessions.create_session(**scope, session_id=session_id, state={"k": 1})
        (listed,) = (await elsewhere.list_sessions(app_name=scope["app_name"])).sessions

        assert (listed.app_name, listed.user_id, listed.id) == (*scope.values(), session_id)
        assert contents(session) == contents(await loaded(elsewhere, session))
