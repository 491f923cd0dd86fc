"""The `events` table: what was committed to sessions. Arrow and Parquet; no I/O, no ADK.

A row is what is stored; the thin columns, worth querying without opening the JSON, are a pure
function of it (`lakestore.tables.thin`). Commits leave the thin columns out, since encoding them
costs more than the rest of a commit; rollups carry them; no reader can tell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, Literal, get_args

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.tables.parquet import (
    TypedFile,
    checked,
    lean,
    open_parquet,
    read_exactly,
    read_groups,
    read_stored,
    write_large,
    write_small,
)
from lakestore.tables.payloads import PAYLOADS, Payload, payload_array, payloads_in
from lakestore.tables.state import from_json, to_utf8
from lakestore.tables.thin import THIN_FIELDS, thin_columns

Kind = Literal["create", "event", "delete", "checkpoint"]

_UTC = pa.timestamp("us", tz="UTC")

COMMIT_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("committed_at", _UTC, nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("previous", pa.string(), nullable=False),
        pa.field("stamp", pa.string()),
        pa.field("state_delta", pa.string()),
        pa.field("event_json", pa.string()),
        pa.field("payloads", PAYLOADS),
    ]
)
"""What a commit holds: rows of one version, ascending ordinal. An object has `payloads` only where
one of its rows has any."""

SCHEMA = pa.schema([*COMMIT_SCHEMA, *THIN_FIELDS])
"""What every reader sees: `COMMIT_SCHEMA` and the thin columns."""

ROW_GROUP_ROWS = 256
_COMPRESS_FROM = 2_048


@dataclass(frozen=True, slots=True)
class EventRow:
    """One stored row; texts are JSON where the name says so. Its repr shows nothing of people."""

    version: int
    """The commit's number in its session's log, from 1."""
    ordinal: int
    """The row's place in its commit, from 0."""
    kind: Kind
    """`create`: a session begins; `event`; `delete`: it ends; `checkpoint`: what the rows before
    it, in a rollup, fold to."""
    app_name: str = field(repr=False)
    user_id: str = field(repr=False)
    session_id: str = field(repr=False)
    committed_at: int
    """The writer's clock in microseconds since 1970 UTC: informative, never orders."""
    token: str
    """The commit's random token."""
    previous: str
    """The token of the commit that the writer saw as the last, empty before the first."""
    stamp: str | None = None
    """Orders the commit's shared state; null when it touches none."""
    state_delta: str | None = field(default=None, repr=False)
    """JSON object of the state keys that the row sets, null when none: `app:` and `user:` keys
    with their prefix. A `create` row has the initial state, a `checkpoint` row the folded one."""
    event_json: str | None = field(default=None, repr=False)
    """The whole ADK event; null when the kind is not `event`. Where `payloads` are, it has empty
    texts."""
    payloads: tuple[Payload, ...] = field(default=(), repr=False)
    """The bytes that were moved out of the event."""


_LEAN = lean(COMMIT_SCHEMA)
_NAMES = tuple(field.name for field in fields(EventRow) if field.name != "payloads")
_ROW = pa.struct(list(_LEAN))
_values = attrgetter(*_LEAN.names)
_REFERRING = pa.schema([COMMIT_SCHEMA.field("version"), COMMIT_SCHEMA.field("payloads")])


def delta_of(row: EventRow) -> dict[str, Any]:
    """Return what the row sets in the state, prefixes kept; {} when nothing.

    Raises:
        FormatError: it is not a JSON object.
    """
    if row.state_delta is None:
        return {}
    try:
        delta = from_json(row.state_delta)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a state delta is damaged. version={row.version:020}") from error
    if not isinstance(delta, dict):
        raise FormatError(f"a state delta is no JSON object. version={row.version:020}")
    return delta


def event_of(row: EventRow) -> dict[str, Any]:
    """Return the event in the row as JSON, {} when there is none or it is damaged."""
    try:
        event = json.loads(row.event_json or "{}")
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def event_id(row: EventRow) -> str | None:
    """Return the id of the event in `row` as columns hold it, None when it holds none."""
    found = event_of(row).get("id")
    return to_utf8(found) if isinstance(found, str) else None


def event_time(row: EventRow) -> float:
    """Return the event's exact time in seconds since 1970 UTC; 0.0 when it has none."""
    found = event_of(row).get("timestamp")
    try:
        return float(found) if isinstance(found, int | float) else 0.0
    except OverflowError:
        return 0.0


def to_table(rows: Sequence[EventRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    table = _stored_columns(rows, whole=True)
    for column, values in zip(THIN_FIELDS, thin_columns(rows), strict=True):
        table = table.append_column(column, pa.array(values, column.type))
    return table


def from_table(table: pa.Table) -> list[EventRow]:
    """Return the rows of a table that has at least the columns of a commit, in its order."""
    columns = [table[name].to_pylist() for name in _NAMES if name != "committed_at"]
    # A view costs nothing; a cast would import pyarrow.compute, which takes a tenth of a second.
    times = pa.concat_arrays(table["committed_at"].chunks).view(pa.int64()).to_pylist()
    columns.insert(_NAMES.index("committed_at"), times)
    if "payloads" in table.column_names and table["payloads"].null_count < table.num_rows:
        columns.append([payloads_in(each) for each in table["payloads"].to_pylist()])
    return [EventRow(*values) for values in zip(*columns, strict=True)]


def _stored_columns(rows: Sequence[EventRow], *, whole: bool = False) -> pa.Table:
    """Return what is stored of rows; without payloads, unless `whole`, where there are none."""
    # All columns in one call: each call costs more than the values of a row.
    columns = pa.array([_values(row) for row in rows], _ROW).flatten()
    if not whole and not any(row.payloads for row in rows):
        return pa.Table.from_arrays(columns, schema=_LEAN)
    columns.append(payload_array(row.payloads for row in rows))
    return pa.Table.from_arrays(columns, schema=COMMIT_SCHEMA)


def encode_commit(rows: Sequence[EventRow]) -> bytes:
    """Return a commit: Parquet in `COMMIT_SCHEMA`, rows in the order given, as lean as can be."""
    size = sum(len(row.event_json or "") + len(row.state_delta or "") for row in rows)
    return write_small(_stored_columns(rows), compress=size >= _COMPRESS_FROM)


def encode_rollup(rows: Sequence[EventRow]) -> bytes:
    """Return a rollup of `rows`, in the order given; see `encode_rollup_table`."""
    return encode_rollup_table(to_table(rows))


def encode_rollup_table(table: pa.Table) -> bytes:
    """Return a rollup: Parquet in `SCHEMA`, zstd, row groups of `ROW_GROUP_ROWS` rows.

    If the rows do not fill all groups it is the first that has fewer: readers begin with the last.
    """
    return write_large(table, ROW_GROUP_ROWS)


def decode(body: bytes) -> list[EventRow]:
    """Return the rows of a commit or a whole rollup, in their order.

    Raises:
        FormatError: the bytes are not Parquet with at least the columns of a commit, or hold no
            row, or one of a kind that only a newer version knows.
    """
    return _known(read_stored(_open(body)))


def decode_commits(bodies: Sequence[bytes]) -> list[list[EventRow]]:
    """Return the rows of each of many commits; the same as `decode` of each, in half the time.

    Raises:
        FormatError: as `decode`, of any of them.
    """
    if not bodies:
        return []
    read = (read_exactly(body, _LEAN) for body in bodies)
    tables = [table for table in read if table is not None]
    if len(tables) < len(bodies):  # with payloads, or other columns of another writer
        return [decode(body) for body in bodies]
    rows = _known(checked(pa.concat_tables(tables)))
    bounds = [0, *accumulate(table.num_rows for table in tables)]
    return [rows[start:end] for start, end in pairwise(bounds)]


def decode_rollup_table(body: bytes) -> pa.Table:
    """Return all rows of a rollup in `SCHEMA`, thin columns as they are stored.

    Raises:
        FormatError: as `decode`; or an older version wrote it, which knew fewer thin columns.
    """
    return read_groups(open_parquet(body, SCHEMA))


def count_groups(body: bytes) -> int:
    """Return how many row groups a rollup has.

    Raises:
        FormatError: as `decode`.
    """
    return int(_open(body).num_row_groups)


def decode_group(body: bytes, group: int) -> list[EventRow]:
    """Return the rows of one row group of a rollup, counted from 0, in their order.

    Raises:
        FormatError: as `decode`.
    """
    return _known(read_stored(_open(body), [group]))


def payloads_by_version(body: bytes) -> list[tuple[int, Payload]]:
    """Return what the rows of a commit or rollup refer to, each with its row's version.

    Raises:
        FormatError: as `decode`.
    """
    typed = open_parquet(body, _REFERRING)
    if "payloads" not in typed.stored:
        return []
    columns = read_groups(typed).to_pydict()
    pairs = zip(columns["version"], columns["payloads"], strict=True)
    return [(version, each) for version, some in pairs for each in payloads_in(some)]


def _open(body: bytes) -> TypedFile:
    return open_parquet(body, COMMIT_SCHEMA)


def _known(table: pa.Table) -> list[EventRow]:
    rows = from_table(table)
    unknown = {row.kind for row in rows}.difference(get_args(Kind))
    if unknown:
        raise FormatError(f"rows of a kind that this version does not know. kinds={unknown}")
    return rows
