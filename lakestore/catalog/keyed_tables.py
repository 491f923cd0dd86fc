"""Tables of keyed rows in DuckDB: what is fresh is held, runs are scanned where they lie.

Owns the statements. What is to be read is `lakestore.catalog.keyed`'s, what rows mean the views'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakestore.catalog.views import answers
from lakestore.log.keys import TELEMETRY_ENTRIES
from lakestore.tables import telemetry


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of keyed rows as SQL sees it."""

    name: str
    """`internal.<name>_rows` has the rows that count, one a key."""
    entries: str
    """The prefix of its entries."""
    schema: pa.Schema
    key: tuple[str, ...]
    """The columns that name a row."""
    joined: Callable[[bool], str]
    """Returns the statement that makes the view that joins it, for whether it has any row."""
    was_there: str
    """The condition that a row was there `{at}` a time, in microseconds since 1970 UTC."""

    def same(self, other: str) -> str:
        """Return the condition that rows of `fresh` and `other` have one key."""
        return " AND ".join(f"fresh.{name} = {other}.{name}" for name in self.key)


TELEMETRY = Shown(
    "telemetry",
    TELEMETRY_ENTRIES,
    telemetry.SCHEMA,
    ("app_name", "user_id", "id"),
    answers,
    "coalesce(duration_us, 0) <= {at} - epoch_us(started_at)",
)
SHOWN = (TELEMETRY,)
"""All of them."""

_ADD = """
INSERT INTO internal.fresh_{name} SELECT * FROM held
WHERE NOT EXISTS (FROM internal.fresh_{name} AS fresh WHERE {same})
QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY entry) = 1
"""

_DROP_ERASED = """
DELETE FROM internal.fresh_{name} AS row USING erased
WHERE row.app_name = erased.app_name AND row.user_id = erased.user_id
  AND row.session_id = erased.session_id AND row.version <= erased.version
"""


class KeyedTables:
    """The tables of one database; `writer` is in a transaction but while it is made."""

    def __init__(self, writer: duckdb.DuckDBPyConnection, as_of: int | None = None) -> None:
        """Show what was there `as_of` a time, None for all."""
        self._writer = writer
        self._as_of = as_of

    def create(self) -> None:
        """Make the tables, which show nothing yet."""
        for table in SHOWN:
            create = f"CREATE TABLE internal.fresh_{table.name} AS FROM held"
            self._with("held", _held(table.schema.empty_table(), ""), [create])
            self.scan(table, [])

    def add(self, table: Shown, entries: Mapping[str, pa.Table]) -> None:
        """Hold the rows of entries, by their keys; those that are held already count once."""
        if entries:
            held = pa.concat_tables([_held(rows, key) for key, rows in entries.items()])
            names = {"name": table.name, "key": ", ".join(table.key), "same": table.same("held")}
            self._with("held", held, [_ADD.format(**names)])

    def drop(self, table: Shown, entries: Sequence[str]) -> None:
        """Hold nothing of the entries with these keys."""
        if not entries:
            return
        gone = pa.table({"entry": pa.array(entries, pa.string())})
        delete = f"DELETE FROM internal.fresh_{table.name} WHERE entry IN (SELECT entry FROM gone)"
        self._with("gone", gone, [delete])

    def clear(self) -> None:
        """Hold nothing, and scan nothing."""
        for table in SHOWN:
            self._writer.execute(f"DELETE FROM internal.fresh_{table.name}")
            self.scan(table, [])
            self.join(table, False)

    def join(self, table: Shown, has_rows: bool) -> None:
        """Let the view that joins the table do so, or not."""
        self._writer.execute(table.joined(has_rows))

    def drop_erased(self, table: Shown, last: Callable[[str, str, str], int | None]) -> None:
        """Hold nothing of erased sessions.

        Args:
            table: Which table.
            last: Says, of app, user and session, up to which version; None for none.
        """
        query = f"SELECT DISTINCT app_name, user_id, session_id FROM internal.fresh_{table.name}"
        found = self._writer.execute(query).fetchall()
        gone = [(*ids, version) for ids in found if (version := last(*ids)) is not None]
        if gone:
            names = ["app_name", "user_id", "session_id", "version"]
            erased = pa.table([pa.array(column) for column in zip(*gone, strict=True)], names=names)
            self._with("erased", erased, [_DROP_ERASED.format(name=table.name)])

    def scan(self, table: Shown, paths: Sequence[str]) -> None:
        """Show what is held, and the rows of these runs.

        A key that is in both counts once: an entry may be sent again, and land, at any time.
        """
        names, fresh = ", ".join(table.schema.names), f"internal.fresh_{table.name}"
        rows = f"SELECT {names} FROM {fresh}"
        if paths:
            rows += f""" UNION ALL SELECT {names}
              FROM read_parquet({list(paths)}, hive_partitioning = false) AS run
              WHERE NOT EXISTS (FROM {fresh} AS fresh WHERE {table.same("run")})"""
        if self._as_of is not None:
            rows = f"FROM ({rows}) WHERE {table.was_there.format(at=self._as_of)}"
        self._writer.execute(f"CREATE OR REPLACE VIEW internal.{table.name}_rows AS {rows}")

    def _with(self, name: str, table: pa.Table, statements: Sequence[str]) -> None:
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)


def _held(rows: pa.Table, entry: str) -> pa.Table:
    return rows.append_column("entry", pa.array([entry] * rows.num_rows, pa.string()))
