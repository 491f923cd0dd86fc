"""What a lake is asked with SQL: queries, scans, connections, prices.

Owns when the catalog is made: with the first question, and once. What SQL sees is the catalog's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from lakestore.checks import check_flag, check_text

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from lakestore.catalog import Prices, Queries
    from lakestore.retrieval.rankings import RankingName
    from lakestore.retrieval.searches import Over, Searches
    from lakestore.search.embedding import Embedder


R = TypeVar("R")


class Analytics(ABC):
    """Answers SQL over all sessions of a lake."""

    _prices: pa.Table | None = None
    _cache_bytes: int

    @abstractmethod
    def _new_queries(self) -> Queries:
        """Return what answers, which has read nothing."""

    @abstractmethod
    def _check_open(self) -> None:
        """Refuse to go on when the lake is closed.

        Raises:
            InputError: it is.
        """

    def _ask_anew(self) -> None:
        """Forget what has answered, in a new process, without touching it."""
        self._queries: Queries | None = None
        self._searches: Searches | None = None
        self._asking = Lock()

    def sql(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        as_of: datetime | float | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Run SQL over the lake as it is now: `.df()`, `.pl()`, `.arrow()`, `.fetchall()`.

        Views: see VIEWS.md. Values go into `params`, for `?` or `$name` in the query. What meets a
        damaged object, or one that was swept meanwhile, is run again without it.

        Args:
            query: One query.
            params: Its values.
            as_of: Ask the lake as it was then, as `connect` does; for more than one question make
                a connection, since each reads anew what it needs.

        Raises:
            InputError: `query` is not one query, `params` no list or mapping, or what was there
                `as_of` that time is not known any more.
            StorageError: the store failed.
            duckdb.Error: the query is wrong.
        """
        return self._asked().sql(query, params, as_of)

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Sequence[Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Stream a view of the lake as it is now, in batches.

        Args:
            table: The view's name.
            columns: Which columns; None for all.
            where: A condition in SQL, with `?` for each value of `params`.
            params: The values.

        Raises:
            InputError: there is no such view or column, `where` is no condition on it, or `params`
                are not as many as it asks for.
            StorageError: the store failed.
        """
        return self._asked().scan(table, columns, where, params)

    def scan_polars(self, table: str) -> pl.LazyFrame:
        """As `scan`, of a whole view, into a polars LazyFrame that reads when it is collected.

        Columns, conditions and limits are DuckDB's to apply, where it knows what polars means by
        them: only what is left of the rows comes into polars, in batches.

        Raises:
            InputError: as `scan`, or polars, an extra, is not installed.
        """
        return self._asked().scan_polars(table)

    def search(
        self,
        query: str,
        *,
        app_name: str,
        user_id: str | None = None,
        over: Over = "events",
        ranking: RankingName = "bm25",
        embedder: Embedder | None = None,
        language: str | None = "english",
        limit: int = 20,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        session_ids: Iterable[str] | None = None,
        authors: Iterable[str] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Search what was said, or what is remembered, as the lake is now; the best first.

        Returns a relation as `sql` does, with `score`, `snippet` and where each was found. The
        first search makes an index of all that it is about; later ones bring it up to date, as
        long as it fits into the lake's `cache_bytes`.

        Args:
            query: Any text, in any script.
            app_name: The app.
            user_id: One user, over memory also what all users of the app share; None: all users.
            over: `events`: all that was said, as the view `messages` has it. `memory`: what the
                view `memory` has.
            ranking: See `LakeMemoryService`.
            embedder: For `hybrid`, which over events makes vectors of all texts with it, and over
                memory compares with those that are stored.
            language: See `LakeMemoryService`.
            limit: How many at most.
            since: Only what happened after this time (exclusive).
            until: Only what happened up to this time (inclusive).
            session_ids: Only what is from these sessions.
            authors: Only what is by these.
            metadata: Only what has all these fields in its custom metadata, with equal values; over
                events the first such search opens the JSON of each.

        Raises:
            InputError: an argument makes no sense; nothing was read.
            StorageError: the store failed.
        """
        from lakestore.retrieval.searches import Searches, question_of

        told = (since, until, session_ids, authors, metadata)
        how = (over, ranking, embedder, language, limit)
        asked = question_of(query, app_name, user_id, *how, *told)
        catalog = self._asked().fresh()
        with self._asking:
            if self._searches is None:
                self._searches = Searches(self._cache_bytes)
            searches = self._searches
        return searches.answer(catalog, asked)

    def connect(
        self,
        *,
        guarded: bool = False,
        as_of: datetime | float | None = None,
        memory_limit: str | None = None,
        httpfs: bool = False,
    ) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection of its own with all views, as the lake is now.

        What it shows stays as it is until `refresh`. Whatever you create in it is yours alone. The
        lake's own objects can be scanned where they lie, as in `read_parquet('lakestore://…')`,
        and not be changed. Its memory is freed when you drop it, or at the next `connect` after you
        closed it.

        Args:
            guarded: For SQL that you do not trust: no file, setting or variable is open, and what
                does not fit in memory fails. The connection is its user's own, who may drop views
                in it, which `refresh` does not bring back: throw it away afterwards.
            as_of: A datetime with a zone, or seconds since 1970 UTC: show what had been committed
                by then, each session up to its last commit before the first later one, and alive if
                it was deleted later. Times are those that writers' clocks gave commits.
            memory_limit: What its database may hold in memory, as DuckDB spells it: `"512MB"`.
            httpfs: In a bucket, let DuckDB's extension of that name read large packs, from signed
                addresses, which last 12 hours or as long as the credentials; `refresh` renews them.
                It is loaded if it is installed, never downloaded. What it reads is not compared
                with checksums, and damage that it meets is not passed over.

        Raises:
            InputError: what was there `as_of` that time is not known any more, for something of it
                was deleted or pruned and packed since; the error says from when on it is. Or httpfs
                is not installed, or this store or its credentials sign nothing.
            StorageError: the store failed.
        """
        limit = None if memory_limit is None else check_text("memory_limit", memory_limit)
        how = {"guarded": check_flag("guarded", guarded), "httpfs": check_flag("httpfs", httpfs)}
        return self._asked().connect(as_of=as_of, memory_limit=limit, **how)

    def tried(self, read: Callable[[], R]) -> R:
        """Return what `read` returns, which connects and asks; run it again where it met damage.

        What `connect` returns then shows all else.
        """
        return self._asked().tried(read)

    def refresh(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection from `connect` show the lake as it is now, without what is damaged.

        Raises:
            InputError: the connection is not from this lake's `connect`, or it is closed.
        """
        self._asked().refresh(connection)

    def set_prices(self, prices: Prices, *, per: float = 1_000_000) -> None:
        """Let `costs` go by prices of `per` tokens, as in `{"m": {"prompt": 1, "output": 9}}`.

        Raises:
            InputError: a price is missing, or no amount.
        """
        from lakestore.catalog import price_table

        self._prices = price_table(prices, per)
        self._asked().set_prices(self._prices)

    def _asked(self) -> Queries:
        self._check_open()
        with self._asking:
            if self._queries is None:
                self._queries = self._new_queries()
            return self._queries

    def _stop_asking(self) -> None:
        if self._queries is not None:
            self._queries.close()
