"""The `state` table: shared state as entries, one row a key. Arrow and Parquet; no I/O, no ADK."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from lakestore.tables.parquet import open_parquet, read_groups, write_small

APP_PREFIX = "app:"
"""Marks keys of a delta that belong to the app, as in ADK's `State.APP_PREFIX`."""
USER_PREFIX = "user:"
"""Marks keys of a delta that belong to the user, as in ADK's `State.USER_PREFIX`."""
TEMP_PREFIX = "temp:"
"""Marks keys of a delta that are never stored, as in ADK's `State.TEMP_PREFIX`."""

SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string()),
        pa.field("key", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        pa.field("stamp", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("source_user_id", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
    ]
)
"""What an entry holds: any order; of two rows of one key the later stamp counts."""


@dataclass(frozen=True, slots=True)
class StateRow:
    """One shared key as one commit set it."""

    app_name: str = field(repr=False)
    user_id: str | None = field(repr=False)
    """Null for the app's own state."""
    key: str = field(repr=False)
    """Without its prefix."""
    value: str | None = field(repr=False)
    """JSON; null where the key was pruned, of which only the stamp stays. Never in an entry."""
    stamp: str
    """Orders writes to the key; texts compare."""
    session_id: str = field(repr=False)
    """The session whose commit set it."""
    source_user_id: str = field(repr=False)
    """The user of that session; the same as `user_id` in a user's own state."""
    version: int
    """The version of that commit."""

    @property
    def origins(self) -> tuple[tuple[str, int], ...]:
        """The session that has set it, and the version; none where that is not known any more."""
        return ((self.session_id, self.version),) if self.session_id else ()

    def precedes(self, other: StateRow) -> bool:
        """Tell whether `other`, of the same key, is what counts.

        Of two with one stamp it is the one without a value: the key was pruned.
        """
        return (self.stamp, self.value is None) < (other.stamp, other.value is None)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=str, parse_float=lambda text: finite(float(text)))
_HALF = re.compile("[\ud800-\udfff]")
_NAMES = tuple(field.name for field in fields(StateRow))


def to_table(rows: Sequence[StateRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    return pa.Table.from_arrays(
        [pa.array([getattr(row, field.name) for row in rows], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def from_table(table: pa.Table) -> list[StateRow]:
    """Return the rows of a table in `SCHEMA`, in its order."""
    columns = (table[name].to_pylist() for name in _NAMES)
    return [StateRow(*values) for values in zip(*columns, strict=True)]


def encode(rows: Sequence[StateRow]) -> bytes:
    """Return an entry: Parquet in `SCHEMA`."""
    return write_small(to_table(rows))


def decode(body: bytes) -> list[StateRow]:
    """Return the rows of an entry.

    Raises:
        FormatError: the bytes are not Parquet in `SCHEMA`, or hold no row.
    """
    return from_table(read_groups(open_parquet(body, SCHEMA)))


def latest(rows: Iterable[StateRow]) -> dict[str, StateRow]:
    """Return for each key the row with the latest stamp, whatever the order of `rows`."""
    fold: dict[str, StateRow] = {}
    for row in rows:
        known = fold.get(row.key)
        if known is None or known.precedes(row):
            fold[row.key] = row
    return fold


def split_scopes(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the session's, the user's and the app's part of a delta, prefixes removed.

    Keys with `temp:` belong to none, as in ADK's `_session_util.extract_state_delta`.
    """
    session: dict[str, Any] = {}
    user: dict[str, Any] = {}
    app: dict[str, Any] = {}
    for key, value in delta.items():
        if key.startswith(APP_PREFIX):
            app[key.removeprefix(APP_PREFIX)] = value
        elif key.startswith(USER_PREFIX):
            user[key.removeprefix(USER_PREFIX)] = value
        elif not key.startswith(TEMP_PREFIX):
            session[key] = value
    return session, user, app


def to_json(value: object) -> str:
    """Return JSON without blanks; texts stay readable, keys keep their order.

    NaN and infinities, which JSON lacks, become texts: see `finite`. Halves of surrogate pairs,
    which UTF-8 lacks, stay escapes: nothing is lost.
    """
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        text = _ENCODER.encode(finite(value))
    return text if _is_utf8(text) else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _is_utf8(text: str) -> bool:
    """Tell whether a text has no halves of surrogate pairs, in a fifth of a search's time."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def to_utf8(text: str) -> str:
    """Return `text` with U+FFFD for halves of surrogate pairs, which JSON can name."""
    return text if _is_utf8(text) else _HALF.sub("\ufffd", text)


def refuse_halves(value: object) -> None:
    """Refuse what only JSON with escapes could hold, in keys or values.

    Raises:
        ValueError: a text has half of a surrogate pair, or `value` has no JSON.
        RecursionError: it nests too deep.
    """
    _ENCODER.encode(value).encode()


def from_json(text: str) -> Any:
    """Return what `to_json` wrote, or another program, whose `NaN` or 1e999 become texts too.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it nests too deep.
    """
    return _DECODER.decode(text)


def finite(value: Any) -> Any:
    """Return `value` with "NaN", "Infinity" and "-Infinity", as in proto3, for what JSON lacks.

    It is `value` itself when there are none.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        changed = {key: finite(item) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value
    if isinstance(value, list | tuple):
        items = [finite(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value
