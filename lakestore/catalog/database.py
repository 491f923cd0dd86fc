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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakestore.catalog import prices
from lakestore.catalog.changes import PACKED_STATES, changes_of, changes_of_packed
from lakestore.catalog.keyed_tables import KeyedTables
from lakestore.catalog.views import VIEWS, View, definitions, quoted
from lakestore.errors import InputError
from lakestore.log.keys import PACK_ENDING
from lakestore.storage import ObjectStore
from lakestore.storage.files import SCHEME, StoreFiles
from lakestore.tables import runs
from lakestore.tables.events import SCHEMA

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
  place INTEGER, key VARCHAR, value VARCHAR
);
CREATE TABLE internal.ended (
  app_name VARCHAR, user_id VARCHAR, session_id VARCHAR, last BIGINT
);
CREATE TABLE internal.prices AS FROM given;
CREATE TABLE internal.packed_sessions AS FROM packed WHERE false;
CREATE TABLE internal.rescued AS SELECT *, '' AS pack FROM arrived WHERE false;
CREATE VIEW internal.packed_rows AS FROM internal.rows WHERE false;
CREATE VIEW internal.packed AS FROM internal.packed_sessions AS session
  WHERE alive AND NOT EXISTS (
    FROM internal.ended WHERE ended.app_name = session.app_name
      AND ended.user_id = session.user_id AND ended.session_id = session.session_id
      AND ended.last >= session.version
  );
"""
"""`rows` hold what is fresh, `changes` the state of sessions of which some is, `prices` what the
user gave, `packed_sessions` what runs say of each session, `ended` up to which version fresh rows
end it, `rescued` what can be read of packs that are damaged; `packed` are the sessions that live,
with their segments."""

_ADD_ROWS = "INSERT INTO internal.rows FROM arrived WHERE kind IN ('create', 'event')"

_ADD_RESCUED = "INSERT INTO internal.rescued FROM arrived"

_ADD_PRICES = "INSERT INTO internal.prices BY NAME FROM given"

_ADD_CHANGES = "INSERT INTO internal.changes FROM changed"

_ADD_ENDED = """
INSERT INTO internal.ended
SELECT app_name, user_id, session_id,
  max(CASE kind WHEN 'delete' THEN version ELSE version - 1 END) AS last
FROM ended GROUP BY app_name, user_id, session_id
"""

_PACK_SESSIONS = """
INSERT INTO internal.packed_sessions
SELECT run.* EXCLUDE (filename)
FROM read_parquet($paths, filename = true, hive_partitioning = false) AS run
JOIN aged ON aged.path = run.filename
QUALIFY row_number() OVER (
  PARTITION BY run.app_name, run.user_id, run.session_id ORDER BY aged.age
) = 1
"""

_DROP_PACKED = """
DELETE FROM internal.{table} AS fresh USING internal.packed_sessions AS session
WHERE fresh.app_name = session.app_name AND fresh.user_id = session.user_id
  AND fresh.session_id = session.session_id AND fresh.{version} <= session.version
"""

_WHOLE_PACKS = """
SELECT {columns} FROM read_parquet({paths}, hive_partitioning = false) AS stored
WHERE NOT EXISTS (
  FROM internal.ended WHERE ended.app_name = stored.app_name
    AND ended.user_id = stored.user_id AND ended.session_id = stored.session_id
    AND ended.last >= stored.version
)
"""

_IN_PART = """
SELECT {columns}
FROM {source} AS stored
SEMI JOIN (
  SELECT app_name, user_id, session_id, unnest(segments, recursive := true) FROM internal.packed
) AS segment
ON segment.app_name = stored.app_name AND segment.user_id = stored.user_id
  AND segment.session_id = stored.session_id
  AND stored.version BETWEEN segment.first_version AND segment.last_version
  AND {is_its}
"""
_PACKS_IN_PART = _IN_PART.format(
    columns="{columns}",
    source="read_parquet({paths}, filename = true, hive_partitioning = false)",
    is_its=f"ends_with(stored.filename, '/' || segment.pack || '{PACK_ENDING}')",
)
_RESCUED = _IN_PART.format(
    columns="{columns}", source="internal.rescued", is_its="stored.pack = segment.pack"
)

_RANGES = """
SELECT DISTINCT start, length
FROM (SELECT unnest(segments, recursive := true) FROM internal.packed) WHERE pack = ?
"""

_PACKED_VERSIONS = """
SELECT app_name, user_id, session_id, version FROM internal.packed_sessions
SEMI JOIN wanted USING (app_name, user_id, session_id)
"""

_FRESH_SESSIONS = """
SELECT app_name, user_id, session_id FROM internal.rows
UNION SELECT app_name, user_id, session_id FROM internal.changes
"""

_LONG_IDS = """
SELECT app_name, user_id, session_id, version FROM internal.packed_sessions
WHERE greatest(strlen(app_name), strlen(user_id), strlen(session_id)) >= 40
"""

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

    def __init__(
        self, store: ObjectStore, *, guarded: bool = True, views: Mapping[str, View] = VIEWS
    ) -> None:
        """Make an empty one.

        Args:
            store: Where the lake is.
            guarded: No query can change settings or reach other files than objects of the lake,
                which can be scanned where they lie, as `lakestore://<key>`, and not changed.
            views: What it shows.
        """
        self._main = duckdb.connect(
            ":memory:", config={**_SETTINGS, "temp_directory": f"{_scratch()}/{id(self)}"}
        )
        # For all cursors to come; DuckDB would otherwise show times in the machine's zone.
        self._main.execute("SET GLOBAL TimeZone = 'UTC'")
        self._main.register("arrived", SCHEMA.empty_table())
        self._main.register("packed", runs.SCHEMA.empty_table())
        self._main.register("given", prices.SCHEMA.empty_table())
        self._main.execute(_TABLES)
        for name in ("arrived", "packed", "given"):
            self._main.unregister(name)
        self.files = StoreFiles(store)
        """The lake's objects as its queries read them."""
        self._main.register_filesystem(self.files)
        self._writer = self._main.cursor()
        self.keyed = KeyedTables(self._writer)
        self._main.execute("; ".join(["BEGIN", *definitions(views), "COMMIT"]))
        if guarded:
            self._main.execute(f"SET GLOBAL allowed_directories = ['{SCHEME}://']")
            self._main.execute("SET GLOBAL enable_external_access = false")
            # Else a query could name any frame of data that its caller's variables hold.
            self._main.execute("SET GLOBAL python_enable_replacements = false")
            self._main.execute("SET GLOBAL lock_configuration = true")
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
        changes = changes_of(rows)
        if changes.num_rows:
            self._with("changed", changes, [_ADD_CHANGES])
        kind = rows["kind"]
        again = pc.and_(pc.equal(kind, "create"), pc.greater(rows["version"], 1))
        ended = rows.filter(pc.or_(pc.equal(kind, "delete"), again))
        if ended.num_rows:
            statements = [_END_SESSIONS.format(table=table) for table in ("rows", "changes")]
            self._with("ended", ended, [*statements, _ADD_ENDED])
        self._take_apart()

    def _take_apart(self) -> None:
        """Put what is packed of the sessions that fresh rows change among the changes."""
        packed = self._writer.execute(PACKED_STATES).fetchall()
        if packed:
            self._with("changed", changes_of_packed(packed), [_ADD_CHANGES])

    def show_runs(self, run_files: Sequence[tuple[str, int]]) -> None:
        """Show what runs say of sessions, inside `change`; fresh rows that are packed now go.

        Args:
            run_files: The path of each run of sessions, and its age; the youngest counts.
        """
        self._writer.execute("DELETE FROM internal.packed_sessions")
        self._writer.execute("DELETE FROM internal.changes WHERE ordinal < 0")
        if run_files:
            aged = pa.table(list(zip(*run_files, strict=True)), names=["path", "age"])
            self._writer.register("aged", aged)
            self._writer.execute(_PACK_SESSIONS, {"paths": aged["path"].to_pylist()})
            self._writer.unregister("aged")
        for table, version in (("rows", "version"), ("changes", "version"), ("ended", "last")):
            self._writer.execute(_DROP_PACKED.format(table=table, version=version))
        self._take_apart()

    def ranges_of(self, pack: str) -> list[tuple[int, int]]:
        """Return where runs say that row groups of a pack are, inside `change`."""
        return self._writer.execute(_RANGES, [pack]).fetchall()

    def show_packs(
        self, packs: Sequence[tuple[str, bool]], rescued: Mapping[str, pa.Table]
    ) -> None:
        """Show the rows of packs that count, inside `change`.

        Args:
            packs: The path of each pack, and whether all of its rows count.
            rescued: By its id, what can be read of each other pack.
        """
        self._writer.execute("DELETE FROM internal.rescued")
        for pack, rows in rescued.items():
            column = pa.array([pack] * rows.num_rows, pa.string())
            self._with("arrived", rows.append_column("pack", column), [_ADD_RESCUED])
        columns = ", ".join(f"stored.{quoted(name)}" for name in SCHEMA.names)
        scans = [
            query.format(columns=columns, paths=paths)
            for query, whole in ((_WHOLE_PACKS, True), (_PACKS_IN_PART, False))
            if (paths := [path for path, is_whole in packs if is_whole is whole])
        ]
        scans += [_RESCUED.format(columns=columns)] if rescued else []
        scan = " UNION ALL ".join(scans) or "FROM internal.rows WHERE false"
        self._writer.execute(f"CREATE OR REPLACE VIEW internal.packed_rows AS {scan}")

    def set_prices(self, given: pa.Table) -> None:
        """Let `costs` go by these prices alone, in `lakestore.catalog.prices.SCHEMA`."""
        with self.change():
            self._with("given", given, ["DELETE FROM internal.prices", _ADD_PRICES])

    def drop_fresh(self, last: Callable[[str, str, str], int | None]) -> None:
        """Drop fresh rows that count no more, inside `change`.

        Args:
            last: Says, of app, user and session, up to which version; None for none.
        """
        found = self._writer.execute(_FRESH_SESSIONS).fetchall()
        gone = [(*ids, version) for ids in found if (version := last(*ids)) is not None]
        if gone:
            names = ["app_name", "user_id", "session_id", "version"]
            columns = [pa.array(column) for column in zip(*gone, strict=True)]
            ended = pa.table([*columns, pa.array(["delete"] * len(gone))], names=[*names, "kind"])
            statements = [_END_SESSIONS.format(table=table) for table in ("rows", "changes")]
            self._with("ended", ended, statements)

    def packed_versions(self, wanted: pa.Table, *, long_ids: bool) -> list[tuple[Any, ...]]:
        """Return app, user, session and packed version of those in `wanted`, inside `change`.

        Args:
            wanted: `app_name`, `user_id`, `session_id`.
            long_ids: Those with long ids too, wanted or not.
        """
        self._writer.register("wanted", wanted)
        found = self._writer.execute(_PACKED_VERSIONS).fetchall()
        self._writer.unregister("wanted")
        return found + (self._writer.execute(_LONG_IDS).fetchall() if long_ids else [])

    def clear(self) -> None:
        """Remove all rows, inside `change`."""
        for table in ("rows", "changes", "ended", "packed_sessions"):
            self._writer.execute(f"DELETE FROM internal.{table}")
        self.show_runs([])
        self.show_packs([], {})

    def _with(self, name: str, table: pa.Table, statements: Sequence[str]) -> None:
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)

    def close(self) -> None:
        """Free the memory."""
        self._main.close()


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
