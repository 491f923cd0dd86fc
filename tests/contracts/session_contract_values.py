"""The contract of state values: JSON exactly, everything else in its JSON form.

The rule for what is not JSON is ADK's `make_json_safe_state`; the samples say what it gives.
What has no JSON form at all is refused (`session_contract_refusal`).
"""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import pathlib
import uuid
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from google.adk.sessions import BaseSessionService

from tests.contracts.building import ANA, contents, loaded, noted, session_with


class Level(enum.Enum):
    """A value with a name."""

    HIGH = "high"


class Trip(pydantic.BaseModel):
    """A pydantic model, as agents put into their state."""

    to: str
    days: int
    when: datetime.date | None = None


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: float


def nested(depth: int) -> Any:
    """Return lists and objects inside each other."""
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


# Compared as JSON text: 1, 1.0 and true are three values.
EXACT: dict[str, Any] = {
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "one-float": 1.0,
    "minus-zero": -0.0,
    "sum": 0.1 + 0.2,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "exponent": 1e22,
    "beyond-float": 2**53 + 1,
    "int64": -(2**63),
    "big": 10**30,
    "empty-text": "",
    "text": "é e\u0301 👩\u200d🚀 \u2028 \\ \" '",
    "controls": "\x01\x1b\x7f\r\n\t",
    "looks-like-a-number": "007",
    "looks-like-null": "null",
    "looks-like-a-date": "2024-01-05",
    "looks-like-json": '{"a": 1}',
    "empty-list": [],
    "empty-object": {},
    "list": [1, 1.0, True, None, "x", [], {}],
    "object": {"b": 1, "a": {"": None}, "0": [0.1]},
    "deep": nested(60),
    "long": "x" * 100_000,
    "wide": {f"k{n}": n / 7 for n in range(500)},
}

# R011
RICH: dict[str, tuple[Any, Any]] = {
    "datetime": (
        datetime.datetime(2024, 1, 5, 12, 30, 1, 250, tzinfo=datetime.UTC),
        "2024-01-05T12:30:01.000250Z",
    ),
    "date": (datetime.date(2024, 1, 5), "2024-01-05"),
    "timedelta": (datetime.timedelta(days=1, seconds=2), "P1DT2S"),
    "tuple": ((1, (2, 3)), [1, [2, 3]]),
    "set": ({1}, [1]),
    "frozenset": (frozenset({"x"}), ["x"]),
    "int-key": ({1: "a", 2: {3: "b"}}, {"1": "a", "2": {"3": "b"}}),
    "model": (Trip(to="Rome", days=3), {"to": "Rome", "days": 3, "when": None}),
    "models": (
        [Trip(to="Rome", days=3, when=datetime.date(2024, 1, 5))],
        [{"to": "Rome", "days": 3, "when": "2024-01-05"}],
    ),
    "dataclass": (Point(1, 2.5), {"x": 1, "y": 2.5}),
    "enum": (Level.HIGH, "high"),
    "decimal": (decimal.Decimal("1.10"), "1.10"),
    "uuid": (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "path": (pathlib.PurePosixPath("/a/b"), "/a/b"),
    "utf8-bytes": ("é".encode(), "é"),
    "set-in-a-tuple": ({"x": (1, {2})}, {"x": [1, [2]]}),
}

# R040
NOT_FINITE = {
    "nan": (float("nan"), "NaN"),
    "infinity": (float("inf"), "Infinity"),
    "minus-infinity": (float("-inf"), "-Infinity"),
    "nested": (
        {"list": [float("nan"), 1.5, {"x": float("-inf")}]},
        {"list": ["NaN", 1.5, {"x": "-Infinity"}]},
    ),
}


def everywhere(value: Any) -> dict[str, Any]:
    """Return a state with the value in every scope."""
    return {"k": value, "user:k": value, "app:k": value}


def as_json(value: Any) -> str:
    """Return the value as JSON text, in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


class StateValueContract:
    """What a reader gets for a value that was written."""

    # R040
    @pytest.mark.parametrize("name", EXACT)
    async def test_json_value_is_kept_exactly(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, name: str
    ) -> None:
        """A JSON value comes back as the same value of the same type, after more writes too."""
        session = await sessions.create_session(**ANA, state=everywhere(EXACT[name]))
        expected = as_json(everywhere(EXACT[name]))
        assert as_json((await loaded(elsewhere, session)).state) == expected

        await sessions.append_event(session, noted(everywhere("meanwhile")))
        await sessions.append_event(session, noted(everywhere(EXACT[name])))
        assert as_json((await loaded(elsewhere, session)).state) == expected

        # A store that rewrites the whole state on each delta may hurt the keys not named.
        await sessions.append_event(session, noted({"other": 1, "user:other": 1, "app:other": 1}))
        reload = await loaded(elsewhere, session)
        kept = {key: value for key, value in reload.state.items() if not key.endswith("other")}
        assert as_json(kept) == expected
        assert as_json(reload.events[1].actions.state_delta) == expected
        assert contents(session) == contents(reload)

    # R041
    @pytest.mark.parametrize(
        "value",
        ["a\x00b", {"deep": ["\x00", "\x00\x00b"]}, {"k\x00": 1}],
        ids=["text", "nested", "key"],
    )
    async def test_nul_in_a_value_is_kept(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, value: Any
    ) -> None:
        """NUL is a character like any other: never cut, never refused."""
        session = await sessions.create_session(**ANA, state=everywhere(value))
        assert (await loaded(elsewhere, session)).state == everywhere(value)

        await sessions.append_event(session, noted({**everywhere(value), "x": value}))

        assert (await loaded(elsewhere, session)).state == {**everywhere(value), "x": value}

    # R011
    @pytest.mark.parametrize("name", RICH)
    async def test_rich_value_is_stored_in_its_json_form(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, name: str
    ) -> None:
        """The handle keeps the value itself, a reader gets what pydantic makes of it as JSON."""
        value, expected = RICH[name]
        session = await sessions.create_session(**ANA)
        await sessions.append_event(session, noted(everywhere(value)))
        reload = await loaded(elsewhere, session)

        assert session.state == everywhere(value)
        assert type(session.state["k"]) is type(value)
        # Compared twice: JSON text tells 1 from true, equality a list from a tuple.
        assert reload.state == everywhere(expected)
        assert as_json(reload.state) == as_json(everywhere(expected))

    # R011 R040
    @pytest.mark.parametrize("name", RICH)
    async def test_stored_event_and_state_agree_on_a_rich_value(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, name: str
    ) -> None:
        """The delta in the stored event is what was folded into the state, so a replay agrees."""
        session = await session_with(sessions, [noted(everywhere(RICH[name][0]))])
        reload = await loaded(elsewhere, session)

        assert reload.events[0].actions.state_delta == reload.state

    # R011
    @pytest.mark.parametrize("name", RICH)
    async def test_rich_initial_value_is_stored_in_its_json_form(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, name: str
    ) -> None:
        """State given to create is brought to JSON too, and returned as it is stored."""
        value, expected = RICH[name]
        session = await sessions.create_session(**ANA, state=everywhere(value))

        assert session.state == everywhere(expected)
        assert (await loaded(elsewhere, session)).state == everywhere(expected)

    # R011
    async def test_function_is_stored_as_text(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService
    ) -> None:
        """What pydantic does not know becomes a text; its neighbours stay as they are."""
        session = await sessions.create_session(**ANA, state={"f": print})
        assert isinstance((await loaded(elsewhere, session)).state["f"], str)

        delta = {"f": lambda: 1, "user:o": object(), "k": (1, 2), "app:big": 10**30}
        await sessions.append_event(session, noted(delta))
        reload = await loaded(elsewhere, session)

        assert isinstance(reload.state["f"], str)
        assert isinstance(reload.state["user:o"], str)
        assert reload.state["k"] == [1, 2]
        assert reload.state["app:big"] == 10**30

    # R040
    @pytest.mark.parametrize("name", NOT_FINITE)
    async def test_what_is_not_finite_is_stored_as_text(
        self, sessions: BaseSessionService, elsewhere: BaseSessionService, name: str
    ) -> None:
        """NaN and infinities, which JSON lacks, are read as the texts that proto3 JSON uses."""
        value, expected = NOT_FINITE[name]
        delta = {**everywhere(value), "big": 10**30, "f": 0.1 + 0.2}
        session = await sessions.create_session(**ANA, state={"initial": value})
        await sessions.append_event(session, noted(delta))
        reload = await loaded(elsewhere, session)

        rest = {"big": 10**30, "f": 0.1 + 0.2}
        assert reload.state == {"initial": expected, **everywhere(expected), **rest}
        assert reload.events[0].actions.state_delta == {**everywhere(expected), **rest}
