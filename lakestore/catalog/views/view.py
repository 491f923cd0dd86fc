"""What a view is: its columns with their meaning, and the query behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

TEXT = "VARCHAR"
TEXTS = "VARCHAR[]"
TIME = "TIMESTAMP WITH TIME ZONE"
COUNT = "BIGINT"
NUMBER = "DOUBLE"
FLAG = "BOOLEAN"


class Column(NamedTuple):
    """One column of a view."""

    type: str
    """As DuckDB's DESCRIBE shows it."""
    meaning: str
    """What it says, with its unit."""


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    meaning: str
    """What a row is."""
    columns: Mapping[str, Column]
    """Names in their order."""
    query: str
    """What it selects, from tables and views of the schema `internal`."""


IDS = {
    "app_name": Column(TEXT, "the app"),
    "user_id": Column(TEXT, "the user"),
    "session_id": Column(TEXT, "the session; names one only together with app and user"),
}

PLACE = {
    "version": Column(COUNT, "number of the commit in its session; (version, ordinal) orders"),
    "ordinal": Column("INTEGER", "place of the event in its commit, from 0"),
}

EVENT = {
    "event_id": Column(TEXT, "the event's id"),
    "invocation_id": Column(TEXT, "the turn that the event belongs to"),
}

EVENT_TIME = {
    "event_time": Column(TIME, "when it happened, to the microsecond; the JSON has the float"),
}

TOKENS = {
    "prompt_tokens": Column(COUNT, "tokens of the prompt, those from a cache among them"),
    "output_tokens": Column(COUNT, "tokens of the answer, without thoughts"),
    "thought_tokens": Column(COUNT, "tokens of the model's thoughts"),
    "cached_tokens": Column(COUNT, "tokens of the prompt that came from a cache"),
    "total_tokens": Column(COUNT, "all tokens, as the model counted them"),
}

MARKS = {
    "is_rewound": Column(FLAG, "whether a later rewind took it out of the conversation"),
    "is_summarised": Column(
        FLAG, "whether models get a summary (an event compaction) in its place by now"
    ),
}


def quoted(name: str) -> str:
    """Return `name` as SQL spells an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return `text` as SQL spells a text."""
    return "'" + text.replace("'", "''") + "'"
