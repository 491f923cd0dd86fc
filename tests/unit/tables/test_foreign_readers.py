"""Open bytes: what other engines read in commits, rollups and state entries, and as which type."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from lakestore.history.rollup import encode as encode_rollup
from lakestore.tables import events, state
from lakestore.tables.events import EventRow
from lakestore.tables.parquet import lean
from lakestore.tables.payloads import PAYLOADS, Payload
from lakestore.tables.state import StateRow

# R028, R083: ids that look like numbers and dates, and times at the edges.
IDS = ["007", "7", "2024-01-05", "NULL", "true", "1e5", "日本", "a/b"]
TIMES = [0.0, -1.0, 1e9 + 1e-7, 32_503_680_000.0, 1_700_000_000.123456]
INSTANTS = [
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
    dt.datetime(2001, 9, 9, 1, 46, 40, tzinfo=dt.UTC),
    dt.datetime(3000, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC),
]
COMMITTED = 1_700_000_000_000_001
ROWS = [
    EventRow(
        version=2**40 + number,
        ordinal=number,
        kind="event",
        app_name="app",
        user_id=IDS[number % len(IDS)],
        session_id="s",
        committed_at=COMMITTED + number,
        token="00000000000000ff",
        previous="",
        state_delta=None if number else '{"k": "a\x00b"}',
        event_json=json.dumps(
            {
                "id": f"e{number}",
                "timestamp": TIMES[number % len(TIMES)],
                "content": {"parts": [{"text": "é"}, {"function_call": {"name": "f"}}]},
                "usage_metadata": {"total_token_count": 2**40},
            }
        ),
    )
    for number in range(10)
]
REFERRING = [
    replace(
        row, payloads=(Payload("/content/parts/0/inlineData/data", "k", "0f", 3, None, "base64"),)
    )
    for row in ROWS
]
STATE = [
    StateRow("app", user, "k", '{"a": null}', "1-1-1", "s", "ana", 2**40) for user in (None, "7")
]


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in that time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One object of each kind, as a file with a name like in a lake."""
    folder = tmp_path_factory.mktemp("foreign") / "app=007" / "user=o'br[i]en" / "session=1"
    folder.mkdir(parents=True)
    bodies = {
        "commit": events.encode_commit(ROWS),
        "large commit": events.encode_commit(ROWS * 30),
        "rollup": encode_rollup(ROWS, {"k": 1}, COMMITTED),
        "commit with payloads": events.encode_commit(REFERRING),
        "rollup with payloads": encode_rollup(REFERRING, {"k": 1}, COMMITTED),
        "state": state.encode(STATE),
    }
    for name, body in bodies.items():
        (folder / f"{name}.parquet").write_bytes(body)
    return {name: folder / f"{name}.parquet" for name in bodies}


DUCKDB = {
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.list_(pa.string()): "VARCHAR[]",
    PAYLOADS: 'STRUCT(path VARCHAR, "key" VARCHAR, sha256 VARCHAR, size BIGINT,'
    ' mime_type VARCHAR, "encoding" VARCHAR)[]',
}
POLARS = {
    pa.int64(): pl.Int64(),
    pa.int32(): pl.Int32(),
    pa.string(): pl.String(),
    pa.bool_(): pl.Boolean(),
    pa.timestamp("us", tz="UTC"): pl.Datetime("us", "UTC"),
    pa.list_(pa.string()): pl.List(pl.String()),
    PAYLOADS: pl.List(
        pl.Struct(
            {
                it.name: pl.Int64() if it.name == "size" else pl.String()
                for it in PAYLOADS.value_type
            }
        )
    ),
}
SCHEMAS = {
    "commit": lean(events.COMMIT_SCHEMA),
    "large commit": lean(events.COMMIT_SCHEMA),
    "rollup": lean(events.SCHEMA),
    "commit with payloads": events.COMMIT_SCHEMA,
    "rollup with payloads": events.SCHEMA,
    "state": state.SCHEMA,
}
of_each_file = pytest.mark.parametrize("name", SCHEMAS)


def query(path: Path, sql: str) -> list[Any]:
    """Ask DuckDB about one file."""
    with duckdb.connect() as connection:
        # Brackets in a path are patterns to DuckDB, so they are escaped, and hive names ignored.
        place = str(path).replace("[", "[[]")
        return connection.execute(
            f"select {sql} from read_parquet(?, hive_partitioning=false)", [place]
        ).fetchall()


# R082
@of_each_file
def test_duckdb_sees_the_documented_types(files: dict[str, Path], name: str) -> None:
    """DuckDB reads text as VARCHAR, never as BLOB, and times with a zone."""
    with duckdb.connect() as connection:
        place = str(files[name]).replace("[", "[[]")
        told = connection.execute(
            "describe select * from read_parquet(?, hive_partitioning=false)", [place]
        ).fetchall()

    assert {row[0]: row[1] for row in told} == {
        field.name: DUCKDB[field.type] for field in SCHEMAS[name]
    }


@of_each_file
def test_polars_sees_the_documented_types(files: dict[str, Path], name: str) -> None:
    """Polars too, down to unit and zone of a time."""
    found = pl.read_parquet(files[name], glob=False, hive_partitioning=False)

    assert found.schema == {field.name: POLARS[field.type] for field in SCHEMAS[name]}


@of_each_file
def test_pyarrow_sees_the_documented_types(files: dict[str, Path], name: str) -> None:
    """Arrow finds the very schema, though none is embedded, and v1 pages of known encodings."""
    file = pq.ParquetFile(files[name])

    assert file.schema_arrow.equals(
        pa.schema([field.with_nullable(True) for field in SCHEMAS[name]])
    ) or file.schema_arrow.equals(SCHEMAS[name])
    columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
    assert {column.compression for column in columns} <= {"UNCOMPRESSED", "ZSTD"}
    used = {encoding for column in columns for encoding in column.encodings}
    delta = {"DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"}
    assert used <= {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", *delta}
    table = pads.dataset(str(files[name]), partitioning=None).to_table()
    assert table.column_names == SCHEMAS[name].names


@of_each_file
def test_pandas_sees_the_documented_types(files: dict[str, Path], name: str) -> None:
    """A DataFrame has times with their zone, whole numbers as such and texts as texts."""
    found = pd.read_parquet(files[name], partitioning=None)

    assert list(found.columns) == SCHEMAS[name].names
    for field in SCHEMAS[name]:
        kind = str(found[field.name].dtype)
        if pa.types.is_timestamp(field.type):
            assert kind == "datetime64[us, UTC]"
        elif pa.types.is_integer(field.type) and not found[field.name].hasnans:
            assert kind == str(field.type)
        elif pa.types.is_string(field.type):
            present = found[field.name].dropna()
            assert all(isinstance(value, str) for value in present)


# R083
@pytest.mark.usefixtures("_zone")
def test_times_are_the_same_instant_everywhere(files: dict[str, Path]) -> None:
    """In any zone of the process every engine tells the same instants, in UTC."""
    path = files["rollup"]
    expected = [INSTANTS[number % len(INSTANTS)] for number in range(len(ROWS))]
    micros = [round((time - INSTANTS[0]) / dt.timedelta(microseconds=1)) for time in expected]

    events_only = "epoch_us(event_time), event_time"
    rows = query(path, events_only)[: len(ROWS)]
    assert [row[0] for row in rows] == micros
    assert [row[1] for row in rows] == expected
    assert pq.read_table(path, partitioning=None)["event_time"].to_pylist()[:-1] == expected
    polars = pl.read_parquet(path, glob=False, hive_partitioning=False)
    assert polars["event_time"].to_list()[:-1] == expected
    pandas = pd.read_parquet(path, partitioning=None)["event_time"][:-1]
    assert [time.to_pydatetime() for time in pandas] == expected
    assert str(pandas.dt.tz) == "UTC"


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize("name", ["commit", "rollup"])
def test_commit_times_are_the_same_instant_everywhere(files: dict[str, Path], name: str) -> None:
    """So is the time of the commit, which both kinds of object hold."""
    first = dt.datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=dt.UTC)

    assert query(files[name], "epoch_us(committed_at), committed_at")[0] == (COMMITTED, first)
    assert pq.read_table(files[name], partitioning=None)["committed_at"][0].as_py() == first
    assert pd.read_parquet(files[name], partitioning=None)["committed_at"][0] == first


@pytest.mark.parametrize("name", ["commit", "rollup"])
def test_ids_stay_texts(files: dict[str, Path], name: str) -> None:
    """`007`, `7` and `2024-01-05` are texts in every engine, and different ones."""
    expected = [row.user_id for row in ROWS]
    path = files[name]

    found = [
        [row[0] for row in query(path, "user_id")],
        pq.read_table(path, partitioning=None)["user_id"].to_pylist(),
        pd.read_parquet(path, partitioning=None)["user_id"].tolist(),
        pl.read_parquet(path, glob=False, hive_partitioning=False)["user_id"].to_list(),
    ]
    assert [ids[: len(ROWS)] for ids in found] == [expected] * 4


def test_nul_and_null_survive(files: dict[str, Path]) -> None:
    """A NUL in a text is kept, and what is null is null to all (R041)."""
    path, deltas = files["commit"], [row.state_delta for row in ROWS]

    assert [row[0] for row in query(path, "state_delta")] == deltas
    assert pl.read_parquet(path, glob=False)["state_delta"].to_list() == deltas
    assert pq.read_table(path, partitioning=None)["state_delta"].to_pylist() == deltas


def test_thin_columns_are_queried_without_json(files: dict[str, Path]) -> None:
    """SQL over a rollup needs no JSON for what is lifted out of it."""
    (found,) = query(
        files["rollup"],
        "sum(total_tokens)::bigint, count(*) filter (is_final_response),"
        " max(text), list_distinct(flatten(list(tool_names)))",
    )
    assert found == (2**40 * len(ROWS), 0, "é", ["f"])
