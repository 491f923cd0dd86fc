from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from lakestore.catalog.database import Database
from lakestore.catalog.process import scratch
from lakestore.catalog.views import View, views_with
from lakestore.storage import MemoryStore

_WHAT_IS_THERE = """
SELECT schema_name, view_name, '' AS part, '' AS type, comment FROM duckdb_views()
  WHERE NOT internal
UNION ALL SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns()
  WHERE NOT internal
UNION ALL SELECT schema_name, function_name, parameters::VARCHAR, macro_definition, comment
  FROM duckdb_functions() WHERE NOT internal
ORDER BY ALL
"""
_numbers = count()


@pytest.fixture
def views() -> Mapping[str, View]:
    """Views that no database of this process has had yet."""
    return views_with([f"beginning-{next(_numbers)}"])


@pytest.fixture
def no_files() -> Iterator[None]:
    """Without the folder of this process, as after a cleaner of temporary files."""
    shutil.rmtree(scratch())
    yield
    Path(scratch()).mkdir(mode=0o700)


def _shown(views: Mapping[str, View]) -> list[tuple[str, ...]]:
    database = Database(MemoryStore(), views=views)
    found = database.query(_WHAT_IS_THERE).fetchall()
    assert database.query("FROM sessions").fetchall() == []
    database.close()
    return found


def test_every_database_begins_as_the_first(views: Mapping[str, View]) -> None:
    """The databases of a process have the same tables, views, columns, macros and comments."""
    first = _shown(views)
    assert {name for _, name, *_ in first} > set(views)
    column, meaning = list(views["sessions"].columns.items())[-1]
    assert ("main", "sessions", column, *meaning) in first
    assert _shown(views) == first


def test_a_database_begins_where_nothing_can_be_saved(
    views: Mapping[str, View], no_files: None
) -> None:
    """What one database saves for the next is needed by none."""
    assert _shown(views) == _shown(views)


def test_a_database_begins_where_what_was_saved_is_gone(
    views: Mapping[str, View], request: pytest.FixtureRequest
) -> None:
    """A cleaner of temporary files takes time from the next database, no more."""
    first = _shown(views)
    request.getfixturevalue("no_files")
    assert _shown(views) == first
