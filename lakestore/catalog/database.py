"""One DuckDB database in memory: the rows of all sessions, and how they come and go.

Owns the connection, its settings, and that a forked process never touches it. What is to be read
from the lake is `lakestore.catalog.reading`'s, what SQL sees `lakestore.catalog.views`'s.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakestore.catalog import statements
from lakestore.catalog.artifact_tables import ArtifactTables
from lakestore.catalog.beginning import begin
from lakestore.catalog.changes import PACKED_STATES, changes_of, changes_of_packed
from lakestore.catalog.httpfs import Httpfs
from lakestore.catalog.keyed_tables import KeyedTables
from lakestore.catalog.process import DEFAULT_MEMORY, SETTINGS, Memory, let_go, reading
from lakestore.catalog.views import VIEWS, View, quoted, uri_macro
from lakestore.errors import InputError
from lakestore.storage import ObjectStore
from lakestore.storage.files import SCHEME, StoreFiles
from lakestore.storage.range_file import Unread
from lakestore.tables.events import SCHEMA
from lakestore.tables.parquet import OPTIONAL

Relation = duckdb.DuckDBPyRelation
"""What a query gives, to be read in any form."""

QueryError = duckdb.Error
"""What a query raises that DuckDB does not understand or cannot run."""

_QUERIES = (
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.MULTI,  # PIVOT
)


class Scanned(NamedTuple):
    """A pack whose rows are to be shown."""

    path: str
    all_count: bool
    """Whether all of its rows do."""
    has_payloads: bool
    """Whether it has the column for bytes beside events."""


_Packs: TypeAlias = tuple[Scanned, ...]

_ENDING = [statements.END_SESSIONS.format(table=table) for table in ("rows", "changes")]


class Database:
    """Rows that one thread at a time changes, while any number query them on cursors of their own.

    Close it to free it; cursors and relations that are still held then fail.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        unread: Unread | None = None,
        guarded: bool = True,
        views: Mapping[str, View] = VIEWS,
        memory: Memory = DEFAULT_MEMORY,
        as_of: int | None = None,
        httpfs: bool = False,
    ) -> None:
        """Make an empty one.

        Args:
            store: Where the lake is.
            unread: Is told what of it queries could not read.
            guarded: No query can change settings or reach other files than objects of the lake,
                which can be scanned where they lie, as `lakestore://<key>`, and not changed.
            views: What it shows.
            memory: What it may take.
            as_of: Of keyed rows and artifacts, show those that were there then.
            httpfs: Let DuckDB's extension read large packs.

        Raises:
            InputError: httpfs cannot be used here; see `Httpfs`.
        """
        self._main = duckdb.connect(":memory:", config={**SETTINGS, **memory.settings(id(self))})
        # For all cursors to come; DuckDB would otherwise show times in the machine's zone.
        self._main.execute("SET GLOBAL TimeZone = 'UTC'")
        for name, value in reading(near=store.near).items():
            self._main.execute(f"SET GLOBAL {name} = {value}")
        begin(self._main, views)
        self._main.execute(uri_macro(store.uri("-").removesuffix("-")))
        self.files = StoreFiles(store, unread)
        """The lake's objects as its queries read them."""
        self._main.register_filesystem(self.files)
        self.httpfs = Httpfs(self._main, store) if httpfs else None
        """Where large packs are for DuckDB itself, if it is to read them."""
        self._writer = self._main.cursor()
        self.keyed = KeyedTables(self._writer, as_of)
        self.artifacts = ArtifactTables(self._writer, as_of)
        if guarded:
            self._main.execute(f"SET GLOBAL allowed_directories = ['{SCHEME}://']")
            self._main.execute("SET GLOBAL enable_external_access = false")
            # Else a query could name any frame of data that its caller's variables hold.
            self._main.execute("SET GLOBAL python_enable_replacements = false")
            self._main.execute("SET GLOBAL lock_configuration = true")
        self._changes = 0
        self._packs: _Packs = ()
        self._scanned: tuple[_Packs, bool] = ((), False)
        self._handed: list[weakref.ref[duckdb.DuckDBPyConnection]] = []
        inherited = [self._main, self._writer]
        weakref.finalize(self, let_go, inherited, self._handed, os.getpid())

    @property
    def changes(self) -> int:
        """How often what it shows may have changed, also inside a `change` that is not over."""
        return self._changes + self.keyed.changes + self.artifacts.changes

    @property
    def writer(self) -> duckdb.DuckDBPyConnection:
        """The connection of the one thread that changes rows, inside `change`."""
        return self._writer

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

    def relation(self, table: pa.Table) -> Relation:
        """Return a table as what a query gives."""
        return self._main.cursor().from_arrow(table)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Let others see what is done inside whole when it ends, or not at all when it raises."""
        before = self._packs, self._scanned
        self._writer.begin()
        try:
            yield
            self._scan_packs()
            self._writer.commit()
        except BaseException:
            self._packs, self._scanned = before
            with suppress(duckdb.TransactionException):  # a commit that failed has ended it
                self._writer.rollback()
            raise

    def add(self, rows: pa.Table) -> None:
        """Add rows in `SCHEMA`, each session's in commit order, inside `change`.

        A `delete` row, and a `create` row that is not the first, end all rows before them.
        """
        self._with("arrived", rows, [statements.ADD_ROWS])
        self.add_changes(changes_of(rows))
        kind = rows["kind"]
        again = pc.and_(pc.equal(kind, "create"), pc.greater(rows["version"], 1))
        ended = rows.filter(pc.or_(pc.equal(kind, "delete"), again))
        if ended.num_rows:
            self._with("ended", ended, [*_ENDING, statements.ADD_ENDED])
            self._scan_packs()
        self._take_apart()

    def add_changes(self, changes: pa.Table) -> None:
        """Add what `changes_of` returned, inside `change`."""
        if changes.num_rows:
            self._with("changed", changes, [statements.ADD_CHANGES])

    def _take_apart(self) -> None:
        """Put what is packed of the sessions that fresh rows change among the changes."""
        packed = self._writer.execute(PACKED_STATES).fetchall()
        self.add_changes(changes_of_packed(packed))

    def show_runs(self, run_files: Sequence[tuple[str, int]]) -> None:
        """Show what runs say of sessions, inside `change`; fresh rows that are packed now go.

        Args:
            run_files: The path of each run of sessions, and its age; the youngest counts.
        """
        self._changes += 1
        self._writer.execute("DELETE FROM internal.packed_sessions")
        self._writer.execute("DELETE FROM internal.changes WHERE ordinal < 0")
        if run_files:
            aged = pa.table(list(zip(*run_files, strict=True)), names=["path", "age"])
            self._writer.register("aged", aged)
            self._writer.execute(statements.PACK_SESSIONS, {"paths": aged["path"].to_pylist()})
            self._writer.unregister("aged")
        for table, version in (("rows", "version"), ("changes", "version"), ("ended", "last")):
            self._writer.execute(statements.DROP_PACKED.format(table=table, version=version))
        self._take_apart()

    def ranges_of(self, pack: str) -> list[tuple[int, int]]:
        """Return where runs say that row groups of a pack are, inside `change`."""
        return self._writer.execute(statements.RANGES, [pack]).fetchall()

    def show_packs(self, packs: Sequence[Scanned]) -> None:
        """Show the rows of packs that count, inside `change`."""
        self._changes += 1
        self._packs = tuple(packs)
        self._scan_packs()

    def _scan_packs(self) -> None:
        """Let the rows of packs be scanned, past what is ended if anything is."""
        ((is_ended,),) = self._writer.execute(statements.IS_ANY_ENDED).fetchall()
        scanned = (self._packs, is_ended)
        if scanned == self._scanned:
            return
        whole = statements.WHOLE_PACKS + (statements.UNLESS_ENDED if is_ended else "")
        scans = [
            query.format(columns=_columns(has_payloads), paths=paths)
            for query, is_whole in ((whole, True), (statements.PACKS_IN_PART, False))
            for has_payloads in (True, False)
            if (paths := [it.path for it in self._packs if it[1:] == (is_whole, has_payloads)])
        ]
        scan = " UNION ALL ".join(scans) or "FROM internal.rows WHERE false"
        self._writer.execute(f"CREATE OR REPLACE VIEW internal.packed_rows AS {scan}")
        self._scanned = scanned

    def set_prices(self, given: pa.Table) -> None:
        """Let `costs` go by these prices alone, in `lakestore.catalog.prices.SCHEMA`."""
        with self.change():
            self._with("given", given, ["DELETE FROM internal.prices", statements.ADD_PRICES])

    def drop_fresh(self, last: Callable[[str, str, str], int | None]) -> None:
        """Drop fresh rows that count no more, inside `change`.

        Args:
            last: Says, of app, user and session, up to which version; None for none.
        """
        found = self._writer.execute(statements.FRESH_SESSIONS).fetchall()
        gone = [(*ids, version) for ids in found if (version := last(*ids)) is not None]
        if gone:
            names = ["app_name", "user_id", "session_id", "version"]
            columns = [pa.array(column) for column in zip(*gone, strict=True)]
            ended = pa.table([*columns, pa.array(["delete"] * len(gone))], names=[*names, "kind"])
            self._with("ended", ended, _ENDING)

    def drop_apps(self, is_gone: Callable[[str], bool]) -> None:
        """Drop all fresh rows of the apps of which `is_gone` says so, inside `change`."""
        found = self._writer.execute(statements.APPS).fetchall()
        gone = [app_name for (app_name,) in found if is_gone(app_name)]
        self._changes += len(gone)
        for table in ("rows", "changes", "ended") if gone else ():
            self._writer.execute(
                f"DELETE FROM internal.{table} WHERE app_name IN $gone", {"gone": gone}
            )

    def packed_versions(self, wanted: pa.Table, *, long_ids: bool) -> list[tuple[Any, ...]]:
        """Return app, user, session and packed version of those in `wanted`, inside `change`.

        Args:
            wanted: `app_name`, `user_id`, `session_id`.
            long_ids: Those with long ids too, wanted or not.
        """
        self._writer.register("wanted", wanted)
        found = self._writer.execute(statements.PACKED_VERSIONS).fetchall()
        self._writer.unregister("wanted")
        return found + (self._writer.execute(statements.LONG_IDS).fetchall() if long_ids else [])

    def clear(self) -> None:
        """Remove all rows, inside `change`."""
        for table in ("rows", "changes", "ended", "packed_sessions"):
            self._writer.execute(f"DELETE FROM internal.{table}")
        self.show_runs([])
        self.show_packs([])

    def _with(self, name: str, table: pa.Table, statements: Sequence[str]) -> None:
        self._changes += 1
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)

    def close(self) -> None:
        """Free the memory."""
        self._main.close()


def _columns(has_payloads: bool) -> str:
    """Return the columns of a scan of packs, in the order of `SCHEMA`."""
    return ", ".join(
        f"stored.{quoted(name)}"
        if has_payloads or name not in OPTIONAL
        else f"NULL::{statements.PAYLOADS} AS {quoted(name)}"
        for name in SCHEMA.names
    )
