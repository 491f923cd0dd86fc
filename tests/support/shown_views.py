"""What the views show, in the form of `tests.support.analytics`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from lakestore import Lake
from tests.support import analytics
from tests.support.analytics import Row, Told

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = ("arguments", "result", "after")

PER_SESSION: dict[str, Callable[[Told], Iterable[Row]]] = {
    "sessions": lambda told: [analytics.sessions(told)],
    "messages": analytics.messages,
    "turns": analytics.turns,
    "llm_calls": analytics.llm_calls,
    "tool_calls": analytics.tool_calls,
    "errors": analytics.errors,
}
"""What each view must show of one session."""


def shown(lake: Lake, view: str, columns: Sequence[str]) -> list[Row]:
    """Return rows of a view in any order, times as microseconds and JSON parsed."""
    return [
        {name: _plain(name, value) for name, value in row.items()}
        for row in lake.scan(view, columns).read_all().to_pylist()
    ]


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // (datetime.resolution)
    if name == "before":
        return analytics.ABSENT if value is None else json.loads(value)
    return json.loads(value) if name in _JSON and value is not None else value


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows in an order that says nothing, to compare."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def check_views(lake: Lake, histories: Sequence[Told], *, states: bool = True) -> None:
    """Assert that all views show what was told, no row more or less.

    Args:
        lake: Where it was told.
        histories: What was told.
        states: Look at `state_changes` too, for which sessions came one after the other.
    """
    for view, count in PER_SESSION.items():
        expected = [row for told in histories if told.events for row in count(told)]
        columns = list(expected[0]) if expected else ["session_id"]
        found = shown(lake, view, columns)
        if view == "sessions":
            empty = [told for told in histories if not told.events]
            assert len(found) == len(expected) + len(empty)
            found = found if not empty else [row for row in found if row.get("events")]
        assert in_order(found) == in_order(expected), view
    changes = list(analytics.state_changes(histories)) if states else []
    if changes:
        assert in_order(shown(lake, "state_changes", list(changes[0]))) == in_order(changes)
