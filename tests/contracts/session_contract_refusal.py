"""The contract of what cannot be stored: refused as a whole, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.genai import types

from tests.contracts.building import (
    ANA,
    BEN,
    contents,
    loaded,
    noted,
    said,
    session_with,
    texts,
)


def cycle() -> list[Any]:
    """Return a list that holds itself."""
    itself: list[Any] = []
    itself.append(itself)
    return itself


# R011: what neither of ADK's two ways to JSON can encode.
UNSTORABLE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"\xff\x00",
    "nested-bytes": lambda: {"deep": [1, {"er": b"\xff"}]},
    "cycle": cycle,
    "surrogate": lambda: "half a character: \ud800",
}


class RefusalContract:
    """What an event that cannot be stored leaves behind: nothing."""

    # R011 R043
    @pytest.mark.parametrize("prefix", ["", "user:", "app:"], ids=["session", "user", "app"])
    @pytest.mark.parametrize("value", UNSTORABLE)
    async def test_unstorable_value_leaves_all_as_it_was(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        value: str,
        prefix: str,
        refusal: type[Exception],
    ) -> None:
        """A value without a JSON form is a ValueError; handle, event and storage stay."""
        session = await session_with(sessions, [said("hello", delta={"k": 1})])
        before = contents(session.model_copy(deep=True))
        delta = {"k": 2, "user:p": 2, "app:q": 2, f"{prefix}blob": UNSTORABLE[value]()}
        event = noted(delta)

        with pytest.raises(refusal):
            await sessions.append_event(session, event)

        assert contents(session) == before == contents(await loaded(elsewhere, session))
        assert list(event.actions.state_delta) == list(delta)
        assert await elsewhere.get_user_state(**ANA) == {}
        assert (await elsewhere.create_session(**BEN)).state == {}

    # R043
    async def test_handle_appends_after_a_refusal(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, refusal: type[Exception]
    ) -> None:
        """A refusal does not make the handle stale: the mended event goes through."""
        session = await session_with(sessions, [said("hello")])
        event = said("tool", delta={"blob": b"\xff"})
        with pytest.raises(refusal):
            await sessions.append_event(session, event)

        event.actions.state_delta["blob"] = "mended"
        await sessions.append_event(session, event)

        assert contents(session) == contents(await loaded(elsewhere, session))
        assert session.state == {"blob": "mended"}

    # R011
    @pytest.mark.parametrize("prefix", ["", "user:", "app:"], ids=["session", "user", "app"])
    async def test_refusal_names_the_key(
        self, sessions: BaseSessionService, prefix: str, refusal: type[Exception]
    ) -> None:
        """The error says which key of the state cannot be stored."""
        session = await sessions.create_session(**ANA)
        event = noted({"fine": 1, f"{prefix}culprit": b"\xff"})

        with pytest.raises(refusal, match=f"{prefix}culprit"):
            await sessions.append_event(session, event)

    # R043
    async def test_refused_event_leaves_temp_state_alone(
        self, sessions: BaseSessionService, refusal: type[Exception]
    ) -> None:
        """`temp:` keys of a refused event are not in the handle, and still in the event."""
        session = await sessions.create_session(**ANA)
        event = noted({"temp:t": 1, "blob": b"\xff"})

        with pytest.raises(refusal):
            await sessions.append_event(session, event)

        assert session.state == {}
        assert list(event.actions.state_delta) == ["temp:t", "blob"]

    # R011
    @pytest.mark.parametrize("value", UNSTORABLE)
    async def test_unstorable_initial_state_creates_nothing(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        value: str,
        refusal: type[Exception],
    ) -> None:
        """An initial state that cannot be stored creates no session and no shared keys."""
        state = {"user:p": 1, "app:q": 1, "blob": UNSTORABLE[value]()}

        with pytest.raises(refusal):
            await sessions.create_session(**ANA, session_id="s1", state=state)

        assert await elsewhere.get_session(**ANA, session_id="s1") is None
        assert (await elsewhere.create_session(**ANA)).state == {}

    # R011
    async def test_tool_answer_without_a_json_form_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, refusal: type[Exception]
    ) -> None:
        """A tool's answer that holds a plain object is a ValueError, and nothing is written."""
        session = await session_with(sessions, [said("hello")])
        before = contents(session.model_copy(deep=True))
        answer = types.FunctionResponse(id="c1", name="tool", response={"it": object()})
        content = types.Content(role="user", parts=[types.Part(function_response=answer)])

        with pytest.raises(refusal):
            await sessions.append_event(session, Event(author="agent", content=content))

        assert contents(session) == before == contents(await loaded(elsewhere, session))

    async def test_text_with_half_a_character_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, refusal: type[Exception]
    ) -> None:
        """A text that is no Unicode is a ValueError: no file or client could read it back."""
        session = await session_with(sessions, [said("hello")])

        with pytest.raises(refusal):
            await sessions.append_event(session, said("half: \ud800"))

        assert texts(session) == ["hello"] == texts(await loaded(elsewhere, session))

    @pytest.mark.parametrize("at", [float("nan"), float("inf")], ids=["nan", "infinity"])
    async def test_event_without_a_finite_time_is_refused(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        at: float,
        refusal: type[Exception],
    ) -> None:
        """A time that is none is a ValueError: it could be neither ordered nor read back."""
        session = await session_with(sessions, [said("hello")])

        with pytest.raises(refusal):
            await sessions.append_event(session, said("timeless", at=at))

        assert texts(session) == ["hello"] == texts(await loaded(elsewhere, session))

    # R011
    async def test_state_key_that_is_no_text_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, refusal: type[Exception]
    ) -> None:
        """A number as a key of the initial state is a ValueError, and nothing is created."""
        state: Any = {"app:q": 1, 7: "seven"}

        with pytest.raises(refusal, match="7"):
            await sessions.create_session(**ANA, session_id="s1", state=state)

        assert await elsewhere.get_session(**ANA, session_id="s1") is None
        assert (await elsewhere.create_session(**ANA)).state == {}
