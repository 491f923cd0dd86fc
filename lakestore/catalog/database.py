"""One DuckDB database in memory: the rows of all sessions, and how they come and go.

Owns the connection, its settings, and that a forked process never touches it. What is to be read
from the lake is `lakestore.catalog.reading`'s, what SQL sees `lakestore.catalog.views`'s.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakestore.catalog.views import definitions
from lakestore.errors import InputError
from lakestore.storage import ObjectStore
from lakestore.storage.files import StoreFiles
from lakestore.tables.events import SCHEMA
from lakestore.tables.state import from_json, split_scopes, to_json

QueryError = duckdb.Error
"""What a query raises that DuckDB does not understand or cannot run."""

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Built-in extensions are enough; nothing is ever fetched from the network unasked.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

_QUERIES = (
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.MULTI,  # PIVOT
)

_TABLES = """
CREATE SCHEMA internal;
CREATE TABLE internal.rows AS FROM arrived;
CREATE TABLE internal.changes (
  app_name VARCHAR, user_id VARCHAR, session_id VARCHAR, version BIGINT, ordinal INTEGER,
  key VARCHAR, value VARCHAR
);
"""

_ADD_ROWS = "INSERT INTO internal.rows FROM arrived WHERE kind IN ('create', 'event')"

_CHANGES = pa.schema(
    [
        *(SCHEMA.field(name) for name in ("app_name", "user_id", "session_id")),
        *(SCHEMA.field(name) for name in ("version", "ordinal")),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
    ]
)
"""The session's own state keys that rows set, with their values as JSON."""

_ADD_CHANGES = "INSERT INTO internal.changes FROM changed"

_END_SESSIONS = """
DELETE FROM internal.{table} AS gone USING (
  SELECT app_name, user_id, session_id,
    max(CASE kind WHEN 'delete' THEN version ELSE version - 1 END) AS last
  FROM ended GROUP BY app_name, user_id, session_id
) AS over
WHERE gone.app_name = over.app_name AND gone.user_id = over.user_id
  AND gone.session_id = over.session_id AND gone.version <= over.last
"""


class Database:
    """Rows that one thread at a time changes, while any number query them on cursors of their own.

    Close it to free it; cursors and relations that are still held then fail.
    """

    def __init__(self, store: ObjectStore, *, guarded: bool = True) -> None:
        """Make an empty one.

        Args:
            store: Where the lake is.
            guarded: No query can reach files or change settings. Otherwise objects of the lake can
                be scanned where they lie, as `lakestore://<key>`.
        """
        self._main = duckdb.connect(
            ":memory:", config={**_SETTINGS, "temp_directory": f"{_scratch()}/{id(self)}"}
        )
        # For all cursors to come; DuckDB would otherwise show times in the machine's zone.
        self._main.execute("SET GLOBAL TimeZone = 'UTC'")
        self._main.register("arrived", SCHEMA.empty_table())
        self._main.execute(_TABLES)
        self._main.unregister("arrived")
        for statement in definitions():
            self._main.execute(statement)
        if guarded:
            self._main.execute("SET GLOBAL enable_external_access = false")
            self._main.execute("SET GLOBAL lock_configuration = true")
        else:
            self._main.register_filesystem(StoreFiles(store))
        self._writer = self._main.cursor()
        self._handed: list[weakref.ref[duckdb.DuckDBPyConnection]] = []
        inherited = [self._main, self._writer]
        weakref.finalize(self, _let_go, inherited, self._handed, os.getpid())

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection to hand out: the same object as long as someone holds it."""
        connection = self._handed[0]() if self._handed else None
        if connection is None:
            connection = self._main.cursor()
            self._handed[:] = [weakref.ref(connection)]
        return connection

    def query(
        self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the relation that the one query in `text` describes, on a cursor of its own.

        Raises:
            InputError: there is none, or more than one, or another statement.
            QueryError: DuckDB does not understand it.
        """
        cursor = self._main.cursor()
        statements = cursor.extract_statements(text)
        if len(statements) != 1 or statements[0].type not in _QUERIES:
            raise InputError(
                "only one query that changes nothing can be run; for more, connect() gives a"
                " connection of your own."
                f" found={[statement.type.name for statement in statements]}"
            )
        # The type of a statement does not tell: `with` and `explain analyze` can hold changes.
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        return cursor.sql(statements[0], params=params)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Let others see what is done inside whole when it ends, or not at all when it raises."""
        self._writer.begin()
        try:
            yield
            self._writer.commit()
        except BaseException:
            with suppress(duckdb.TransactionException):  # a commit that failed has ended it
                self._writer.rollback()
            raise

    def add(self, rows: pa.Table) -> None:
        """Add rows in `SCHEMA`, each session's in commit order, inside `change`.

        A `delete` row, and a `create` row that is not the first, end all rows before them.
        """
        self._with("arrived", rows, [_ADD_ROWS])
        changes = _changes(rows)
        if changes.num_rows:
            self._with("changed", changes, [_ADD_CHANGES])
        kind = rows["kind"]
        again = pc.and_(pc.equal(kind, "create"), pc.greater(rows["version"], 1))
        ended = rows.filter(pc.or_(pc.equal(kind, "delete"), again))
        if ended.num_rows:
            statements = [_END_SESSIONS.format(table=table) for table in ("rows", "changes")]
            self._with("ended", ended, statements)

    def clear(self) -> None:
        """Remove all rows, inside `change`."""
        self._writer.execute("DELETE FROM internal.rows; DELETE FROM internal.changes")

    def _with(self, name: str, table: pa.Table, statements: Sequence[str]) -> None:
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)

    def close(self) -> None:
        """Free the memory."""
        self._main.close()


def _changes(rows: pa.Table) -> pa.Table:
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


def _let_go(
    connections: list[duckdb.DuckDBPyConnection],
    handed: list[weakref.ref[duckdb.DuckDBPyConnection]],
    pid: int,
) -> None:
    """Keep a forked process from destroying what it inherited.

    DuckDB's threads stayed with the parent, and the destructor would wait for them for ever. So
    the objects get a reference that nobody ever drops.
    """
    if os.getpid() != pid:
        others = [connection for reference in handed if (connection := reference()) is not None]
        for connection in (*connections, *others):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _scratch() -> str:
    """Return a folder of this process, for no one else to read, where large queries may spill.

    DuckDB's own choice is `.tmp` in the working directory, readable by all.
    """
    return _private_folder(os.getpid())


@cache
def _private_folder(_pid: int) -> str:
    folder = tempfile.mkdtemp(prefix="lakestore-")
    # Unlike atexit's, it also runs where a child of multiprocessing ends, and never in a fork.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder
