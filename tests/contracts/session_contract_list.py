"""The contract of `list_sessions` as ADK documents it.

Paging and other orders are extras (`session_contract_extras`).
"""

from __future__ import annotations

from google.adk.sessions import BaseSessionService

from tests.contracts.building import (
    ANA,
    ANA_AT_BANK,
    BEN,
    Scope,
    key_of,
    loaded,
    noted,
    said,
    session_with,
)


async def listed_ids(service: BaseSessionService, scope: Scope) -> list[str]:
    """Return the ids of the user's sessions as listed."""
    return [session.id for session in (await service.list_sessions(**scope)).sessions]


class ListContract:
    """What `list_sessions` promises."""

    # R071
    async def test_nothing_stored_lists_nothing(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Untouched storage, an unknown app and an unknown user list no sessions."""
        assert (await elsewhere.list_sessions(**ANA)).sessions == []

        await sessions.create_session(**ANA)

        assert (await elsewhere.list_sessions(**BEN)).sessions == []
        assert (await elsewhere.list_sessions(app_name="unknown")).sessions == []

    # R071
    async def test_deleted_session_is_not_listed(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A user whose only session was deleted has none."""
        session = await session_with(sessions, [said("hello")])
        await sessions.delete_session(**key_of(session))

        assert (await elsewhere.list_sessions(**ANA)).sessions == []
        assert (await elsewhere.list_sessions(app_name="travel")).sessions == []

    # R020
    async def test_oldest_activity_comes_first(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Sessions are listed by their last activity, the most recent one last."""
        for name, at in (("b", 3000.0), ("c", 1000.0), ("a", 2000.0)):
            session = await sessions.create_session(**ANA, session_id=name)
            await sessions.append_event(session, said("hello", at=at))
        assert await listed_ids(elsewhere, ANA) == ["c", "a", "b"]

        oldest = await elsewhere.get_session(**ANA, session_id="c")
        assert oldest is not None
        await elsewhere.append_event(oldest, said("again", at=4000.0))

        assert await listed_ids(sessions, ANA) == ["a", "b", "c"]

    # R020
    async def test_equal_times_are_ordered_by_user_and_id(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Where last activities tie, user and then session id decide."""
        for scope, name in ((BEN, "1"), (ANA, "2"), (BEN, "0"), (ANA, "10")):
            session = await sessions.create_session(**scope, session_id=name)
            await sessions.append_event(session, said("hello", at=1000.0))

        listed = (await elsewhere.list_sessions(app_name="travel")).sessions

        assert [(each.user_id, each.id) for each in listed] == [
            ("ana", "10"),
            ("ana", "2"),
            ("ben", "0"),
            ("ben", "1"),
        ]

    # R049 R107
    async def test_all_users_are_listed_with_their_own_state(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Without a user every session comes with its user, its merged state and no events."""
        for user_id in ("ana", "ben", "cleo"):
            delta = {"title": f"trip of {user_id}", "user:name": user_id.title(), "app:v": 2}
            await session_with(
                sessions,
                [said("hello", delta=delta)],
                {"app_name": "travel", "user_id": user_id},
            )

        listed = (await elsewhere.list_sessions(app_name="travel")).sessions

        assert {each.user_id: each.state for each in listed} == {
            user_id: {
                "title": f"trip of {user_id}",
                "user:name": user_id.title(),
                "app:v": 2,
            }
            for user_id in ("ana", "ben", "cleo")
        }
        assert [each.events for each in listed] == [[], [], []]

    async def test_listed_session_equals_a_read_without_events(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """State and last activity in the list are those that get returns."""
        for number in range(3):
            events = [noted({"n": number}), noted({"user:u": number, "app:a": number, "n": None})]
            await session_with(sessions, events)

        for each in (await elsewhere.list_sessions(**ANA)).sessions:
            whole = await loaded(sessions, each, num_recent_events=0)
            assert (each.state, each.last_update_time) == (whole.state, whole.last_update_time)

    async def test_one_users_list_is_exactly_that_users(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """The user is compared whole: no prefix, pattern or other case of it matches."""
        for user_id in ("ana", "Ana", "ana2", "an", "a*", "ana/1"):
            await sessions.create_session(app_name="travel", user_id=user_id, session_id=user_id)
        await sessions.create_session(**ANA_AT_BANK, session_id="at the bank")

        assert await listed_ids(elsewhere, ANA) == ["ana"]
        assert await listed_ids(elsewhere, {"app_name": "travel", "user_id": "a*"}) == ["a*"]
        assert await listed_ids(elsewhere, ANA_AT_BANK) == ["at the bank"]

    # R020
    async def test_many_sessions_are_all_listed(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """No listing is cut short."""
        for number in range(120):
            scope = Scope(app_name="travel", user_id=f"user {number % 7}")
            await sessions.create_session(**scope, session_id=f"{number:03}")

        listed = (await elsewhere.list_sessions(app_name="travel")).sessions

        assert sorted(each.id for each in listed) == [f"{number:03}" for number in range(120)]
