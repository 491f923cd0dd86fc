"""The `sessions` table of runs: one row a session, what its packed log folds to and where it is.

Arrow and Parquet; no I/O, no ADK.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import pyarrow as pa

from lakestore.tables.payloads import CONTENTS, Content, content_lists, contents_in

_UTC = pa.timestamp("us", tz="UTC")

SEGMENT = pa.struct(
    [
        pa.field("pack", pa.string(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("groups", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("skip", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("first_version", pa.int64(), nullable=False),
        pa.field("last_version", pa.int64(), nullable=False),
        pa.field("last_time", pa.float64()),
    ]
)

SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("alive", pa.bool_(), nullable=False),
        pa.field("state", pa.string()),
        pa.field("stamp", pa.string()),
        pa.field("created_at", _UTC),
        pa.field("active_at", _UTC, nullable=False),
        pa.field("last_event_time", pa.float64()),
        pa.field("last_event_id", pa.string()),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("segments", pa.list_(SEGMENT), nullable=False),
        pa.field("emptied_at", _UTC),
        pa.field("payloads", CONTENTS),
    ]
)
"""One row a session, ascending by `user_id` and `session_id` (as UTF-8). An object has `payloads`
only where one of its rows has any."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Where some rows of a session are: consecutive rows of one pack, ascending by version."""

    pack: str
    """The pack's id."""
    group: int
    """The first row group, from 0, that has some of them."""
    groups: int
    """How many row groups."""
    start: int
    """Bytes of the object before the first of these groups."""
    length: int
    """Bytes of these groups."""
    skip: int
    """Rows in the first of these groups that come before."""
    rows: int
    first_version: int
    last_version: int
    last_time: float | None
    """The latest time of an event in it, in seconds since 1970 UTC; null without one."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What jobs have packed of one session."""

    app_name: str
    user_id: str
    session_id: str
    version: int
    """The last version that is packed: nothing at or below it is taken from the log."""
    token: str
    """The token of that commit."""
    alive: bool
    """False when that commit is a `delete`: then there are no segments and no state."""
    state: str | None
    """JSON object of the session's own state, null when it is deleted."""
    stamp: str | None
    """The latest stamp of the packed commits, null when none has one."""
    created_at: int | None
    """`committed_at` of the `create` row, in microseconds since 1970 UTC."""
    active_at: int
    """`committed_at` of the last commit: what retention goes by."""
    last_event_time: float | None
    """The exact time of the last event; null when there is none."""
    last_event_id: str | None
    events: int
    """How many events are packed."""
    segments: tuple[Segment, ...]
    """Ascending by version."""
    emptied_at: int | None = None
    """Of a deleted session: since when its log is known to hold nothing, by the store's time in
    microseconds since 1970 UTC; null while it may hold something."""
    payloads: tuple[Content, ...] = ()
    """What the packed rows refer to, each once, ascending."""


_NAMES = tuple(field.name for field in fields(SessionRow))
_PARTS = tuple(field.name for field in fields(Segment))
_values = attrgetter(*SCHEMA.names)
_parts = attrgetter(*_PARTS)
_SEGMENTS = SCHEMA.names.index("segments")
_PAYLOADS = SCHEMA.names.index("payloads")
_TIMES = ("created_at", "active_at", "emptied_at")


def to_table(rows: Sequence[SessionRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    contents = content_lists(row.payloads for row in rows)
    values = [
        (
            *each[:_SEGMENTS],
            [_parts(part) for part in each[_SEGMENTS]],
            *each[_SEGMENTS + 1 : _PAYLOADS],
            some,
        )
        for each, some in zip(map(_values, rows), contents, strict=True)
    ]
    columns = pa.array(values, pa.struct(list(SCHEMA))).flatten()
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def from_table(table: pa.Table) -> list[SessionRow]:
    """Return the rows of a table in `SCHEMA`, which may lack `payloads`, in its order."""
    if not table.num_rows:
        return []
    columns = []
    for name in _NAMES[:_PAYLOADS]:
        column = pa.concat_arrays(table[name].chunks)
        columns.append((column.view(pa.int64()) if name in _TIMES else column).to_pylist())
    columns[_SEGMENTS] = [tuple(Segment(**part) for part in it) for it in columns[_SEGMENTS]]
    if "payloads" in table.column_names:
        columns.append([contents_in(it) for it in table["payloads"].to_pylist()])
    return [SessionRow(*values) for values in zip(*columns, strict=True)]
