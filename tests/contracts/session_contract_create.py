"""The contract of `create_session`: ids, initial state, refusals, races.

Odd ids have a file of their own (`session_contract_ids`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions import BaseSessionService, Session

from tests.contracts.building import ANA, ANA_AT_BANK, BEN, contents, loaded, noted

BAD_IDS = {
    "empty": "",
    "nul": "a\x00b",
    "surrogate": "a\ud800",
    "number": 7,
}


class CreateContract:
    """What `create_session` promises."""

    async def test_create_gives_the_asked_id_and_scope(self, sessions: BaseSessionService) -> None:
        """The new session carries the asked id, app and user, and has no events and no state."""
        session = await sessions.create_session(**ANA, session_id="s1")

        assert (session.app_name, session.user_id, session.id) == ("travel", "ana", "s1")
        assert (session.events, session.state) == ([], {})

    async def test_created_session_equals_its_reload(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """The handle that create returns equals what a reader gets, its time included."""
        session = await sessions.create_session(**ANA, state={"k": 1, "user:p": 2, "app:q": 3})

        assert contents(session) == contents(await loaded(elsewhere, session))
        assert session.last_update_time > 1_577_836_800  # 2020: a time, not a default

    async def test_ids_are_generated_when_none_is_given(self, sessions: BaseSessionService) -> None:
        """Without an id each session gets one of its own."""
        ids = {(await sessions.create_session(**ANA)).id for _ in range(20)}

        assert len(ids) == 20
        assert all(id_ == id_.strip() != "" for id_ in ids)

    # R034
    @pytest.mark.parametrize("blank", ["", " ", "\t\n"], ids=["empty", "space", "tab"])
    async def test_blank_id_means_a_generated_one(
        self, sessions: BaseSessionService, blank: str
    ) -> None:
        """A blank session id is no id."""
        first = await sessions.create_session(**ANA, session_id=blank)
        second = await sessions.create_session(**ANA, session_id=blank)

        assert first.id.strip() != ""
        assert first.id != second.id

    # R034
    async def test_session_id_is_stripped(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Blanks around a session id are no part of it, on create and on get."""
        session = await sessions.create_session(**ANA, session_id="  s1\n")
        found = await elsewhere.get_session(**ANA, session_id="\ts1 ")

        assert session.id == "s1"
        assert found is not None
        assert found.id == "s1"

    async def test_existing_id_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Creating an id that lives raises AlreadyExistsError and changes nothing."""
        session = await sessions.create_session(**ANA, session_id="s1", state={"k": 1})
        await sessions.append_event(session, noted({"k": 2}))

        with pytest.raises(AlreadyExistsError):
            await sessions.create_session(**ANA, session_id="s1", state={"k": 9, "app:q": 9})
        with pytest.raises(AlreadyExistsError):
            await elsewhere.create_session(**ANA, session_id="s1", state={"user:p": 9})

        assert contents(session) == contents(await loaded(elsewhere, session))
        assert session.state == {"k": 2}

    async def test_existing_id_is_refused_with_blanks_around(
        self, sessions: BaseSessionService
    ) -> None:
        """An id that lives is taken in its padded spelling too."""
        await sessions.create_session(**ANA, session_id="s1")

        with pytest.raises(AlreadyExistsError):
            await sessions.create_session(**ANA, session_id=" s1 ")

    async def test_initial_state_goes_to_its_scopes(self, sessions: BaseSessionService) -> None:
        """`app:` keys reach every user, `user:` keys every session of the user, others stay."""
        state = {"k": 1, "user:p": 2, "app:q": 3}
        await sessions.create_session(**ANA, state=state)

        assert (await sessions.create_session(**ANA)).state == {"user:p": 2, "app:q": 3}
        assert (await sessions.create_session(**BEN)).state == {"app:q": 3}
        assert (await sessions.create_session(**ANA_AT_BANK)).state == {}

    async def test_initial_shared_state_replaces_what_is_there(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Shared keys given to create win over stored ones, the others stay."""
        first = await sessions.create_session(**ANA, state={"app:q": 1, "app:r": 1, "user:p": 1})
        second = await sessions.create_session(**ANA, state={"app:q": 2, "user:p": [2]})

        assert second.state == {"app:q": 2, "app:r": 1, "user:p": [2]}
        assert (await loaded(elsewhere, first)).state == second.state

    async def test_initial_temp_state_is_dropped(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """`temp:` keys given to create are neither stored nor returned."""
        session = await sessions.create_session(**ANA, state={"temp:t": 1, "k": 1})

        assert session.state == {"k": 1}
        assert (await loaded(elsewhere, session)).state == {"k": 1}

    async def test_stored_state_is_not_the_callers_object(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Changing the given state, or the handle's, afterwards changes nothing that is stored."""
        given: dict[str, Any] = {"list": [1]}
        session = await sessions.create_session(**ANA, state=given)
        given["list"].append(2)
        session.state["list"].append(3)
        session.state["other"] = 4

        assert (await loaded(elsewhere, session)).state == {"list": [1]}

    # R034
    @pytest.mark.parametrize("field", ["app_name", "user_id"])
    @pytest.mark.parametrize("bad", BAD_IDS)
    async def test_impossible_scope_is_refused(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        field: str,
        bad: str,
        refusal: type[Exception],
    ) -> None:
        """An app or user id that is empty, no text, or holds NUL or half a character is refused."""
        scope: dict[str, Any] = {**ANA, field: BAD_IDS[bad]}

        with pytest.raises(refusal):
            await sessions.create_session(**scope, session_id="s1", state={"app:q": 1})

        assert (await elsewhere.list_sessions(app_name="travel")).sessions == []
        assert (await elsewhere.create_session(**ANA)).state == {}

    # R034
    @pytest.mark.parametrize("bad", ["nul", "surrogate", "number"])
    async def test_impossible_session_id_is_refused(
        self,
        sessions: BaseSessionService,
        elsewhere: BaseSessionService,
        bad: str,
        refusal: type[Exception],
    ) -> None:
        """A session id that is no text, or holds NUL or half a character, is refused."""
        bad_id: Any = BAD_IDS[bad]

        with pytest.raises(refusal):
            await sessions.create_session(**ANA, session_id=bad_id, state={"app:q": 1})

        assert (await elsewhere.list_sessions(app_name="travel")).sessions == []
        assert (await elsewhere.create_session(**ANA)).state == {}

    # R032
    async def test_one_of_fifty_creators_of_an_id_wins(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of concurrent creators of one id one succeeds, the others get AlreadyExistsError."""

        async def create(number: int) -> Session:
            service = (sessions, elsewhere)[number % 2]
            return await service.create_session(**ANA, session_id="s1", state={"by": number})

        outcomes = await asyncio.gather(*map(create, range(50)), return_exceptions=True)
        winners = [outcome for outcome in outcomes if isinstance(outcome, Session)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, AlreadyExistsError)]

        assert (len(winners), len(losers)) == (1, 49)
        assert contents(winners[0]) == contents(await loaded(elsewhere, winners[0]))

    # R032
    async def test_fifty_first_creators_of_an_app_all_succeed(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Concurrent creators of different ids in untouched storage all succeed."""

        async def create(number: int) -> Session:
            service = (sessions, elsewhere)[number % 2]
            return await service.create_session(**ANA, state={f"app:{number}": number})

        created = await asyncio.gather(*map(create, range(50)))
        listed = (await sessions.list_sessions(**ANA)).sessions

        assert {session.id for session in created} == {session.id for session in listed}
        assert listed[0].state == {f"app:{number}": number for number in range(50)}
