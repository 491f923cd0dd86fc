"""Large packs through DuckDB's own httpfs, which reads a bucket without Python in between.

Owns the addresses that it reads: signed ones, so that it needs no credentials and can only read.
"""

from __future__ import annotations

import duckdb

from lakestore.clock import SystemClock
from lakestore.errors import InputError
from lakestore.storage import ObjectStore

_SIGNED_SECONDS = 12 * 3600
_RENEWED_SECONDS = 300
"""Temporary credentials end, and the addresses that they have signed with them."""


class Httpfs:
    """Gives out addresses of a store's objects, for DuckDB to read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, store: ObjectStore) -> None:
        """Load the extension; nothing is asked of the store, nothing is downloaded.

        Raises:
            InputError: it is not installed, or the store or its credentials sign nothing.
            StorageError: the credentials could not be found or renewed.
        """
        store.sign("-", _SIGNED_SECONDS)
        try:
            connection.execute("LOAD httpfs")
        except duckdb.Error as error:
            raise InputError(
                "httpfs is not installed for this release of DuckDB: run `INSTALL httpfs` once, or"
                f" connect without it. duckdb={duckdb.__version__}"
            ) from error
        self._store = store
        self._clock = SystemClock()  # it counts the time that the machine sleeps
        self._signed = self._clock.elapsed()

    @property
    def is_old(self) -> bool:
        """Whether addresses that were given out should be given out anew."""
        return self._clock.elapsed() - self._signed > _RENEWED_SECONDS

    def renew(self) -> None:
        """Note that all addresses in use are given out now."""
        self._signed = self._clock.elapsed()

    def address(self, key: str) -> str:
        """Return where to read an object for the next hours, as long as its credentials live."""
        return self._store.sign(key, _SIGNED_SECONDS)
