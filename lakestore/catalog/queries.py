"""SQL over one lake: the catalog that all queries share, and connections of their own.

Owns that both show the same prices and columns of state, and which of them is refreshed when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from lakestore.catalog.answers import tried
from lakestore.catalog.catalog import Catalog
from lakestore.catalog.connections import Connections
from lakestore.catalog.frames import lazy_frame
from lakestore.catalog.past import micros
from lakestore.catalog.process import Memory
from lakestore.errors import InputError
from lakestore.storage.range_file import Unread

if TYPE_CHECKING:
    import polars as pl


R = TypeVar("R")


class Queries:
    """Answers queries about a lake as it is now. Safe to use from many threads."""

    def __init__(
        self,
        new_catalog: Callable[..., Catalog],
        prices: pa.Table | None,
        cache: Path | None = None,
    ) -> None:
        """Answer from catalogs that `new_catalog` makes, given arguments by name.

        `cache`, a folder, is for the one that all queries share.
        """
        self._new_catalog = new_catalog
        self._cache = cache
        self._prices = prices
        self._shared: Catalog | None = None
        self._connected = Connections()
        self._lock = Lock()
        self._unread = Unread()

    def sql(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] | None,
        as_of: datetime | float | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the relation that `query` describes; see `Catalog.sql`."""
        if as_of is None:
            return self.fresh().sql(query, params)
        return self._made(as_of, guarded=True).sql(query, params)

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None,
        where: str | None,
        params: Sequence[Any] | None,
    ) -> pa.RecordBatchReader:
        """Stream a view in batches; see `Catalog.scan`."""
        return self.fresh().scan(table, columns, where, params)

    def scan_polars(self, table: str) -> pl.LazyFrame:
        """Return a view as a LazyFrame, which refreshes each time that it is collected."""
        query = self._catalog().select(table)
        return lazy_frame(lambda: self.sql(query, None))

    def connect(
        self,
        *,
        guarded: bool,
        as_of: datetime | float | None = None,
        memory_limit: str | None = None,
        httpfs: bool = False,
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own, as the lake is now; `guarded` as in `Database`.

        Raises:
            InputError: DuckDB knows no such limit, or httpfs cannot be used.
        """
        if httpfs and guarded:
            raise InputError("a guarded connection reads through the lake alone, without httpfs")
        # DuckDB would let SQL read and write in the folder that it may spill to.
        memory = Memory(memory_limit, spills=not guarded)
        try:
            catalog = self._made(as_of, guarded=guarded, memory=memory, httpfs=httpfs)
        except duckdb.ParserException as error:
            raise InputError(f'memory_limit is like "512MB". given={memory_limit!r}') from error
        return self._connected.hand_out(catalog)

    def _made(self, as_of: datetime | float | None, **how: Any) -> Catalog:
        catalog = self._new_catalog(
            prices=self._prices, unread=self._unread, as_of=micros(as_of), **how
        )
        catalog.refresh()
        return catalog

    def tried(self, read: Callable[[], R]) -> R:
        """Run what asks connections of its own, and again where that met what is damaged, or gone.

        Connections that it makes then show all else.
        """
        return tried(self._unread, read, lambda: None)

    def refresh(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection from `connect` show the lake as it is now."""
        self._connected.catalog_of(connection).refresh()

    def set_prices(self, prices: pa.Table) -> None:
        """Let `costs` go by these prices, in connections that were handed out too."""
        with self._lock:
            self._prices = prices
            shared = [] if self._shared is None else [self._shared]
        for catalog in (*shared, *self._connected):
            catalog.set_prices(prices)

    def _catalog(self) -> Catalog:
        with self._lock:
            if self._shared is None:
                self._shared = self._new_catalog(
                    guarded=True, prices=self._prices, unread=self._unread, cache=self._cache
                )
            return self._shared

    def fresh(self) -> Catalog:
        """Return the catalog that all queries share, as the lake is now."""
        catalog = self._catalog()
        catalog.refresh()
        return catalog

    def close(self) -> None:
        """Free the memory; connections and relations fail from now on."""
        if self._shared is not None:
            self._shared.close()
        self._connected.close()
