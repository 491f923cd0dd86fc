"""DuckDB reads objects where they lie: by ranges, from many threads, and never writes one."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestore.storage import CountingStore, MemoryStore, Metrics
from lakestore.storage.files import StoreFiles
from lakestore.storage.range_file import Known, RangeFile, Unread

KEY = "packs/app=a/events/1.parquet"
ROWS = 200_000
GROUP_ROWS = 5_000


@pytest.fixture
def metrics() -> Metrics:
    """Return what counts the store's requests."""
    return Metrics()


@pytest.fixture
def store(metrics: Metrics) -> CountingStore:
    """Return a store with one Parquet object of many row groups."""
    table = pa.table({"n": range(ROWS), "text": [f"text {n}" for n in range(ROWS)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=GROUP_ROWS)
    memory = MemoryStore()
    memory.put_if_absent(KEY, sink.getvalue())
    return CountingStore(memory, metrics)


@pytest.fixture
def connection(store: CountingStore) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield DuckDB with eight threads that can read the store."""
    with duckdb.connect(config={"threads": 8}) as connection:
        connection.register_filesystem(StoreFiles(store))
        yield connection


@contextmanager
def pressure() -> Iterator[None]:
    """Let threads take turns as often as Python can, with others that always want one."""
    before, over = sys.getswitchinterval(), Event()

    def spin() -> None:
        while not over.is_set():
            sum(range(50))

    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(spin)
        try:
            yield
        finally:
            over.set()
            sys.setswitchinterval(before)


def test_sql_reads_an_object_by_its_key(connection: duckdb.DuckDBPyConnection) -> None:
    """A lake's object is a file of DuckDB's, under `lakestore://<key>`."""
    query = "SELECT count(*), sum(n), count(DISTINCT text) FROM read_parquet(?)"
    found = connection.execute(query, [[f"lakestore://{KEY}"]]).fetchall()
    assert found == [(ROWS, ROWS * (ROWS - 1) // 2, ROWS)]


def test_a_point_look_up_reads_little(
    connection: duckdb.DuckDBPyConnection, store: CountingStore, metrics: Metrics
) -> None:
    """Only the footer and what a query needs of the row groups it needs is read."""
    query = "SELECT text FROM read_parquet(?) WHERE n = 31_000"
    found = connection.execute(query, [[f"lakestore://{KEY}"]]).fetchall()
    assert found == [("text 31000",)]
    assert metrics.bytes_read < store.size(KEY) / 5
    assert metrics.requests["HEAD"] == 2  # one is this test's


def test_lists_are_not_read_again_and_again(metrics: Metrics) -> None:
    """DuckDB reads a million bytes for each list; of small row groups each byte is fetched once."""
    texts = [f"{n * 2_654_435_761 % 2**64:x}" * 20 for n in range(40_000)]
    table = pa.table({"text": texts, "list": [[text[:3]] for text in texts]})
    sink, memory = io.BytesIO(), MemoryStore()
    pq.write_table(table, sink, row_group_size=1_000, use_dictionary=False, compression="none")
    memory.put_if_absent(KEY, sink.getvalue())
    with duckdb.connect(config={"threads": 4}) as connection:
        connection.register_filesystem(StoreFiles(CountingStore(memory, metrics)))
        query = "SELECT sum(len(list)), max(list[1]), min(list[1]) FROM read_parquet(?)"
        found = connection.execute(query, [[f"lakestore://{KEY}"]]).fetchall()
    firsts = [text[:3] for text in texts]
    assert found == [(40_000, max(firsts), min(firsts))]
    assert metrics.bytes_read < 1.3 * memory.size(KEY)


def test_threads_never_disturb_each_other(connection: duckdb.DuckDBPyConnection) -> None:
    """Queries in eight threads, which switch all the time, are all right.

    With one position for all threads about one query in six fails here.
    """
    query = "SELECT sum(n), sum(length(text)) FROM read_parquet(?)"
    wanted = [(ROWS * (ROWS - 1) // 2, sum(len(f"text {n}") for n in range(ROWS)))]
    with pressure():
        for _ in range(25):
            found = connection.execute(query, [[f"lakestore://{KEY}"]]).fetchall()
            assert found == wanted


def test_one_file_has_a_position_for_each_thread(store: CountingStore) -> None:
    """What one thread seeks moves nobody else."""
    whole = store.get(KEY)
    file = RangeFile(store, Known(KEY, len(whole)), Unread())

    def read(start: int) -> bool:
        file.seek(start)
        return all(file.read(7) == whole[at : at + 7] for at in range(start, start + 700, 7))

    with pressure(), ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(0, 40_000, 1_000)))


def test_what_is_known_anew_is_read_anew() -> None:
    """A footer that DuckDB has kept is that of the object as it was known last."""
    store, query = (
        MemoryStore(),
        f"SELECT * FROM read_parquet('lakestore://{KEY}', hive_partitioning = false)",
    )
    files = StoreFiles(store)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register_filesystem(files)
        connection.execute("SET parquet_metadata_cache = true")
        for table in (pa.table({"n": [1]}), pa.table({"n": [2, 3], "text": ["a", "b"]})):
            sink = io.BytesIO()
            pq.write_table(table, sink)
            store.delete(KEY)
            store.put_if_absent(KEY, sink.getvalue())
            files.know(KEY, len(sink.getvalue()))
            assert connection.sql(query).to_arrow_table() == table


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'lakestore://packs/new.parquet'",
        "COPY (SELECT 1) TO 'lakestore://packs/app=a/events/1.parquet'",
        "COPY (SELECT 1 AS a) TO 'lakestore://packs/parts' (PARTITION_BY a)",
        "ATTACH 'lakestore://packs/new.duckdb'",
    ],
)
def test_sql_never_writes_an_object(
    connection: duckdb.DuckDBPyConnection, store: CountingStore, statement: str
) -> None:
    """No statement creates, changes or removes an object of the lake."""
    before = {stored.key: store.get(stored.key) for stored in store.list("")}
    with pytest.raises((duckdb.Error, PermissionError, OSError)):
        connection.execute(statement)
    assert {stored.key: store.get(stored.key) for stored in store.list("")} == before


def test_a_missing_object_is_named(connection: duckdb.DuckDBPyConnection) -> None:
    """A query over an object that is gone says which."""
    with pytest.raises((duckdb.Error, FileNotFoundError), match=r"packs/gone\.parquet"):
        connection.execute("FROM read_parquet('lakestore://packs/gone.parquet')")


def test_any_reader_of_files_can_read_one(store: CountingStore) -> None:
    """pyarrow, and all that take fsspec's file systems, read objects through it too."""
    files = StoreFiles(store)
    with files.open(f"lakestore://{KEY}") as file:
        assert pq.ParquetFile(file).metadata.num_rows == ROWS
    assert files.ls("packs/app=a", detail=False) == [KEY]
    assert files.cat_file(KEY) == store.get(KEY)
    for path in ("x", KEY):
        with pytest.raises(PermissionError):
            files.pipe_file(path, b"x")
        with pytest.raises(PermissionError):
            files.rm(path)
