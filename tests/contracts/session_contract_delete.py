"""The contract of `delete_session`: gone is gone, and the id is free again."""

from __future__ import annotations

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


class DeleteContract:
    """What `delete_session` promises."""

    async def test_deleted_session_is_gone(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """After a delete the session is None for every reader."""
        session = await session_with(sessions, [said("hello")])
        await sessions.delete_session(**key_of(session))

        assert await sessions.get_session(**key_of(session)) is None
        assert await elsewhere.get_session(**key_of(session)) is None

    async def test_deleting_a_missing_session_is_no_error(
        self, sessions: BaseSessionService
    ) -> None:
        """Deleting what is not there, or no longer, does nothing."""
        await sessions.delete_session(**ANA, session_id="never")
        await sessions.delete_session(**ANA, session_id="")
        await sessions.create_session(**ANA, session_id="s1")
        await sessions.delete_session(**ANA, session_id="never")
        await sessions.delete_session(**ANA, session_id="s1")
        await sessions.delete_session(**ANA, session_id="s1")

        assert (await sessions.list_sessions(**ANA)).sessions == []

    async def test_delete_strips_the_id(self, sessions: BaseSessionService) -> None:
        """Blanks around the id are no part of it, as on create and get."""
        session = await sessions.create_session(**ANA, session_id="s1")
        await sessions.delete_session(**ANA, session_id=" s1\n")

        assert await sessions.get_session(**key_of(session)) is None

    async def test_other_sessions_stay(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Deleting one session leaves the user's others and other users' of the same id."""
        for scope, name in ((ANA, "s1"), (ANA, "s2"), (ANA, "s10"), (BEN, "s1")):
            session = await sessions.create_session(**scope, session_id=name)
            await sessions.append_event(session, said("hello"))
        await sessions.delete_session(**ANA, session_id="s1")

        left = (await elsewhere.list_sessions(app_name="travel")).sessions

        assert {(each.user_id, each.id) for each in left} == {
            ("ana", "s2"),
            ("ana", "s10"),
            ("ben", "s1"),
        }
        assert [texts(await loaded(elsewhere, each)) for each in left] == [["hello"]] * 3

    # R106
    async def test_shared_state_outlives_the_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """What a deleted session wrote for its user and app stays."""
        delta = {"k": 1, "user:p": 2, "app:q": 3}
        session = await session_with(sessions, [said("hello", delta=delta)])
        await sessions.delete_session(**key_of(session))

        assert await elsewhere.get_user_state(**ANA) == {"p": 2}
        assert (await elsewhere.create_session(**BEN)).state == {"app:q": 3}

    async def test_append_to_a_deleted_session_is_refused(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A handle of a deleted session gets SessionNotFoundError and stays as it was."""
        session = await session_with(sessions, [said("hello")])
        before = contents(session.model_copy(deep=True))
        await elsewhere.delete_session(**key_of(session))

        with pytest.raises(SessionNotFoundError):
            await sessions.append_event(session, said("late", delta={"k": 1, "app:q": 1}))

        assert contents(session) == before
        assert await elsewhere.get_session(**key_of(session)) is None
        assert (await elsewhere.create_session(**BEN)).state == {}

    async def test_append_to_a_session_never_created_is_refused(
        self, sessions: BaseSessionService
    ) -> None:
        """A handle built by hand for a session that is not there gets SessionNotFoundError."""
        session = Session(id="never", app_name="travel", user_id="ana")

        with pytest.raises(SessionNotFoundError):
            await sessions.append_event(session, said("hello", delta={"app:q": 1}))

        assert (session.events, session.state) == ([], {})
        assert (await sessions.create_session(**BEN)).state == {}

    # R056
    async def test_recreated_session_starts_empty(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A new session under a deleted id inherits neither events nor session state."""
        events = [said(str(number), delta={f"k{number}": number}) for number in range(3)]
        session = await session_with(sessions, events)
        await elsewhere.delete_session(**key_of(session))
        assert await sessions.get_session(**key_of(session)) is None

        again = await sessions.create_session(**key_of(session), state={"new": 1})

        assert (again.events, again.state) == ([], {"new": 1})
        assert contents(again) == contents(await loaded(elsewhere, again))

    # R056
    async def test_recreated_session_lives_on(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """The second and the third life of an id are sessions like any other."""
        key = key_of(await session_with(sessions, [said("first life")]))
        for life in ("second life", "third life"):
            await sessions.delete_session(**key)
            session = await elsewhere.create_session(**key)
            await elsewhere.append_event(session, said(life))

            assert texts(await loaded(sessions, session)) == [life]
            assert contents(session) == contents(await loaded(sessions, session))

    # R056
    @needs("guards_stale")
    async def test_old_handle_does_not_write_into_the_recreated_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A handle from before the delete belongs to the old session, whatever lives now."""
        old = await session_with(sessions, [said("old")])
        await elsewhere.delete_session(**key_of(old))
        new = await elsewhere.create_session(**key_of(old))

        with pytest.raises((SessionNotFoundError, StaleSessionError)):
            await sessions.append_event(old, said("late"))

        assert (await loaded(elsewhere, new)).events == []
