"""Vectors of memories, compared by DuckDB. Owns their tables, not what they are vectors of.

What a forked process inherits of them it never touches.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from lakestore.catalog.process import let_go
from lakestore.search.index import Scores
from lakestore.search.postings import Numbers
from lakestore.search.rows import Mask


class VectorDatabase:
    """A database in memory with a table for each index of `lakestore.search.hybrid`."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config={"enable_external_access": False})
        self._names = (f"vectors_{number}" for number in itertools.count())
        weakref.finalize(self, let_go, [self._connection], [], os.getpid())

    def table(self) -> VectorTable:
        """Return a new table, which goes with its last reference."""
        return VectorTable(self._connection, next(self._names))

    def close(self) -> None:
        """Free the memory of all tables; whoever uses one then fails."""
        self._connection.close()


class VectorTable:
    """The vectors of the rows of one index: `lakestore.search.hybrid.Vectors`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self._connection = connection.cursor()
        self._name = name
        self._nbytes = 0
        self._connection.execute(f"create table {name} (row integer, embedding float[])")
        weakref.finalize(self, _drop, connection, self._connection, name, os.getpid())

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self._nbytes

    def add(self, first: int, embeddings: pa.Array) -> None:
        """Keep vectors, lists of 32-bit floats or null, of rows from number `first` on."""
        rows = np.arange(first, first + len(embeddings), dtype=np.int32)
        batch = pa.table({"row": rows, "embedding": embeddings})
        self._run(f"insert into {self._name} from given where embedding is not null", batch)
        self._nbytes += embeddings.nbytes

    def cosines(self, vector: Sequence[float], rows: Mask) -> Scores:
        """Return for each row its cosine plus 1; 0 for others than `rows`, and without one.

        There is none between vectors of different lengths, as of two models, or of zeros.
        """
        scores = np.zeros(len(rows))
        if not rows.any():
            return scores
        wanted = "" if rows.all() else "semi join given using (row)"
        query = f"""
            select row, list_cosine_similarity(embedding, $vector::float[]) + 1 as score
            from {self._name} {wanted} where len(embedding) = len($vector)
        """
        given = pa.table({"row": np.flatnonzero(rows).astype(np.int32)})
        self._connection.register("given", given)
        try:
            found = self._connection.sql(query, params={"vector": list(vector)}).to_arrow_table()
        finally:
            self._connection.unregister("given")
        scores[found["row"].to_numpy()] = np.nan_to_num(found["score"].to_numpy())
        return scores

    def renumber(self, numbers: Numbers) -> None:
        """Give rows their new numbers, and drop those that have -1 there."""
        old = np.flatnonzero(numbers >= 0)
        given = pa.table({"row": old.astype(np.int32), "new": numbers[old]})
        self._run(
            f"create or replace table {self._name} as "
            f"select new as row, embedding from {self._name} join given using (row)",
            given,
        )
        (self._nbytes,) = self._connection.execute(
            f"select coalesce(sum(4 * len(embedding)), 0)::bigint from {self._name}"
        ).fetchall()[0]

    def _run(self, statement: str, given: pa.Table) -> None:
        self._connection.register("given", given)
        try:
            self._connection.execute(statement)
        finally:
            self._connection.unregister("given")


def _drop(
    connection: duckdb.DuckDBPyConnection,
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    pid: int,
) -> None:
    if os.getpid() != pid:
        let_go([connection, cursor], [], pid)
        return
    try:
        connection.cursor().execute(f"drop table if exists {name}")
    except duckdb.ConnectionException:
        return  # all are gone already
