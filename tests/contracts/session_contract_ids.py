"""The contract of ids: any text is an id, and two different texts are two ids.

Refused ids are part of `session_contract_create`.
"""

from __future__ import annotations

import pytest
from google.adk.sessions import BaseSessionService

from tests.contracts.building import (
    Scope,
    SessionKey,
    contents,
    key_of,
    loaded,
    said,
    session_with,
    texts,
)

# R001 R028 R029 R034 R035 R037 R080 R113
ODD_IDS = {
    "brackets": "u[1]",
    "star": "u*",
    "question": "u?",
    "braces": "{a,b}",
    "percent": "100%",
    "percent-encoded": "a%2Fb",
    "slash": "a/b",
    "backslash": "a\\b",
    "plus": "mail+tag@corp.test",
    "inner-blank": "a b",
    "equals": "x=y",
    "hash": "a#b",
    "ampersand": "a&b;c",
    "colons": "a::b",
    "user-prefix": "user:a",
    "dot": ".",
    "dots": "..",
    "traversal": "../../etc",
    "hidden": ".bot",
    "trailing-dot": "x.",
    "underscore": "_svc",
    "tilde": "~",
    "device": "CON",
    "device-file": "nul.txt",
    "drive": "C:\\x",
    "topic": "//events.test/topics/t",
    "subscription": "projects/demo-1/subscriptions/orders",
    "long-resource": "projects/" + "demo-1/" * 23 + "subscriptions",
    "number": "123",
    "leading-zeros": "007",
    "seven": "7",
    "float": "1e5",
    "date": "2024-01-05",
    "null": "null",
    "NULL": "NULL",
    "true": "true",
    "hive-default": "__HIVE_DEFAULT_PARTITION__",
    "apostrophe": "o'brien",
    "injection": "x'); drop view events; --",
    "quotes": '"a"',
    "upper": "Ana",
    "lower": "ana",
    "nfc": "caf\u00e9",
    "nfd": "cafe\u0301",
    "accent": "émile",
    "japanese": "日本",
    "emoji": "👩\u200d🚀",
    "right-to-left": "مرحبا",
    "line-separator": "a\u2028b",
    "newline": "a\nb",
    "control": "a\x1bb",
    "long": "x" * 300,
    "long-sibling": "x" * 299 + "y",
    "long-letters": "\u00e9" * 200,
}
# User and app ids are kept as they are, blanks included; session ids are stripped.
PADDED_IDS = {"leading-blank": " ana", "trailing-blank": "ana ", "blank": " ", "tab": "\tana"}


def scope_of(role: str, odd: str) -> Scope:
    """Return a scope in which `role` is `odd`."""
    scopes: dict[str, Scope] = {
        "user": {"app_name": "travel", "user_id": odd},
        "app": {"app_name": odd, "user_id": "ana"},
    }
    return scopes[role]


class IdContract:
    """What every id may be, and what it is kept apart from."""

    async def test_odd_session_ids_are_ids(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """A session of any id is created, appended to, read, listed and deleted."""
        for name, odd in ODD_IDS.items():
            scope: Scope = {"app_name": "travel", "user_id": f"user of {name}"}
            session = await sessions.create_session(**scope, session_id=odd, state={"k": 1})
            await sessions.append_event(session, said("hello", delta={"k": 2}))
            listed = (await elsewhere.list_sessions(**scope)).sessions

            assert [each.id for each in listed] == [odd]
            assert contents(session) == contents(await loaded(elsewhere, session))
            await elsewhere.delete_session(**key_of(session))
            assert await sessions.get_session(**key_of(session)) is None

    @pytest.mark.parametrize("role", ["user", "app"])
    async def test_odd_scopes_are_scopes(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, role: str
    ) -> None:
        """Any user or app id is kept letter by letter, with its sessions and its state."""
        for odd in (ODD_IDS | PADDED_IDS).values():
            scope = scope_of(role, odd)
            session = await session_with(sessions, [said("hello", delta={"user:p": 1})], scope)
            listed = (await elsewhere.list_sessions(**scope)).sessions
            listed_of_app = (await elsewhere.list_sessions(app_name=scope["app_name"])).sessions

            assert contents(session) == contents(await loaded(elsewhere, session))
            assert [key_of(each) for each in listed] == [key_of(session)]
            assert key_of(session) in [key_of(each) for each in listed_of_app]
            assert await elsewhere.get_user_state(**scope) == {"p": 1}

    # R001 R028 R029 R080
    @pytest.mark.parametrize("role", ["session", "user", "app"])
    async def test_odd_ids_stay_apart(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, role: str
    ) -> None:
        """Of all odd ids side by side each sees its own, and deleting one leaves the others."""
        keys = [_key(role, odd) for odd in ODD_IDS.values()]
        for number, key in enumerate(keys):
            session = await sessions.create_session(**key)
            await sessions.append_event(session, said(f"of {number}"))
        gone = len(keys) // 2
        for key in keys[:gone]:
            await sessions.delete_session(**key)

        found = [await elsewhere.get_session(**key) for key in keys]

        assert found[:gone] == [None] * gone
        assert [texts(each) if each else None for each in found[gone:]] == [
            [f"of {number}"] for number in range(gone, len(keys))
        ]

    # R028
    async def test_all_numeric_ids_stay_text(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Where every user id looks like a number they are still texts, each its own."""
        users = ["7", "007", "123", "1e5", "0x7", "-7", "7.0"]
        for user_id in users:
            await sessions.create_session(app_name="1", user_id=user_id, session_id="1")

        listed = (await elsewhere.list_sessions(app_name="1")).sessions

        assert sorted(session.user_id for session in listed) == sorted(users)

    # R050
    async def test_one_session_id_in_four_scopes_is_four_sessions(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """App, user and session id together say which session; none says it alone."""
        keys = [
            SessionKey(app_name=app, user_id=user, session_id="main")
            for app in ("x", "y")
            for user in ("a", "b")
        ]
        for key in keys:
            name = key["app_name"] + key["user_id"]
            session = await sessions.create_session(**key, state={"k": name})
            await sessions.append_event(session, said(name, delta={"user:p": name}))

        found = [await elsewhere.get_session(**key) for key in keys]
        assert [(each.state, texts(each)) for each in found if each] == [
            ({"k": name, "user:p": name}, [name]) for name in ("xa", "xb", "ya", "yb")
        ]
        await elsewhere.delete_session(**keys[0])
        left = [await sessions.get_session(**key) for key in keys]
        assert [each is None for each in left] == [True, False, False, False]

    # R013: what ids spell out when joined by a separator must not meet.
    async def test_ids_that_join_to_the_same_path_stay_apart(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """Moving a separator from one id to the next makes another session."""
        keys = [
            SessionKey(app_name="a", user_id="b/c", session_id="d"),
            SessionKey(app_name="a/b", user_id="c", session_id="d"),
            SessionKey(app_name="a", user_id="b", session_id="c/d"),
            SessionKey(app_name="a", user_id="b/session=c", session_id="d"),
            SessionKey(app_name="a", user_id="b", session_id="session=c/d"),
        ]
        for number, key in enumerate(keys):
            session = await sessions.create_session(**key)
            await sessions.append_event(session, said(f"of {number}"))

        found = [await elsewhere.get_session(**key) for key in keys]

        assert [texts(each) for each in found if each] == [[f"of {n}"] for n in range(len(keys))]


def _key(role: str, odd: str) -> SessionKey:
    keys: dict[str, SessionKey] = {
        "session": {"app_name": "travel", "user_id": "ana", "session_id": odd},
        "user": {**scope_of("user", odd), "session_id": "main"},
        "app": {**scope_of("app", odd), "session_id": "main"},
    }
    return keys[role]
