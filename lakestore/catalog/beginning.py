"""What every database begins with: tables, macros and views, with what each column means.

To bind the views and to comment on 240 columns takes DuckDB 0.25 s. So a process does it once,
saves what came of it in a file of its own, and copies it from there, which takes 0.02 s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import count

import duckdb

from lakestore.catalog import prices, statements
from lakestore.catalog.artifact_tables import ArtifactTables
from lakestore.catalog.keyed_tables import KeyedTables
from lakestore.catalog.process import scratch
from lakestore.catalog.views import View, definitions, literal
from lakestore.tables import runs
from lakestore.tables.events import SCHEMA
from lakestore.tables.parquet import lean

_saved: dict[tuple[int, str], str] = {}
"""The files, by process and by what defines the views."""

_numbers = count()


def begin(connection: duckdb.DuckDBPyConnection, views: Mapping[str, View]) -> None:
    """Make all tables and `views` in a new database, which may reach files meanwhile."""
    script = "; ".join(["BEGIN", *definitions(views), "COMMIT"])
    key = (os.getpid(), script)
    try:
        _with_file(connection, f"{_saved[key]} AS saved (READ_ONLY)", "saved TO memory")
    except (KeyError, duckdb.IOException):  # the first one here; or someone has cleaned up
        _make(connection, script)
        with suppress(duckdb.IOException, OSError):  # a full disk costs time, no more
            file = literal(f"{scratch()}/views-{next(_numbers)}.duckdb")
            _with_file(connection, f"{file} AS saved", "memory TO saved")
            _saved[key] = file


def _make(connection: duckdb.DuckDBPyConnection, script: str) -> None:
    connection.register("arrived", SCHEMA.empty_table())
    connection.register("packed", lean(runs.SCHEMA).empty_table())
    connection.register("given", prices.SCHEMA.empty_table())
    connection.execute(statements.TABLES)
    for name in ("arrived", "packed", "given"):
        connection.unregister(name)
    KeyedTables(connection).create()
    ArtifactTables(connection).create()
    connection.execute(script)


def _with_file(connection: duckdb.DuckDBPyConnection, attached: str, copied: str) -> None:
    connection.execute(f"ATTACH {attached}")
    try:
        connection.execute(f"COPY FROM DATABASE {copied}")
    finally:
        connection.execute("DETACH saved")
