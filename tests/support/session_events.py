"""Hypothesis strategies for the session state machine: odd ids, small events, small states.

What events may hold beside is `tests.support.strategies`'; here order and identity matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import strategies as st

APPS = ("travel", "Travel", "a/b::*?[x]")
USERS = ("ana", "projects/demo-1/subscriptions/orders", " ben ", "-", "o'brien; drop table x --")
SESSIONS = (
    "s",
    "S",
    "*",
    "?[a-z]",
    "{a,b}",
    "100%",
    "%41",
    "A",
    "a/b/../c",
    "//host/x",
    "a::b",
    ".",
    "..",
    ".hidden",
    "trailing.",
    "😀é",
    "e\u0301",
    "x" * 300,
    "x" * 299 + "y",
    "12345",
    "007",
    "NULL",
    "null",
    "-",
    "~",
    "C:\\x",
    "a=b&c#d",
    "line\nbreak",
)
# Such as could be taken for each other, on some file system or by some rule.
LOOKALIKES = (
    ("s", "S"),
    ("x" * 300, "x" * 299 + "y"),
    ("%41", "A"),
    ("NULL", "null"),
    ("e\u0301", "\u00e9"),
    ("a/b", "a%2fb"),
    ("..", "."),
    ("007", "7"),
    ("*", "s"),
)
TIMES = (1.0, 2.5, 1_700_000_000.000001, 1_750_000_000.123456789, 1_750_000_000.5)

ids = st.tuples(
    st.sampled_from(APPS[:2]) | st.sampled_from(APPS),
    st.sampled_from(USERS[:2]) | st.sampled_from(USERS),
    # Few sessions, so that operations meet; blanks around an id do not count.
    st.sampled_from(SESSIONS[:2]) | st.sampled_from(SESSIONS),
)
lookalikes = st.sampled_from(LOOKALIKES)
blanks = st.sampled_from(["", "", "", " ", "\t ", "\n"])
times = st.sampled_from(TIMES)
some_times = st.none() | times | st.just(0.0)
counts = st.none() | st.integers(0, 4)
states = st.dictionaries(
    st.sampled_from(["k", "n", "user:k", "user:", "app:k", "app:n", "temp:k", "K", ""]),
    st.none() | st.integers(-3, 3) | st.sampled_from(["x", [1, {"a": None}], {"": 2**70}, 0.1]),
    max_size=4,
)


@dataclass(frozen=True)
class Said:
    """What an event says; its id is given when it is made."""

    text: str
    at: float
    delta: dict[str, Any] = field(default_factory=dict)
    partial: bool = False

    def event(self, event_id: str) -> Event:
        """Return the event."""
        return Event(
            id=event_id,
            author="user",
            invocation_id=f"i{sum(event_id.encode()) // 3}",  # a few in a row are one's
            timestamp=self.at,
            partial=self.partial or None,
            content=types.Content(role="user", parts=[types.Part(text=self.text)]),
            actions=EventActions(state_delta=dict(self.delta)),
        )


said = st.builds(
    Said,
    text=st.sampled_from(["hello", "", "it's 100% \u2028 'quoted'"]),
    at=times,
    delta=states,
    partial=st.sampled_from([False] * 9 + [True]),
)
several_said = st.lists(said, min_size=1, max_size=3)
