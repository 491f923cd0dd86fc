"""The contract of what lakestore's sessions have beyond ADK's interface.

Many events in one commit, a user's events over all sessions, pages of sessions.
Turn durability is in `session_contract_turns`.
"""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event

from tests.contracts.building import (
    ANA,
    ANA_AT_BANK,
    BEN,
    contents,
    key_of,
    loaded,
    noted,
    said,
    session_with,
    text_of,
    texts,
)
from tests.contracts.cases import ExtraSessions, needs


@needs("extras")
class AppendEventsContract:
    """What `append_events` promises: `append_event` for many, all or none."""

    async def test_append_events_equals_single_appends(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """State, order, time and the handle are as after one append each."""
        events = [
            said("0", delta={"a": 1, "user:p": 1, "temp:t": 1}),
            said("1", delta={"a": 2, "app:q": 1}, at=1000.0),
            said("2", partial=True, delta={"a": 3}),
            noted({"b": None}),
        ]
        session = await sessions.create_session(**ANA)
        await sessions.append_events(session, events)

        assert texts(session) == ["0", "1", ""]
        assert session.state == {"a": 2, "user:p": 1, "temp:t": 1, "app:q": 1, "b": None}
        del session.state["temp:t"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    async def test_append_events_goes_on(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Batches and single appends follow each other through one handle."""
        session = await session_with(sessions, [said("0")])
        await sessions.append_events(session, [said("1"), said("2")])
        await sessions.append_event(session, said("3"))
        await sessions.append_events(session, [said("4")])

        assert texts(await loaded(elsewhere, session)) == ["0", "1", "2", "3", "4"]
        assert texts(await loaded(elsewhere, session, num_recent_events=3)) == ["2", "3", "4"]

    async def test_appending_no_events_changes_nothing(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """An empty batch, and one of fragments only, is success without a trace."""
        session = await session_with(sessions, [said("0")])
        before = contents(session.model_copy(deep=True))
        await sessions.append_events(session, [])
        await sessions.append_events(session, [said("1", partial=True, delta={"k": 1})])

        assert contents(session) == before == contents(await loaded(elsewhere, session))

    # R011 R043
    async def test_one_unstorable_event_refuses_the_batch(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """A batch is stored whole or not at all, and a refused one leaves the handle."""
        session = await session_with(sessions, [said("0")])
        before = contents(session.model_copy(deep=True))
        batch = [said("1", delta={"app:q": 1}), said("2", delta={"blob": b"\xff"}), said("3")]

        with pytest.raises(ValueError, match="blob"):
            await sessions.append_events(session, batch)

        assert contents(session) == before == contents(await loaded(elsewhere, session))

    # R005
    async def test_stale_batch_is_refused_whole(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """An overtaken handle stores none of its batch."""
        session = await session_with(sessions, [said("0")])
        overtaken = await loaded(sessions, session)
        await elsewhere.append_event(await loaded(elsewhere, session), said("1"))

        with pytest.raises(StaleSessionError):
            await sessions.append_events(overtaken, [said("2"), said("3")])

        assert texts(overtaken) == ["0"]
        assert texts(await loaded(elsewhere, session)) == ["0", "1"]

    async def test_batch_for_a_deleted_session_is_refused(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """SessionNotFoundError, as for a single event."""
        session = await session_with(sessions, [said("0")])
        await elsewhere.delete_session(**key_of(session))

        with pytest.raises(SessionNotFoundError):
            await sessions.append_events(session, [said("1"), said("2")])

    # R044
    async def test_events_already_held_are_left_out_of_the_batch(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """A batch that overlaps with what the handle holds adds only what is new, once."""
        events = [said(str(number), delta={"n": number}) for number in range(4)]
        session = await sessions.create_session(**ANA)
        await sessions.append_events(session, copy.deepcopy(events[:2]))
        await sessions.append_events(session, copy.deepcopy(events))
        await sessions.append_events(session, copy.deepcopy(events[1:3]))

        assert texts(session) == ["0", "1", "2", "3"]
        assert contents(session) == contents(await loaded(elsewhere, session))

    # R044
    async def test_handle_takes_over_a_batch_that_another_delivered(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """A batch that landed without this handle's knowledge is accepted once."""
        session = await sessions.create_session(**ANA)
        other = await loaded(elsewhere, session)
        events = [said("0", delta={"k": 0}), said("1", delta={"app:q": 1}), said("2")]
        await sessions.append_events(session, copy.deepcopy(events[:2]))
        await elsewhere.append_events(other, copy.deepcopy(events))

        assert texts(other) == ["0", "1", "2"]
        assert contents(other) == contents(await loaded(sessions, session))

    # R044
    async def test_event_twice_in_a_batch_is_stored_once(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Within one batch an event counts once too."""
        event = said("0", delta={"k": 1})
        session = await sessions.create_session(**ANA)
        await sessions.append_events(session, [event, copy.deepcopy(event), said("1")])

        assert texts(session) == ["0", "1"] == texts(await loaded(elsewhere, session))

    # R044
    async def test_two_events_of_one_id_refuse_the_batch(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Different events under one id are an error, with nothing written."""
        session = await sessions.create_session(**ANA)

        with pytest.raises(AlreadyExistsError):
            await sessions.append_events(session, [said("0", id="e1"), said("1", id="e1")])

        assert session.events == (await loaded(elsewhere, session)).events == []


async def write_user_events(sessions: ExtraSessions) -> None:
    """Write events 1000 .. 1005 of ana into two sessions in turn, and others' around them."""
    first = await sessions.create_session(**ANA)
    second = await sessions.create_session(**ANA)
    for number in range(6):
        session = (first, second)[number % 2]
        await sessions.append_event(session, said(str(number), at=1000.0 + number))
    await session_with(sessions, [said("ben's", at=1002.5)], BEN)
    await session_with(sessions, [said("at the bank", at=1002.5)], ANA_AT_BANK)


async def write_many_sessions(sessions: ExtraSessions) -> list[str]:
    """Create 23 sessions of two users, many of one instant; return their ids in ADK's order."""
    for number in range(23):
        scope = (ANA, BEN)[number % 2]
        session = await sessions.create_session(**scope, session_id=f"{number:02}")
        await sessions.append_event(session, said("x", at=1000.0 + number // 8))
    listed = await sessions.list_sessions(app_name="travel")
    return [session.id for session in listed.sessions]


def said_in(events: list[Event]) -> list[str]:
    """Return the texts of events."""
    return [text_of(event) for event in events]


# R022
@needs("extras")
class UserEventsContract:
    """What `get_user_events` promises: a user's events over all sessions, in the order of time."""

    async def test_user_events_are_those_of_all_sessions(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Every event of the user in that app, oldest first, and nobody else's."""
        await write_user_events(sessions)

        assert said_in(await elsewhere.get_user_events(**ANA)) == list("012345")
        assert said_in(await elsewhere.get_user_events(**BEN)) == ["ben's"]

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ({"since": 1002.0}, "345"),
            ({"until": 1002.0}, "012"),
            ({"since": 1001.0, "until": 1003.0}, "23"),
            ({"since": 1003.0, "until": 1003.0}, ""),
            ({"since": 0.0}, "012345"),
            ({"until": 0.0}, ""),
            ({"limit": 2}, "45"),
            ({"limit": 0}, ""),
            ({"limit": 7}, "012345"),
            ({"limit": 99}, "012345"),
            ({"since": 1003.0, "limit": 3}, "45"),
            ({"since": datetime.datetime.fromtimestamp(1004, datetime.UTC)}, "5"),
            ({"until": datetime.datetime.fromtimestamp(1001, datetime.UTC)}, "01"),
            ({"until": 1003.0, "limit": 2}, "23"),
            ({"since": 1000.0, "until": 1004.0, "limit": 3}, "234"),
        ],
    )
    async def test_user_events_window(
        self,
        sessions: ExtraSessions,
        elsewhere: ExtraSessions,
        asked: dict[str, Any],
        expected: str,
    ) -> None:
        """`since` is exclusive, `until` inclusive, `limit` keeps the most recent; 0 is a value."""
        await write_user_events(sessions)

        found = await elsewhere.get_user_events(**ANA, **asked)

        assert said_in(found) == list(expected)

    async def test_negative_limit_of_user_events_is_refused(self, sessions: ExtraSessions) -> None:
        """A negative limit is a ValueError."""
        with pytest.raises(ValueError, match="limit"):
            await sessions.get_user_events(**ANA, limit=-1)

    async def test_user_events_are_whole_events(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """They equal those that get_session returns; nobody's events are an empty list."""
        assert await elsewhere.get_user_events(**ANA) == []
        session = await session_with(sessions, [said("0"), noted({"k": None}), said("2")])

        assert await elsewhere.get_user_events(**ANA) == session.events

    async def test_events_of_deleted_sessions_are_no_user_events(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """A deleted session's events are gone, those of its id's next life are there."""
        session = await session_with(sessions, [said("old")])
        await session_with(sessions, [said("other")])
        await sessions.delete_session(**key_of(session))
        again = await sessions.create_session(**key_of(session))
        await sessions.append_event(again, said("new"))

        assert said_in(await elsewhere.get_user_events(**ANA)) == ["other", "new"]

    # R112
    async def test_user_events_of_one_instant_keep_their_order(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Within a session events of one time keep the order of the appends."""
        events = [said(str(n), at=1000.0, id=f"{99 - n:02}") for n in range(10)]
        await session_with(sessions, events)

        assert said_in(await elsewhere.get_user_events(**ANA)) == [str(n) for n in range(10)]


# R020
@needs("extras")
class PagesContract:
    """What the additional arguments of `list_sessions` promise."""

    async def test_pages_add_up_to_the_list(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Pages of any size, one after the other, are the list: nothing twice, nothing missing."""
        whole = await write_many_sessions(sessions)
        for size in (1, 5, 23, 50):
            paged: list[str] = []
            for offset in range(0, 25, size):
                page = await elsewhere.list_sessions(app_name="travel", limit=size, offset=offset)
                paged += [session.id for session in page.sessions]
            assert paged == whole

    async def test_page_of_one_user(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Paging counts the asked user's sessions only."""
        await write_many_sessions(sessions)
        whole = [each.id for each in (await elsewhere.list_sessions(**ANA)).sessions]
        page = await elsewhere.list_sessions(**ANA, limit=4, offset=3)

        assert [each.id for each in page.sessions] == whole[3:7]

    async def test_empty_pages(self, sessions: ExtraSessions) -> None:
        """A limit of 0 and an offset past the end give no sessions."""
        await write_many_sessions(sessions)

        assert (await sessions.list_sessions(app_name="travel", limit=0)).sessions == []
        assert (await sessions.list_sessions(app_name="travel", offset=23)).sessions == []

    async def test_descending_is_the_list_reversed(
        self, sessions: ExtraSessions, elsewhere: ExtraSessions
    ) -> None:
        """Descending pages start at the most recent session, ties reversed too."""
        whole = await write_many_sessions(sessions)
        for order_by in (None, "last_update_time"):
            listed = await elsewhere.list_sessions(
                app_name="travel", order_by=order_by, descending=True, limit=10
            )
            assert [each.id for each in listed.sessions] == whole[::-1][:10]

    async def test_impossible_page_is_refused(self, sessions: ExtraSessions) -> None:
        """Negative numbers and unknown orders are a ValueError that names the argument."""
        impossible: dict[str, Any] = {"limit": -1, "offset": -1, "order_by": "mood; drop table x"}
        for name, value in impossible.items():
            with pytest.raises(ValueError, match=name):
                await sessions.list_sessions(app_name="travel", **{name: value})
