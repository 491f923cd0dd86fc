"""SQL that nobody trusts: through `lake.sql` and through guarded connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from lakestore import Lake, LakeSessionService
from lakestore.errors import InputError

Run = Callable[[str], list[Any]]

SECRET = "what nobody may see"

_ATTACKS = (
    # Files, by every function that opens one.
    "from read_text('{dir}/secret.txt')",
    "from read_blob('{dir}/secret.txt')",
    "from read_csv('{dir}/secret.txt', header = false)",
    "from read_json('{dir}/secret.txt')",
    "from read_parquet('{dir}/secret.txt')",
    "from sniff_csv('{dir}/secret.txt')",
    "from parquet_metadata('{dir}/secret.txt')",
    "from glob('{dir}/*')",
    "from '{dir}/secret.csv'",
    "from query('from read_text(''{dir}/secret.txt'')')",
    "from read_text('file://{dir}/secret.txt')",
    "from read_csv('/proc/self/environ')",
    "from read_text('memory://secret')",
    "from read_text('s3://bucket/secret')",
    "from read_text('http://127.0.0.1:1/secret')",
    "from read_duckdb('{dir}/other.duckdb')",
    "create view v as from read_text('{dir}/secret.txt')",
    # DuckDB lets SQL into the folder that it may spill to.
    "copy (select 1) to (select current_setting('temp_directory') || '/out.csv')",
    # Out of the lake by its own scheme.
    "from read_text('lakestore://../secret.txt')",
    "from read_text('lakestore://events/../../secret.txt')",
    "from read_text('lakestore://./../secret.txt')",
    "from read_text('lakestore:///{dir}/secret.txt')",
    "from read_text('lakestore://{dir}/secret.txt')",
    "from read_text('lakestore://..\\secret.txt')",
    "from read_text('lakestore://../other/lakestore.json')",
    "from read_text('lakestore://%2e%2e/secret.txt')",
    "from read_text(['lakestore://lakestore.json', 'lakestore://../secret.txt'])",
    # Writing, into the lake too: an allowed directory may be written to, for all DuckDB knows.
    "copy (select 1) to '{dir}/out.csv'",
    "copy (select 1) to 'lakestore://out.csv'",
    "copy (select 1) to 'lakestore://lakestore.json'",
    "copy (select 1 as a) to 'lakestore://parts' (partition_by a, overwrite)",
    "export database '{dir}/exported'",
    "export database 'lakestore://exported'",
    "attach '{dir}/other.duckdb'",
    "attach 'lakestore://other.duckdb'",
    "create persistent secret s (type s3, key_id 'a', secret 'b')",
    "create secret (type http, bearer_token 'a')",
    # More than one statement, prepared, or within another.
    "select 1; copy (select 1) to '{dir}/out.csv'",
    "prepare p as copy (select 1) to '{dir}/out.csv'; execute p",
    "explain analyze copy (select 1) to '{dir}/out.csv'",
    "with x as (select 1) copy (from x) to '{dir}/out.csv'",
    "copy sessions from '{dir}/secret.txt'",
    "import database '{dir}/other'",
    # Settings, and what they could open.
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set allowed_directories = ['/']",
    "set allowed_paths = ['{dir}/secret.txt']",
    "set python_enable_replacements = true",
    "set temp_directory = '{dir}'",
    "set memory_limit = '1KB'",
    "set global TimeZone = 'Asia/Tokyo'",
    "reset threads",
    "pragma profiling_output = '{dir}/profile'",
    "set log_query_path = '{dir}/log'",
    "call enable_logging(storage = 'file', storage_config = {{'path': '{dir}/logs'}})",
    "install httpfs",
    "load httpfs",
    "load '{dir}/other.duckdb_extension'",
    "force install httpfs from 'http://127.0.0.1:1'",
    # What the program around it holds.
    "from frame",
    "from TRAP",
    "select getenv('PATH')",
)

TRAP = pd.DataFrame({"secret": [SECRET]})


# One for all attacks: none may leave anything that the next could see.
@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file and another lake."""
    made = tmp_path_factory.mktemp("untrusted")
    (made / "secret.txt").write_text(SECRET)
    (made / "secret.csv").write_text(f"a\n{SECRET}\n")
    Lake.open(made / "other").close()
    return made


@pytest.fixture(scope="module")
def lake(folder: Path) -> Iterator[Lake]:
    """A lake in that folder."""
    with Lake.open(folder / "mine") as opened:
        LakeSessionService(opened).sync.create_session(app_name="app", user_id="ana")
        yield opened


@pytest.fixture(scope="module", params=["sql", "connection"])
def run(request: pytest.FixtureRequest, lake: Lake) -> Run:
    """Run SQL in one of the two ways."""
    if request.param == "sql":
        return lambda query: lake.sql(query).fetchall()
    connection = lake.connect(guarded=True)

    def execute(query: str) -> list[Any]:
        frame = TRAP  # what a program has at hand
        assert len(frame) == 1
        return connection.sql(query).fetchall() if query.startswith("from") else _all(query)

    def _all(query: str) -> list[Any]:
        return connection.execute(query).fetchall()

    return execute


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("attack", _ATTACKS)
def test_nothing_is_reached(lake: Lake, run: Run, folder: Path, attack: str) -> None:
    """Each attempt is an error, and has changed nothing."""
    before = contents(folder)
    with pytest.raises((duckdb.Error, InputError, OSError)):
        run(attack.format(dir=folder))
    assert contents(folder) == before
    assert run("select count(*) from sessions") == [(1,)]
    assert lake.sql("select user_id from sessions").fetchall() == [("ana",)]


def test_a_guarded_connection_is_ones_own(lake: Lake) -> None:
    """Its views are its own to drop, it can be refreshed, and it has tables in memory."""
    connection, other = lake.connect(guarded=True), lake.connect(guarded=True)
    connection.execute("create table mine as select user_id from sessions")
    connection.execute("drop view errors")
    assert connection.sql("from mine").fetchall() == [("ana",)]
    assert other.sql("from errors").fetchall() == []
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name="app", user_id="ben")
    lake.refresh(connection)
    assert connection.sql("select count(*) from sessions").fetchall() == [(2,)]
    service.delete_session(app_name="app", user_id="ben", session_id=session.id)


@pytest.mark.parametrize("guarded", ["yes", 1, None])
def test_guarded_is_yes_or_no(lake: Lake, guarded: Any) -> None:
    """A text is no answer: it would count as true, or as false, unawares."""
    with pytest.raises(InputError):
        lake.connect(guarded=guarded)


LARGE = """select count(*) from (
  from (select i, repeat('x', 100) || i as s from range(1500000) t(i)) order by s limit 1400000)"""


def test_a_guarded_query_takes_no_more_than_it_may(lake: Lake) -> None:
    """What does not fit fails, spills nowhere, and leaves the connection as it was."""
    connection = lake.connect(guarded=True, memory_limit="100MB")
    with pytest.raises(duckdb.OutOfMemoryException):
        connection.sql(LARGE).fetchall()
    assert connection.sql("select current_setting('temp_directory')").fetchall() == [("",)]
    assert connection.sql("select user_id from sessions").fetchall() == [("ana",)]
    with pytest.raises(duckdb.Error):
        connection.execute("set memory_limit = '10GB'")
    trusted = lake.connect(memory_limit="100MB")
    assert trusted.sql(LARGE).fetchall() == [(1_400_000,)]


@pytest.mark.parametrize("limit", ["much", "", 5, b"1GB"])
def test_a_limit_is_spelled_as_duckdb_does(lake: Lake, limit: Any) -> None:
    """What is no amount of memory is refused."""
    with pytest.raises(InputError, match="memory_limit"):
        lake.connect(memory_limit=limit)
