"""The contract of `get_session`: what is found, which events, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

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
    texts,
)

# R047: five events at 1000 .. 1004, what is asked, and which of them come back.
WINDOWS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "01234"),
    "last-two": ({"num_recent_events": 2}, "34"),
    "none": ({"num_recent_events": 0}, ""),
    "one-more-than-there-are": ({"num_recent_events": 6}, "01234"),
    "many-more-than-there-are": ({"num_recent_events": 99}, "01234"),
    "from-1002": ({"after_timestamp": 1002.0}, "234"),
    "from-just-after-1002": ({"after_timestamp": 1002.0000001}, "34"),
    "from-zero": ({"after_timestamp": 0.0}, "01234"),
    "from-the-future": ({"after_timestamp": 9999.0}, ""),
    "two-from-1001": ({"after_timestamp": 1001.0, "num_recent_events": 2}, "34"),
    "three-from-1003": ({"after_timestamp": 1003.0, "num_recent_events": 3}, "34"),
    "none-from-1001": ({"after_timestamp": 1001.0, "num_recent_events": 0}, ""),
}


class ReadContract:
    """What `get_session` promises."""

    async def test_unknown_session_is_none(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A session that was never created is None, whatever of its key is known."""
        # R071
        assert await elsewhere.get_session(**ANA, session_id="s1") is None

        await sessions.create_session(**ANA, session_id="s1")

        assert await elsewhere.get_session(**ANA, session_id="") is None
        assert await elsewhere.get_session(**ANA, session_id=" ") is None
        assert await elsewhere.get_session(**ANA, session_id="s2") is None
        assert await elsewhere.get_session(**BEN, session_id="s1") is None
        assert await elsewhere.get_session(**ANA_AT_BANK, session_id="s1") is None

    # R047
    @pytest.mark.parametrize("window", WINDOWS)
    async def test_window_of_events(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, window: str
    ) -> None:
        """`after_timestamp` includes its own instant, then the last N remain; 0 is a value."""
        events = [said(str(number), at=1000.0 + number) for number in range(5)]
        session = await session_with(sessions, events)
        asked, expected = WINDOWS[window]

        assert texts(await loaded(elsewhere, session, **asked)) == list(expected)

    # R047
    async def test_negative_number_of_events_is_refused(self) -> None:
        """A negative N is a ValueError, raised before any service is asked."""
        with pytest.raises(ValueError, match="greater than or equal to 0"):
            GetSessionConfig(num_recent_events=-1)

    # R047 R083
    async def test_after_zero_leaves_out_what_was_before_1970(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """`after_timestamp=0.0` is an instant, not the absence of one."""
        events = [said("before", at=-1.0), said("at", at=0.0), said("after", at=1.0)]
        session = await session_with(sessions, events)

        assert texts(await loaded(elsewhere, session, after_timestamp=0.0)) == ["at", "after"]

    # R047 R112
    async def test_window_is_by_each_events_own_time(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Where clocks disagree, `after_timestamp` judges every event, wherever it stands."""
        events = [said(str(at), at=float(at)) for at in (1000, 1005, 1001, 1006)]
        session = await session_with(sessions, events)

        assert texts(await loaded(elsewhere, session, after_timestamp=1002.0)) == ["1005", "1006"]

    # R047 R112
    async def test_last_events_of_a_window_are_the_last_appended(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of the events from an instant on, N keeps those appended last, whatever their times."""
        events = [said(str(at), at=float(at)) for at in (1000, 1005, 1001, 1006)]
        session = await session_with(sessions, events)
        window = await loaded(elsewhere, session, after_timestamp=1001.0, num_recent_events=2)

        assert texts(window) == ["1001", "1006"]

    # R112
    async def test_order_is_that_of_the_appends(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Events come back in the order in which they were committed, not that of their times."""
        events = [said(str(at), at=float(at)) for at in (1005, 1000, 1003, 1001)]
        session = await session_with(sessions, events)

        assert texts(await loaded(elsewhere, session)) == ["1005", "1000", "1003", "1001"]
        recent = await loaded(elsewhere, session, num_recent_events=2)
        assert texts(recent) == ["1003", "1001"]

    async def test_equal_times_keep_their_order(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Events of one instant come back in the order of the appends, at every read."""
        # Ids that fall while the appends go on: a tie broken by id comes back reversed.
        events = [said(str(n), at=1000.0, id=f"{99 - n:02}") for n in range(20)]
        session = await session_with(sessions, events)

        assert texts(await loaded(elsewhere, session)) == [str(n) for n in range(20)]
        recent = await loaded(elsewhere, session, num_recent_events=3)
        assert texts(recent) == ["17", "18", "19"]

    async def test_window_does_not_touch_the_state(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """State and time are those of the whole session, however few events are asked for."""
        deltas = [{"a": 1, "user:b": 1}, {"a": 2, "app:c": 3}, {"d": 4}]
        session = await session_with(sessions, map(noted, deltas))

        for number in (0, 1):
            part = await loaded(elsewhere, session, num_recent_events=number)
            assert part.state == {"a": 2, "d": 4, "user:b": 1, "app:c": 3}
            assert part.last_update_time == session.last_update_time

    async def test_handle_of_a_part_can_append(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A handle that was read without all events is as current as any other."""
        session = await session_with(sessions, [said("0"), said("1"), said("2")])
        for number in (0, 1):
            part = await loaded(elsewhere, session, num_recent_events=number)
            await elsewhere.append_event(part, said(f"after {number}"))

        reload = await loaded(elsewhere, session)

        assert texts(reload) == ["0", "1", "2", "after 0", "after 1"]

    async def test_handle_is_the_callers_own(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """What a caller changes in a handle is not stored, and no other handle sees it."""
        session = await session_with(sessions, [said("0", delta={"list": [1], "user:l": [1]})])
        changed = await loaded(elsewhere, session)
        changed.state["list"].append(2)
        changed.state["user:l"].append(2)
        changed.state["other"] = 3
        changed.events[0].author = "somebody else"
        changed.events.clear()

        assert contents(session) == contents(await loaded(elsewhere, session))

    # R002
    async def test_what_another_writer_did_is_seen_at_once(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A reader that has read before sees the next append, create and delete of another."""
        session = await session_with(sessions, [said("0")])
        assert texts(await loaded(elsewhere, session)) == ["0"]

        await sessions.append_event(session, said("1", delta={"k": 1, "user:p": 2, "app:q": 3}))
        assert contents(session) == contents(await loaded(elsewhere, session))

        other = await sessions.create_session(**ANA, session_id="other")
        assert await elsewhere.get_session(**key_of(other)) is not None
        listed = (await elsewhere.list_sessions(**ANA)).sessions
        assert {each.id for each in listed} == {session.id, "other"}

        await sessions.delete_session(**key_of(session))
        assert await elsewhere.get_session(**key_of(session)) is None
        assert [each.id for each in (await elsewhere.list_sessions(**ANA)).sessions] == ["other"]
