"""Tables of keyed rows in DuckDB: what is fresh is held, runs are scanned where they lie.

Owns the statements. What is to be read is `lakestore.catalog.keyed`'s, which rows of one key count
`lakestore.catalog.folds`', what rows mean the views'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakestore.catalog.folds import Copies, Fold, Latest
from lakestore.catalog.views import answers
from lakestore.log.keys import MEMORY_ENTRIES, TELEMETRY_ENTRIES
from lakestore.tables import memory, telemetry
from lakestore.tables.parquet import open_parquet, read_groups


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of keyed rows as SQL sees it."""

    name: str
    """`internal.<name>_rows` has the rows that count, one a key."""
    entries: str
    """The prefix of its entries."""
    schema: pa.Schema
    read: Callable[[bytes], pa.Table]
    """Returns what an entry holds; raises `FormatError` when it is damaged."""
    fold: Fold
    origins: tuple[tuple[str, str, str], ...]
    """Expressions of user, session and version; a row goes with each such session that is erased
    up to that version. The session "" is all that the user's memory holds."""
    was_there: str
    """The condition that a row was there `{at}` a time, in microseconds since 1970 UTC."""
    joined: Callable[[bool], Sequence[str]] = lambda _: ()
    """Returns the statements that make views which join it, for whether it has any row."""


def _telemetry(body: bytes) -> pa.Table:
    return read_groups(open_parquet(body, telemetry.SCHEMA))


TELEMETRY = Shown(
    "telemetry",
    TELEMETRY_ENTRIES,
    telemetry.SCHEMA,
    _telemetry,
    Copies(("app_name", "user_id", "id")),
    (("user_id", "session_id", "version"),),
    "coalesce(duration_us, 0) <= {at} - epoch_us(started_at)",
    lambda has_rows: (answers(has_rows),),
)
MEMORY = Shown(
    "memory",
    MEMORY_ENTRIES,
    memory.SCHEMA,
    memory.table_in,
    Latest(("app_name", "user_id", "key"), ended_by=("app_name", "user_id", "id")),
    (
        ("source_user_id", "''", "TRY_CAST(left(stamp, 17) AS BIGINT)"),
        ("source_user_id", "session_id", "nullif(version, 0)"),
    ),
    # What was replaced or forgotten since is packed away: nobody knows how it was.
    "TRY_CAST(left(place, 17) AS BIGINT) <= {at}",
)
SHOWN = (TELEMETRY, MEMORY)
"""All of them."""

_ORIGINS = """SELECT rowid AS row, app_name, coalesce({user}, '') AS user_id,
  {session} AS session_id, {version} AS version FROM internal.fresh_{name}"""

_DROP_ERASED = """
DELETE FROM internal.fresh_{name} WHERE rowid IN (
  SELECT row FROM ({origins}) AS origin JOIN erased USING (app_name, user_id, session_id)
  WHERE origin.version <= erased.version
)
"""


class KeyedTables:
    """The tables of one database; `writer` is in a transaction but while it is made."""

    def __init__(self, writer: duckdb.DuckDBPyConnection, as_of: int | None = None) -> None:
        """Show what was there `as_of` a time, None for all."""
        self._writer = writer
        self._as_of = as_of
        self.changes = 0
        """How often what is shown may have changed."""

    def create(self) -> None:
        """Make the tables, which show nothing yet."""
        for table in SHOWN:
            create = f"CREATE TABLE internal.fresh_{table.name} AS FROM held"
            self._with("held", _held(table.schema.empty_table(), ""), [create])
            self.scan(table, [])

    def add(self, table: Shown, entries: Mapping[str, pa.Table]) -> None:
        """Hold the rows of entries, by their keys."""
        if entries:
            held = pa.concat_tables([_held(rows, key) for key, rows in entries.items()])
            fresh = f"internal.fresh_{table.name}"
            self._with("held", held, [f"INSERT INTO {fresh} {table.fold.new('held', fresh)}"])

    def drop(self, table: Shown, entries: Sequence[str]) -> None:
        """Hold nothing of the entries with these keys."""
        if entries:
            gone = pa.table({"entry": pa.array(entries, pa.string())})
            fresh = f"internal.fresh_{table.name}"
            delete = f"DELETE FROM {fresh} WHERE entry IN (SELECT entry FROM gone)"
            self._with("gone", gone, [delete])

    def clear(self) -> None:
        """Hold nothing, and scan nothing."""
        for table in SHOWN:
            self._writer.execute(f"DELETE FROM internal.fresh_{table.name}")
            self.scan(table, [])
            self.join(table, False)

    def join(self, table: Shown, has_rows: bool) -> None:
        """Let the views that join the table do so, or not."""
        for statement in table.joined(has_rows):
            self._writer.execute(statement)

    def drop_erased(self, table: Shown, last: Callable[[str, str, str], int | None]) -> None:
        """Hold nothing of erased sessions.

        Args:
            table: Which table.
            last: Says, of app, user and session, up to which version; None for none.
        """
        origins = " UNION ALL ".join(
            _ORIGINS.format(user=user, session=session, version=version, name=table.name)
            for user, session, version in table.origins
        )
        query = f"""SELECT DISTINCT app_name, user_id, session_id FROM ({origins})
          WHERE session_id IS NOT NULL"""
        found = self._writer.execute(query).fetchall()
        gone = [(*ids, version) for ids in found if (version := last(*ids)) is not None]
        if gone:
            names = ["app_name", "user_id", "session_id", "version"]
            erased = pa.table([pa.array(column) for column in zip(*gone, strict=True)], names=names)
            delete = _DROP_ERASED.format(name=table.name, origins=origins)
            self._with("erased", erased, [delete])

    def scan(self, table: Shown, runs: Iterable[Sequence[str]]) -> None:
        """Show what counts of what is held, and of runs.

        Args:
            table: Which table.
            runs: The paths of each app's, the newest first.
        """
        paths = [list(each) for each in runs if each]
        fresh = f"internal.fresh_{table.name}"
        younger = _rows_in([path for each in paths for path in each[:-1]], fresh)
        oldest = _rows_in([each[-1] for each in paths], fresh)
        rows = table.fold.rows(table.schema.names, fresh, younger, oldest)
        if self._as_of is not None:
            rows = f"FROM ({rows}) WHERE {table.was_there.format(at=self._as_of)}"
        self._writer.execute(f"CREATE OR REPLACE VIEW internal.{table.name}_rows AS {rows}")
        self.changes += 1

    def _with(self, name: str, table: pa.Table, statements: Sequence[str]) -> None:
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)
        self.changes += 1


def _rows_in(paths: Sequence[str], fresh: str) -> str:
    """Return the rows of runs as a query in parentheses; with no path as of `fresh`, but none."""
    if not paths:
        return f"(FROM {fresh} WHERE false)"
    return f"(FROM read_parquet({list(paths)}, hive_partitioning = false))"


def _held(rows: pa.Table, entry: str) -> pa.Table:
    return rows.append_column("entry", pa.array([entry] * rows.num_rows, pa.string()))
