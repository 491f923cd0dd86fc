"""The catalog: a DuckDB database that follows the lake's logs, and SQL over it.

Owns when a refresh may be shared, and that a forked process begins anew. How logs are read is
`lakestore.catalog.reading`'s, what the views show `lakestore.catalog.views`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from lakestore.catalog.answers import answer, tried
from lakestore.catalog.artifacts import ArtifactLogs, FollowedArtifacts
from lakestore.catalog.cache import Cache
from lakestore.catalog.cache_file import LIFE, Loaded
from lakestore.catalog.database import Database, Relation
from lakestore.catalog.decoding import latest_stamps
from lakestore.catalog.keyed import FollowedRows, KeyedRows
from lakestore.catalog.packs import Followed, Packs
from lakestore.catalog.past import Past
from lakestore.catalog.process import DEFAULT_MEMORY, Memory
from lakestore.catalog.reading import Known, Reading
from lakestore.catalog.source import Source
from lakestore.catalog.views import View, quoted, views_with
from lakestore.checks import check_params, check_text, check_texts
from lakestore.clock import Clock
from lakestore.errors import InputError
from lakestore.log.marker import Limits
from lakestore.storage import Metrics, ObjectStore, Pool
from lakestore.storage.range_file import Unread

R = TypeVar("R")

_BATCH_ROWS = 8_192


NoteStamp = Callable[[str, str, str], None]
"""Is called with an app, a user and a stamp."""


def _note_nothing(_app_name: str, _user_id: str, _stamp: str) -> None:
    pass


class _Followed:
    """What one process holds: the database, and how far it follows the logs."""

    def __init__(self, database: Database, cache: Cache | None, now: float) -> None:
        self.database = database
        self.cache = cache
        loaded = Loaded({}, set()) if cache is None else cache.load(database)
        self.known = Known(loaded.versions)
        self.since = now - loaded.age
        """When it began to follow them, on the clock that counts suspension."""
        self.packs = Followed()
        self.rows = FollowedRows()
        self.artifacts = FollowedArtifacts()
        self.revision = 0
        """`Database.changes` when the last refresh had ended."""
        self.lock = Lock()
        self.begun = 0
        """Refreshes that have begun; the lock guards it."""
        self.done = 0
        """Which of them was the last to succeed."""
        self.doubtful = False
        """Whether it cannot be told if the last change of the database took place."""

    def forget(self) -> None:
        """Know nothing, inside the database's `change`."""
        self.database.clear()
        self.database.keyed.clear()
        self.database.artifacts.clear()
        self.known.versions.clear()
        self.known.gaps.clear()
        self.packs.manifests.clear()
        self.rows = FollowedRows()
        self.artifacts = FollowedArtifacts()


class Catalog:
    """SQL over all sessions of a lake, as of the last refresh. Safe to use from many threads."""

    def __init__(
        self,
        store: ObjectStore,
        pool: Pool,
        clock: Clock,
        metrics: Metrics,
        limits: Limits,
        note_stamp: NoteStamp = _note_nothing,
        state_columns: Sequence[str] = (),
        *,
        guarded: bool = True,
        prices: pa.Table | None = None,
        as_of: int | None = None,
        cache: Path | None = None,
        memory: Memory = DEFAULT_MEMORY,
        unread: Unread | None = None,
        httpfs: bool = False,
    ) -> None:
        """Follow the logs in `store`; reads nothing yet.

        Args:
            store: Where the lake is; nothing is written to it.
            pool: Runs requests side by side.
            clock: Tells how long reading took.
            metrics: Counts what had to be read again.
            limits: The lake's.
            note_stamp: Is told the latest stamp of each user in what was read, before it shows.
            state_columns: State keys that `sessions` has a column for.
            guarded: No query can reach files or change settings; see `Database`.
            prices: What `costs` goes by, in `lakestore.catalog.prices.SCHEMA`.
            memory: What its database may take.
            cache: The folder of a file that keeps what was read; see `Cache`.
            as_of: Show what the lake held then, in microseconds since 1970 UTC; see `Past`.
            unread: What of it could not be read, as far as other catalogs know.
            httpfs: Let DuckDB's extension read large packs.

        Raises:
            InputError: httpfs cannot be used here.
        """
        self._as_of = as_of
        self._unread = unread or Unread()
        self._cache = cache
        self._pid = os.getpid()
        self._store = store
        self._guarded = guarded
        self._httpfs = httpfs
        self._memory = memory
        self._note_stamp = note_stamp
        self._views = views_with(state_columns)
        self._prices = prices
        self._source = Source(store, pool, clock, metrics, limits)
        # By process: DuckDB does not survive a fork, and neither do locks that a thread held.
        self._followed: dict[int, _Followed] = {}
        self._here()

    def _here(self) -> _Followed:
        pid = os.getpid()
        found = self._followed.get(pid)
        if found is None:
            database = Database(
                self._store,
                unread=self._unread,
                guarded=self._guarded,
                views=self._views,
                memory=self._memory,
                as_of=self._as_of,
                httpfs=self._httpfs,
            )
            if self._prices is not None:
                database.set_prices(self._prices)
            # What this process has inherited of an open file is not for it to touch.
            folder = self._cache if pid == self._pid else None
            cache = folder and Cache(folder, self._store, self._source.clock)
            found = self._followed.setdefault(
                pid, _Followed(database, cache or None, self._source.clock.elapsed())
            )
        return found

    def set_prices(self, prices: pa.Table) -> None:
        """Let `costs` go by these prices alone, in `lakestore.catalog.prices.SCHEMA`."""
        self._prices = prices
        here = self._here()
        with here.lock:
            here.database.set_prices(prices)

    def refresh(self) -> None:
        """Take in all that was committed before the call. Queries see it whole, or not at all.

        A damaged or unreadable object hides what its session has from there on, is named in an
        error that is logged once, and is tried again at each refresh.

        Raises:
            StorageError: the store failed, or logs changed faster than they could be read.
            InputError: what the lake held `as_of` that time cannot be told any more.
        """
        here = self._here()
        earlier = here.begun
        with here.lock:
            # Another thread's refresh that began after this call has seen what this one would.
            if here.done <= earlier:
                here.begun += 1
                tried(self._unread, lambda: self._follow(here), self._note_retry)
                here.done = here.begun

    def _follow(self, here: _Followed) -> None:
        database = here.database
        past = None if self._as_of is None else Past(self._as_of)
        started = self._source.clock.elapsed()
        anew = here.doubtful or past is not None or started - here.since >= LIFE
        if here.cache is not None:
            here.cache.begin(anew=anew)
        with database.change():
            if anew:
                here.forget()
            keyed = KeyedRows(self._source, database, here.rows)
            logs = ArtifactLogs(self._source, database, here.artifacts)
            packs = Packs(self._source, database, here.packs)
            take = partial(self._take, here, past)
            reached = Reading(self._source, packs, here.known, take).run()
            rows = keyed.follow(packs)
            artifacts = logs.follow(packs)
            if past:
                past.show(database, packs.manifests.values())
            here.doubtful = True
        here.revision = database.changes  # only now that it can be seen
        here.known.versions.update(reached)
        packs.settle()
        here.rows, here.artifacts = rows, artifacts
        here.doubtful = False
        here.since = started if anew else here.since
        if here.cache is not None:
            age = started - here.since
            loaded = Loaded(here.known.versions, here.packs.erased_runs, age)
            here.cache.settle(database, loaded, reached, here.packs.erased)

    def _take(self, here: _Followed, past: Past | None, rows: pa.Table) -> None:
        # Whoever is shown a write and then writes, writes later: causal order holds for SQL too.
        for app_name, user_id, stamp in latest_stamps(rows):
            self._note_stamp(app_name, user_id, stamp)
        here.database.add(rows if past is None else past.keep(rows))
        if here.cache is not None:
            here.cache.note(rows)

    def sql(
        self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the relation that `query` describes, as of the last refresh before it is run.

        Args:
            query: One query; its views are those of `lakestore.catalog.views`.
            params: Values for `?` (a sequence) or `$name` (a mapping).

        Raises:
            InputError: `query` is not one query, or `params` neither a list nor a mapping.
            QueryError: DuckDB does not understand it.
        """
        check_params(params)
        text = check_text("query", query)

        def tries(read: Callable[[], R], again: Callable[[], None]) -> R:
            def refreshed() -> None:
                self._note_retry()
                self.refresh()
                again()

            return tried(self._unread, read, refreshed)

        return answer(lambda: self._here().database.query(text, params), tries)

    def _note_retry(self) -> None:
        self._source.metrics.add("retries")

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Sequence[Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Stream a view in batches, never held in memory as a whole.

        Args:
            table: The view's name.
            columns: Which columns, in this order; None for all.
            where: A condition in SQL, with `?` for each value of `params`.
            params: The values.

        Raises:
            InputError: there is no such view or column, or `where` is more than a condition, or
                DuckDB does not understand it, or `params` do not fit it.
        """
        query = self.select(table, columns)
        if where is None:
            return self.sql(query, params).to_arrow_reader(_BATCH_ROWS)
        try:
            relation = self.sql(f"{query} WHERE (\n{check_text('where', where)}\n)", params)
        except duckdb.ProgrammingError as error:
            # A damaged pack is invalid input to DuckDB, too.
            if isinstance(error, duckdb.InvalidInputException) and "parameter" not in str(error):
                raise
            reason = str(error).splitlines()[0]
            raise InputError(f"where is no condition on this view. {where=} {reason=}") from error
        return relation.to_arrow_reader(_BATCH_ROWS)

    def select(self, table: str, columns: Sequence[str] | None = None) -> str:
        """Return the query for columns of a view, None for all.

        Raises:
            InputError: there is no such view or column.
        """
        return _select(self._views, table, columns)

    @property
    def revision(self) -> int:
        """Another number than before wherever queries may be answered in another way."""
        return self._here().revision

    def relation(self, table: pa.Table) -> Relation:
        """Return a table as `sql` returns what a query gives."""
        return self._here().database.relation(table)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with all views; the same one as long as it is held, until a fork.

        What it shows moves on with `refresh`. Closing or dropping it leaves the catalog as it is.
        """
        return self._here().database.connection

    def close(self) -> None:
        """Free the memory. Connections and relations of the catalog fail from now on."""
        followed = self._followed.get(os.getpid())
        if followed is not None:
            followed.database.close()
            if followed.cache is not None:
                followed.cache.close()


def _select(views: Mapping[str, View], table: str, columns: Sequence[str] | None) -> str:
    view = views.get(check_text("table", table))
    if view is None:
        raise InputError(f"no such view. {table=} views={list(views)}")
    names = list(view.columns) if columns is None else check_texts("columns", columns)
    unknown = [name for name in names if name not in view.columns]
    if unknown or not names:
        raise InputError(f"no such columns. {table=} {unknown=} columns={list(view.columns)}")
    return f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table)}"
