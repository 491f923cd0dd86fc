"""The contract of state: scopes, merging, None, and writers at the same time.

What becomes of single values is in `session_contract_values`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService

from tests.contracts.building import (
    ANA,
    ANA_AT_BANK,
    BEN,
    Scope,
    contents,
    key_of,
    loaded,
    noted,
    said,
    session_with,
)

ODD_KEYS = {
    "empty": "",
    "blank": " ",
    "dots": "a.b",
    "slash": "a/b",
    "dollar": "$",
    "quotes": "\"a\"'b'",
    "brackets": "a[0]",
    "backslash": "a\\b",
    "accent": "café",
    "decomposed": "cafe\u0301",
    "emoji": "👩\u200d🚀",
    "nul": "a\x00b",
    "upper-temp": "TEMP:x",
    "colon": ":x",
    "long": "k" * 3000,
}


class StateContract:
    """Where a state key is seen, and what a delta does to it."""

    async def test_deltas_add_up(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A delta replaces the keys that it names, whole values and not parts of them."""
        session = await sessions.create_session(**ANA, state={"a": {"x": 1}, "b": 1})
        for delta in ({"a": {"y": 2}}, {"c": [1]}, {"c": [2], "d": 0}):
            await sessions.append_event(session, noted(delta))

        expected = {"a": {"y": 2}, "b": 1, "c": [2], "d": 0}
        assert (session.state, (await loaded(elsewhere, session)).state) == (expected, expected)

    async def test_app_state_is_seen_by_every_user(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """An `app:` key reaches the sessions of all users of the app, and of no other app."""
        others = [await sessions.create_session(**scope) for scope in (ANA, BEN, ANA_AT_BANK)]
        await session_with(sessions, [noted({"app:q": 1, "k": 1})])

        states = [(await loaded(elsewhere, each)).state for each in others]

        assert states == [{"app:q": 1}, {"app:q": 1}, {}]

    async def test_user_state_is_seen_by_the_users_sessions(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A `user:` key reaches the user's sessions in that app, and nobody else's."""
        others = [await sessions.create_session(**scope) for scope in (ANA, BEN, ANA_AT_BANK)]
        await session_with(sessions, [noted({"user:p": 1, "k": 1})])

        states = [(await loaded(elsewhere, each)).state for each in others]

        assert states == [{"user:p": 1}, {}, {}]

    async def test_last_write_of_a_shared_key_wins(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Writers that read what the other wrote replace it, whatever their events' times."""
        first = await sessions.create_session(**ANA)
        second = await elsewhere.create_session(**ANA)
        for number in range(10):
            service, session = ((sessions, first), (elsewhere, second))[number % 2]
            seen = await loaded(service, session)
            assert seen.state.get("app:n", -1) == number - 1
            # Times that fall: no time may decide.
            delta = {"app:n": number, "user:n": number}
            await service.append_event(seen, noted(delta, at=5000.0 - number))

        assert (await loaded(elsewhere, first)).state == {"app:n": 9, "user:n": 9}

    # R038
    async def test_none_is_a_value(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """None in a delta keeps the key, with the value None, in every scope and every read."""
        state = {"k": 1, "user:p": 1, "app:q": 1}
        session = await sessions.create_session(**ANA, state=state)
        delta = {"k": None, "user:p": None, "app:q": None, "n": None}
        await sessions.append_event(session, noted(delta))
        (listed,) = (await elsewhere.list_sessions(**ANA)).sessions

        assert session.state == listed.state == (await loaded(elsewhere, session)).state == delta
        assert await elsewhere.get_user_state(**ANA) == {"p": None}

    # R038
    async def test_none_in_the_initial_state_is_a_value(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """None given to create is kept too."""
        state = {"k": None, "user:p": None, "app:q": None}
        session = await sessions.create_session(**ANA, state=state)

        assert session.state == (await loaded(elsewhere, session)).state == state

    # R038 R040
    async def test_stored_deltas_replay_to_the_stored_state(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Folding the deltas of the stored events over the initial state gives the state."""
        initial = {"a": 1, "b": {"x": None}}
        session = await sessions.create_session(**ANA, state=initial)
        for delta in ({"a": None}, {"c": [None, 1], "user:p": None}, {"b": 2, "app:q": 0.1 + 0.2}):
            await sessions.append_event(session, noted(delta))
        reload = await loaded(elsewhere, session)

        replayed: dict[str, Any] = dict(initial)
        for event in reload.events:
            replayed |= event.actions.state_delta
        assert replayed == reload.state

    @pytest.mark.parametrize("key", ODD_KEYS)
    async def test_odd_state_key_is_a_key(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, key: str
    ) -> None:
        """Any text is a state key, in every scope."""
        names = [prefix + ODD_KEYS[key] for prefix in ("", "user:", "app:")]
        session = await sessions.create_session(**ANA, state=dict.fromkeys(names, 1))
        assert (await loaded(elsewhere, session)).state == dict.fromkeys(names, 1)

        await sessions.append_event(session, noted(dict.fromkeys(names, 2)))

        assert session.state == dict.fromkeys(names, 2)
        assert (await loaded(elsewhere, session)).state == dict.fromkeys(names, 2)

    async def test_prefix_counts_once(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Only the first prefix says the scope; what follows is the key."""
        delta = {"app:user:x": 1, "user:app:x": 2, "x:app:": 3, "user:temp:x": 4, "apps:x": 5}
        session = await session_with(sessions, [noted(delta)])

        assert (await loaded(elsewhere, session)).state == delta
        assert (await elsewhere.create_session(**BEN)).state == {"app:user:x": 1}
        assert await elsewhere.get_user_state(**ANA) == {"app:x": 2, "temp:x": 4}

    # R106
    async def test_user_state_is_read_without_a_session(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Raw keys of that user in that app, {} where there are none."""
        assert await elsewhere.get_user_state(**ANA) == {}
        delta = {"user:p": {"x": [1]}, "user:n": None, "k": 1, "app:q": 1}
        session = await session_with(sessions, [noted(delta)])
        expected = {"p": {"x": [1]}, "n": None}
        assert await elsewhere.get_user_state(**ANA) == expected
        assert await elsewhere.get_user_state(**BEN) == {}
        assert await elsewhere.get_user_state(**ANA_AT_BANK) == {}

        await sessions.delete_session(**key_of(session))

        assert await elsewhere.get_user_state(**ANA) == expected

    # R106
    async def test_user_state_read_is_the_callers_own(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Changing what get_user_state returned changes nothing that is stored."""
        await sessions.create_session(**ANA, state={"user:list": [1]})
        state = await elsewhere.get_user_state(**ANA)
        state["list"].append(2)
        state["other"] = 3

        assert await elsewhere.get_user_state(**ANA) == {"list": [1]}

    # Of thirty keys twelve survived where whole snapshots of the state are written.
    @pytest.mark.parametrize("prefix", ["app:", "user:"])
    async def test_thirty_concurrent_shared_keys_are_all_kept(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, prefix: str
    ) -> None:
        """Sessions that write different shared keys at the same time lose none."""
        handles = [await sessions.create_session(**ANA) for _ in range(30)]

        await asyncio.gather(
            *(
                (sessions, elsewhere)[number % 2].append_event(
                    handle, said("hello", delta={f"{prefix}{number}": number})
                )
                for number, handle in enumerate(handles)
            )
        )

        expected = {f"{prefix}{number}": number for number in range(30)}
        assert (await loaded(elsewhere, handles[0])).state == expected
        assert (await loaded(sessions, handles[1])).state == expected

    async def test_concurrent_writers_of_one_shared_key_agree(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Of concurrent writes to one key one stands, and every reader sees the same."""
        scopes: list[Scope] = [{"app_name": "travel", "user_id": f"u{n}"} for n in range(10)]
        handles = [await sessions.create_session(**scope) for scope in scopes]

        await asyncio.gather(
            *(
                (sessions, elsewhere)[number % 2].append_event(handle, noted({"app:n": number}))
                for number, handle in enumerate(handles)
            )
        )

        seen = [(await loaded(sessions, each)).state["app:n"] for each in handles]
        seen += [(await loaded(elsewhere, each)).state["app:n"] for each in handles]
        assert len(set(seen)) == 1
        assert seen[0] in range(10)

    # R002 R043
    async def test_handle_takes_up_shared_state_when_it_is_reloaded(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """An append does not pull in others' shared keys, and does not put old ones back."""
        session = await sessions.create_session(**ANA, state={"app:q": 1})
        await session_with(elsewhere, [noted({"app:q": 2, "app:r": 2})], BEN)
        await sessions.append_event(session, noted({"k": 1}))

        assert session.state == {"k": 1, "app:q": 1}
        reload = await loaded(elsewhere, session)
        assert reload.state == {"k": 1, "app:q": 2, "app:r": 2}
        assert contents(reload) == contents(await loaded(sessions, session))
