"""Views as polars LazyFrames: DuckDB's own polars source, on a cursor of its own for each scan.

Owns no translation of expressions: that is `duckdb.polars_io`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import duckdb

from lakestore.errors import InputError

if TYPE_CHECKING:
    import polars as pl

NewRelation = Callable[[], duckdb.DuckDBPyRelation]
"""Returns a relation that nobody else uses, on the rows as they are now."""


class _Scans:
    """Stands for a relation in DuckDB's source; each use is of a new one.

    A relation can be read once at a time, and polars reads a frame that is joined to itself twice.
    """

    def __init__(self, new_relation: NewRelation) -> None:
        self._new_relation = new_relation
        first = new_relation()
        self.columns, self.types = first.columns, first.types

    def __getattr__(self, name: str) -> Any:
        return getattr(self._new_relation(), name)


def lazy_frame(new_relation: NewRelation) -> pl.LazyFrame:
    """Return what polars scans when it is collected: columns, conditions and limits in DuckDB.

    Conditions that DuckDB cannot express are polars' own, batch by batch.

    Raises:
        InputError: polars is not installed.
    """
    try:
        from duckdb.polars_io import duckdb_source
    except ImportError as error:
        raise InputError(
            "a LazyFrame needs polars: pip install 'lakestore[notebook]'. lake.scan needs nothing"
        ) from error
    schema = new_relation().limit(0).pl().schema
    return duckdb_source(cast("duckdb.DuckDBPyRelation", _Scans(new_relation)), schema)
