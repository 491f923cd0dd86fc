"""The connections that were handed out, each to a database of its own. Owns how long these live."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import duckdb

from lakestore.catalog.catalog import Catalog
from lakestore.errors import InputError


class Connections:
    """Keeps a catalog for as long as its connection is in use: neither dropped nor closed."""

    def __init__(self) -> None:
        # By identity, which cannot be taken again before the reference tells that it is free.
        self._catalogs: dict[int, tuple[weakref.ref[duckdb.DuckDBPyConnection], Catalog]] = {}

    def hand_out(self, catalog: Catalog) -> duckdb.DuckDBPyConnection:
        """Return the connection of `catalog`, and forget those that were closed."""
        for place, (reference, _) in list(self._catalogs.items()):
            earlier = reference()
            if earlier is not None and _is_closed(earlier):
                self._catalogs.pop(place, None)
        connection = catalog.connection
        place = id(connection)
        reference = weakref.ref(connection, lambda _: self._catalogs.pop(place, None))
        self._catalogs[place] = (reference, catalog)
        return connection

    def __iter__(self) -> Iterator[Catalog]:
        return iter([catalog for _, catalog in self._catalogs.values()])

    def catalog_of(self, connection: object) -> Catalog:
        """Return the catalog behind a connection that was handed out here.

        Raises:
            InputError: it is another one, or closed.
        """
        if isinstance(connection, duckdb.DuckDBPyConnection) and _is_closed(connection):
            raise InputError("the connection is closed; connect() gives another one")
        reference, catalog = self._catalogs.get(id(connection), (None, None))
        if catalog is None or reference is None or reference() is not connection:
            raise InputError(
                "only a connection that this lake's connect() returned can be refreshed"
            )
        return catalog

    def close(self) -> None:
        """Free the memory of all databases; their connections fail from now on."""
        while self._catalogs:
            _, (_, catalog) = self._catalogs.popitem()
            catalog.close()


def _is_closed(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        connection.cursor()
    except duckdb.ConnectionException:
        return True
    return False
