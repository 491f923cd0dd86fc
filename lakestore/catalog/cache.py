"""Keeps the file of what was read in step with a database.

Owns when the file is added to, when it is written anew, and that nothing that fails there is more
than a warning: it only saves reading.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from lakestore.catalog.cache_file import Loaded, cache_path, open_cache
from lakestore.catalog.database import Database
from lakestore.clock import Clock
from lakestore.storage import ObjectStore

logger = logging.getLogger(__name__)

_MOST_ROWS = 65_536
"""How many rows one refresh adds; after a larger one the file is written anew."""


class Cache:
    """What was read of a lake, in a file. For the one thread that changes the database."""

    def __init__(self, folder: Path, store: ObjectStore, clock: Clock) -> None:
        """Open the file in a folder, if nobody else has."""
        self._path, self._clock = cache_path(folder, store), clock
        self._new: list[pa.Table] = []
        self._anew = False
        self._erased: set[str] = set()
        self._file = open_cache(self._path, clock.wall())

    def load(self, database: Database) -> Loaded:
        """Bring what is in the file into an empty database; return how far that is."""
        loaded = Loaded({}, set())
        if self._file is not None and self._file.is_filled:
            with self._tried(), database.change():
                loaded = self._file.load(self._clock.wall(), database)
        self._erased = loaded.erased
        return loaded

    def begin(self, *, anew: bool) -> None:
        """Begin a refresh, `anew` where the database is empty again."""
        self._new.clear()
        self._anew = anew

    def note(self, rows: pa.Table) -> None:
        """Take note of rows that a refresh has read."""
        if self._file is not None and self._file.is_filled and not self._anew:
            self._new.append(rows)
            if sum(each.num_rows for each in self._new) > _MOST_ROWS:
                self.begin(anew=True)

    def settle(
        self,
        database: Database,
        loaded: Loaded,
        reached: Mapping[str, int],
        gone: Collection[str],
    ) -> None:
        """Put what a refresh has read into the file.

        Where it has found that somebody was erased, the file is deleted and written anew: nothing
        of them is in any byte of it when this returns.

        Args:
            database: What it made.
            loaded: How far the database is.
            reached: Up to which version it has read logs on.
            gone: The digests of these sessions' logs.
        """
        with self._tried():
            if self._file is not None and self._file.is_filled:
                anew = self._anew or not loaded.erased <= self._erased
                if not anew and not self._file.is_wasteful(database):
                    if self._new or reached:
                        self._file.append(self._new, reached, gone)
                    return
                self._file.remove()
                self._file = open_cache(self._path, self._clock.wall())
            if self._file is not None:
                self._erased = set(loaded.erased)
                self._file.fill(self._clock.wall(), database, loaded, gone)

    @contextmanager
    def _tried(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            logger.warning("the catalog goes on without its cache. reason=%s", error)
            if self._file is not None:
                self._file.remove()
                self._file = None

    def close(self) -> None:
        """Let other processes open the file."""
        if self._file is not None:
            self._file.close()
