"""What rows set in their sessions' own state, a row a key. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.tables.events import SCHEMA
from lakestore.tables.state import from_json, split_scopes, to_json

_CHANGES = pa.schema(
    [
        *(SCHEMA.field(name) for name in ("app_name", "user_id", "session_id")),
        *(SCHEMA.field(name) for name in ("version", "ordinal")),
        pa.field("place", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
    ]
)
"""The session's own state keys that rows set, as JSON, with their values as JSON; `place` is that
in the row. What is packed of a session is a row before all others."""
_PACKED = -1

PACKED_STATES = """
SELECT app_name, user_id, session_id, version, state FROM internal.packed AS session
SEMI JOIN internal.changes USING (app_name, user_id, session_id)
WHERE NOT EXISTS (
  FROM internal.changes AS known WHERE known.ordinal < 0 AND known.app_name = session.app_name
    AND known.user_id = session.user_id AND known.session_id = session.session_id
)
"""
"""What `changes_of_packed` takes, of sessions with changes where it is not among these yet."""


def changes_of(rows: pa.Table) -> pa.Table:
    """Return what `rows` set in their sessions' own state, in `_CHANGES`.

    Taken apart here and once: DuckDB's `json_each` joined to its rows repeats the whole delta for
    each of its keys.
    """
    stored = rows.filter(pc.is_valid(rows["state_delta"]))
    names = [field.name for field in _CHANGES if field.name in stored.column_names]
    columns: list[list[Any]] = [[] for _ in _CHANGES]
    for *ids, kind, text in zip(
        *(stored[name].to_pylist() for name in (*names, "kind", "state_delta")), strict=True
    ):
        if kind in ("create", "event"):
            _add(columns, ids, _own_state(text))
    return _table(columns)


def changes_of_packed(sessions: Iterable[Sequence[Any]]) -> pa.Table:
    """Return the same of (app, user, session, version, state) of what is packed of sessions.

    Taken apart here too: DuckDB would write some numbers and texts in other ways.
    """
    columns: list[list[Any]] = [[] for _ in _CHANGES]
    for *ids, state in sessions:
        _add(columns, [*ids, _PACKED], _own_state(state))
    return _table(columns)


def _add(columns: Sequence[list[Any]], ids: Sequence[Any], state: dict[str, Any]) -> None:
    for place, (key, value) in enumerate(state.items()):
        cells = (*ids, place, to_json(key), to_json(value))
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)


def _table(columns: Sequence[list[Any]]) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _CHANGES, strict=True)], _CHANGES)


def _own_state(text: str) -> dict[str, Any]:
    try:
        delta = from_json(text)
    except (ValueError, RecursionError):  # a damaged row must not fail everybody's refresh
        return {}
    return split_scopes(delta)[0] if isinstance(delta, dict) else {}
