"""What a commit sets in shared scopes, as entries hold it, and back. Asks no store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lakestore.errors import FormatError
from lakestore.log.keys import Scope, is_stamp
from lakestore.tables import state
from lakestore.tables.events import EventRow, delta_of
from lakestore.tables.state import StateRow, from_json, split_scopes, to_json, to_utf8

logger = logging.getLogger(__name__)

R = TypeVar("R")


def shared_rows(rows: Sequence[EventRow]) -> dict[Scope, list[StateRow]]:
    """Return what the commit with `rows` sets in shared scopes: for each the last row of a key."""
    if not rows or rows[0].stamp is None:
        return {}
    first = rows[0]
    merged: dict[Scope, dict[str, Any]] = {}
    for row in rows:
        if row.state_delta:
            _, user, app = split_scopes(delta_of(row))
            for scope, part in (
                (Scope(row.app_name, row.user_id), user),
                (Scope(row.app_name, None), app),
            ):
                if part:
                    merged.setdefault(scope, {}).update(
                        {to_utf8(key): value for key, value in part.items()}
                    )
    return {
        scope: [_state_row(scope, key, value, first) for key, value in part.items()]
        for scope, part in merged.items()
    }


def _state_row(scope: Scope, key: str, value: object, source: EventRow) -> StateRow:
    assert source.stamp is not None
    return StateRow(
        app_name=scope.app_name,
        user_id=scope.user_id,
        key=key,
        value=to_json(value),
        stamp=source.stamp,
        session_id=source.session_id,
        source_user_id=source.user_id,
        version=source.version,
    )


def decode_entry(key: str, body: bytes) -> list[StateRow]:
    """Return the rows of an entry of shared state; nothing when it is damaged, see `decoded`."""
    return decoded(read_entry, key, body)


def decoded(read: Callable[[str, bytes], list[R]], key: str, body: bytes) -> list[R]:
    """Return what `read` does; nothing, with an error that is logged, when the entry is damaged."""
    try:
        return read(key, body)
    except FormatError:
        # One damaged entry must not take every session of its scope along; of shared state, the
        # commit that it was made from still holds the truth.
        logger.exception("an entry is damaged and was passed over. key=%r", key)
        return []


def read_entry(key: str, body: bytes) -> list[StateRow]:
    """Return the rows of an entry of shared state.

    Raises:
        FormatError: it is damaged, or its rows are of another scope than its key.
    """
    rows = state.decode(body)
    for row in rows:
        _check(key, row)
    return rows


def _check(key: str, row: StateRow) -> None:
    """Refuse a row that is not its scope's, or that could not be folded."""
    if not key.startswith(Scope(row.app_name, row.user_id).entries):
        raise FormatError("a state row names another scope than its key")
    if not is_stamp(row.stamp):
        raise FormatError("a stamp is damaged")
    try:
        from_json(row.value or "")
    except (ValueError, RecursionError) as error:
        raise FormatError("a state value is no JSON") from error
