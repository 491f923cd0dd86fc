"""The contract of `.sync`, the blocking twin: the same operations, also where a loop is running.

The whole session contract runs on the twin as a case of its own; here is how it meets the other.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError

from tests.contracts.building import ANA, contents, key_of, loaded, said, texts
from tests.contracts.cases import ExtraSessions, needs


@needs("blocking")
class BlockingContract:
    """What the twin promises beside the service that it belongs to."""

    # R094
    async def test_twin_works_in_a_running_loop(
        self, sessions: Any, elsewhere: ExtraSessions
    ) -> None:
        """In a notebook, where a loop is running, every blocking call returns its answer."""
        session = sessions.sync.create_session(**ANA, session_id="s1", state={"user:p": 1})
        sessions.sync.append_event(session, said("0", at=1000.0))
        sessions.sync.append_events(session, [said("1", at=1001.0), said("2", at=1002.0)])
        sessions.sync.flush()

        assert contents(session) == contents(await loaded(elsewhere, session))
        assert contents(sessions.sync.get_session(**key_of(session))) == contents(session)
        assert [each.id for each in sessions.sync.list_sessions(**ANA).sessions] == ["s1"]
        assert sessions.sync.get_user_state(**ANA) == {"p": 1}
        assert sessions.sync.get_user_events(**ANA, limit=2) == session.events[1:]
        sessions.sync.delete_session(**key_of(session))
        assert await elsewhere.get_session(**key_of(session)) is None

    async def test_service_and_twin_share_a_handle(
        self, sessions: Any, elsewhere: ExtraSessions
    ) -> None:
        """A handle goes from one to the other and back, and is stale for both alike."""
        session = await sessions.create_session(**ANA)
        overtaken = sessions.sync.get_session(**key_of(session))
        sessions.sync.append_event(session, said("0"))
        await sessions.append_event(session, said("1"))
        sessions.sync.append_event(session, said("2"))

        assert texts(session) == ["0", "1", "2"]
        assert contents(session) == contents(await loaded(elsewhere, session))
        with pytest.raises(StaleSessionError):
            sessions.sync.append_event(overtaken, said("late"))
        with pytest.raises(StaleSessionError):
            await sessions.append_event(overtaken, said("late"))

    async def test_service_is_a_context(self, sessions: Any, elsewhere: ExtraSessions) -> None:
        """`async with` yields the service and leaves its lake open."""
        async with sessions as entered:
            session = await entered.create_session(**ANA)
            await entered.append_event(session, said("0"))

        assert entered is sessions
        assert texts(await loaded(elsewhere, session)) == ["0"]
        await sessions.append_event(session, said("1"))
        assert texts(await loaded(elsewhere, session)) == ["0", "1"]
