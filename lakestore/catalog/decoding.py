"""From the bytes of commits and rollups to rows in `SCHEMA`, many at a time.

Column by column: a Python object for each row would cost more than all the rest of a refresh.
`lakestore.tables.events.decode` and `to_table` are the reference for what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.catalog.plan import Wanted
from lakestore.errors import FormatError
from lakestore.log.keys import SessionKey, is_stamp
from lakestore.tables.events import COMMIT_SCHEMA, SCHEMA, Kind
from lakestore.tables.parquet import (
    TypedFile,
    filled,
    lean,
    open_parquet,
    read_groups,
    read_stored,
)
from lakestore.tables.thin import THIN_FIELDS, thin

_IDS = ["app_name", "user_id", "session_id"]
_NO_EVENT: tuple[Any, ...] = (None,) * len(THIN_FIELDS)


def decode(wanted: Wanted, body: bytes) -> pa.Table:
    """Return the rows that are above what is known, in COMMIT_SCHEMA or, of a rollup, in SCHEMA.

    Those of a commit have no column for payloads where it has none.

    Raises:
        FormatError: the bytes are not what the key says.
    """
    if not wanted.is_rollup:
        return _read(body, COMMIT_SCHEMA, read_stored)
    try:
        table = _read(body, SCHEMA)
    except FormatError:
        # An older version may have known fewer thin columns.
        table = _read(body, COMMIT_SCHEMA)
    last = table.slice(table.num_rows - 1).select(["kind", "version"]).to_pylist()[0]
    if last != {"kind": "checkpoint", "version": wanted.version}:
        raise FormatError("a rollup does not end with the checkpoint of its version")
    return table.filter(pc.greater(table["version"], wanted.above))


def _read(
    body: bytes, schema: pa.Schema, read: Callable[[TypedFile], pa.Table] = read_groups
) -> pa.Table:
    table = read(open_parquet(body, schema))
    if len(table.schema) < len(schema):
        schema = lean(schema)
    if table.schema.equals(schema):
        return table
    # Another program may order the columns in its own way, or not say which are never null.
    if any(table[field.name].null_count for field in schema if not field.nullable):
        raise FormatError("a column has nulls that may have none")
    return pa.Table.from_arrays(table.select(schema.names).columns, schema=schema)


def complete(read: Sequence[tuple[Wanted, pa.Table]]) -> pa.Table:
    """Return the rows of what `decode` returned, in SCHEMA, each log's in its order.

    Raises:
        FormatError: some of them cannot be read, or belong elsewhere.
    """
    bare = [pair for pair in read if pair[1].num_columns <= len(COMMIT_SCHEMA)]
    whole = [pair for pair in read if pair[1].num_columns > len(COMMIT_SCHEMA)]
    try:
        parts = [_with_thin_columns([table for _, table in bare])] if bare else []
        rows = pa.concat_tables([*parts, *(table for _, table in whole)])
        kinds = set(pc.unique(rows["kind"]).to_pylist())
        misplaced = _is_misplaced([*bare, *whole], rows)
    except (pa.ArrowException, ValueError) as error:
        # Not its text, which may quote what people said.
        raise FormatError(f"rows do not decode. reason={type(error).__name__}") from None
    if kinds.difference(get_args(Kind)):
        raise FormatError(f"rows of a kind that this version does not know. kinds={kinds}")
    if misplaced:
        raise FormatError("rows of another session or version than their key's")
    return rows


def latest_stamps(rows: pa.Table) -> Iterator[tuple[str, str, str]]:
    """Yield (app, user, stamp) with the latest stamp of each user whose rows have one."""
    stamped = rows.select(["app_name", "user_id", "stamp"]).filter(pc.is_valid(rows["stamp"]))
    users = stamped.group_by(["app_name", "user_id"], use_threads=False)
    latest = users.aggregate([("stamp", "max")])
    names = ("app_name", "user_id", "stamp_max")
    for app_name, user_id, stamp in zip(*(latest[n].to_pylist() for n in names), strict=True):
        if is_stamp(stamp):
            yield app_name, user_id, stamp


def _with_thin_columns(tables: Sequence[pa.Table]) -> pa.Table:
    # Each log's rows stay in their order, so those with payloads stay among the others.
    if len({len(table.schema) for table in tables}) > 1:
        tables = [filled(table, COMMIT_SCHEMA) for table in tables]
    rows = filled(pa.concat_tables(tables), COMMIT_SCHEMA).combine_chunks()
    values = [_thin(text) for text in rows["event_json"].to_pylist()]
    columns = zip(*values, strict=True)
    thin_columns = [
        pa.array(column, field.type) for column, field in zip(columns, THIN_FIELDS, strict=True)
    ]
    return pa.table([*rows.columns, *thin_columns], schema=SCHEMA)


def _thin(event_json: str | None) -> tuple[Any, ...]:
    if event_json is None:
        return _NO_EVENT
    try:
        return thin(event_json)
    except (ValueError, RecursionError):  # no JSON: the event degrades alone, not its session
        return _NO_EVENT


def _is_misplaced(read: Sequence[tuple[Wanted, pa.Table]], rows: pa.Table) -> bool:
    """Tell whether a row is under a key that is not its own, as in a folder that was copied."""
    wanted = [one for one, table in read for _ in range(table.num_rows)]
    # A rollup has rows of many versions, and its own was looked at when it was decoded.
    versions = pa.array([None if one.is_rollup else one.version for one in wanted], pa.int64())
    if pc.any(pc.not_equal(rows["version"], versions)).as_py():
        return True
    logs = pa.array([one.log for one in wanted], pa.string())
    found = rows.select(_IDS).append_column("log", logs).group_by([*_IDS, "log"]).aggregate([])
    return any(
        SessionKey(app_name, user_id, session_id).log != log
        for app_name, user_id, session_id, log in zip(*found.to_pydict().values(), strict=True)
    )
