"""What rows set in their sessions' own state, a row a key. Pure; no I/O."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.tables.events import SCHEMA
from lakestore.tables.state import from_json, split_scopes, to_json

_CHANGES = pa.schema(
    [
        *(SCHEMA.field(name) for name in ("app_name", "user_id", "session_id")),
        *(SCHEMA.field(name) for name in ("version", "ordinal")),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
    ]
)
"""The session's own state keys that rows set, with their values as JSON."""


def changes_of(rows: pa.Table) -> pa.Table:
    """Return what `rows` set in their sessions' own state, in `_CHANGES`.

    Taken apart here and once: DuckDB's `json_each` joined to its rows repeats the whole delta for
    each of its keys.
    """
    stored = rows.filter(pc.is_valid(rows["state_delta"]))
    names = [field.name for field in _CHANGES if field.name in stored.column_names]
    columns: list[list[Any]] = [[] for _ in _CHANGES]
    for *place, kind, text in zip(
        *(stored[name].to_pylist() for name in (*names, "kind", "state_delta")), strict=True
    ):
        if kind in ("create", "event"):
            for key, value in _own_state(text).items():
                for column, cell in zip(columns, (*place, key, to_json(value)), strict=True):
                    column.append(cell)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _CHANGES, strict=True)], _CHANGES)


def _own_state(text: str) -> dict[str, Any]:
    try:
        delta = from_json(text)
    except (ValueError, RecursionError):  # a damaged row must not fail everybody's refresh
        return {}
    own = split_scopes(delta)[0] if isinstance(delta, dict) else {}
    return {key: value for key, value in own.items() if _is_text(key) and _is_text(to_json(value))}


def _is_text(text: str) -> bool:
    """Tell whether Arrow can hold `text`: JSON may name half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
