"""The `telemetry` table: what events lack of calls and runs, one row each.

Arrow and Parquet; no I/O, no ADK. A row is never changed: of two with one key either will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import pyarrow as pa

from lakestore.tables.parquet import open_parquet, read_groups, write_small
from lakestore.tables.state import to_utf8

_UTC = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("stamp", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("session_id", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("invocation_id", pa.string(), nullable=False),
        pa.field("agent", pa.string()),
        pa.field("event_id", pa.string()),
        pa.field("call_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("tool_name", pa.string()),
        pa.field("started_at", _UTC, nullable=False),
        pa.field("duration_us", pa.int64()),
        pa.field("first_token_us", pa.int64()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("total_tokens", pa.int64()),
        pa.field("error_type", pa.string()),
        pa.field("error_message", pa.string()),
        pa.field("cause_id", pa.string()),
    ]
)
"""What an entry holds, in any order; runs ascending by `user_id` and `id` (as UTF-8)."""

_WORTH_COMPRESSING = 64

RowKind = Literal["model", "tool", "run"]


@dataclass(frozen=True, slots=True)
class TelemetryRow:
    """One call of a model or of a tool, or one run."""

    app_name: str = field(repr=False)
    user_id: str = field(repr=False)
    id: str
    """Names it among the user's; begins with its time, as a stamp does."""
    stamp: str
    """That of the entry in which it was stored."""
    kind: RowKind
    session_id: str = field(repr=False)
    version: int
    """The last commit of the session that the caller knew; 0 where the lake has no such session."""
    invocation_id: str
    agent: str | None = None
    event_id: str | None = None
    """Of a call of a model: the event of its answer, where one came."""
    call_id: str | None = None
    """Of a call of a tool: the id of the function call."""
    model: str | None = None
    tool_name: str | None = None
    started_at: int = 0
    """The caller's clock in microseconds since 1970 UTC."""
    duration_us: int | None = None
    """Microseconds until it ended; null when nobody saw it end."""
    first_token_us: int | None = None
    """Of an answer in pieces: microseconds until the first one."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    error_type: str | None = None
    """The class of what was raised."""
    error_message: str | None = field(default=None, repr=False)
    cause_id: str | None = None
    """Of a run: the row of the call that raised what ended it."""

    @property
    def source_user_id(self) -> str:
        """The user of the session that it is of."""
        return self.user_id

    @property
    def origins(self) -> tuple[tuple[str, int], ...]:
        """That session, and the version."""
        return ((self.session_id, self.version),)


_NAMES = tuple(field.name for field in fields(TelemetryRow))


def to_table(rows: Sequence[TelemetryRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    columns = ([_utf8(getattr(row, field.name)) for row in rows] for field in SCHEMA)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _utf8(value: object) -> object:
    return to_utf8(value) if isinstance(value, str) else value


def from_table(table: pa.Table) -> list[TelemetryRow]:
    """Return the rows of a table in `SCHEMA`, in its order."""
    if not table.num_rows:
        return []
    columns = []
    for name in _NAMES:
        column = pa.concat_arrays(table[name].chunks)
        columns.append((column.view(pa.int64()) if name == "started_at" else column).to_pylist())
    return [TelemetryRow(*values) for values in zip(*columns, strict=True)]


def encode(rows: Sequence[TelemetryRow]) -> bytes:
    """Return an entry: Parquet in `SCHEMA`. Of a few rows compression gains nothing."""
    return write_small(to_table(rows), compress=len(rows) >= _WORTH_COMPRESSING)


def decode(body: bytes) -> list[TelemetryRow]:
    """Return the rows of an entry.

    Raises:
        FormatError: the bytes are not Parquet in `SCHEMA`, or hold no row.
    """
    return from_table(read_groups(open_parquet(body, SCHEMA)))
