"""How tables become Parquet bytes and come back. Owns encodings and the check of what was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakestore.errors import FormatError


def write_small(table: pa.Table, *, compress: bool = False) -> bytes:
    """Return a table of a few rows, lean: no dictionaries, statistics or embedded Arrow schema.

    Encoding is most of the CPU of an append; compressing a few hundred bytes would double it.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd" if compress else "none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def write_large(table: pa.Table, group_rows: int) -> bytes:
    """Return a table of many rows: zstd, dictionaries, statistics.

    All row groups have `group_rows` rows, but for the first, which has what is left over.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        first = table.num_rows % group_rows
        if first:
            writer.write_table(table.slice(0, first))
        for start in range(first, table.num_rows, group_rows):
            writer.write_table(table.slice(start, group_rows))
    body: bytes = sink.getvalue().to_pybytes()
    return body


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A Parquet file in memory that is sure to have the columns of a schema."""

    file: pq.ParquetFile
    schema: pa.Schema

    @property
    def num_row_groups(self) -> int:
        """How many row groups it has."""
        return int(self.file.num_row_groups)


def open_parquet(body: bytes, schema: pa.Schema, refused: Sequence[str] = ()) -> TypedFile:
    """Return the file that `body` holds, of which the columns of `schema` are to be read.

    Raises:
        FormatError: it is not Parquet, or a column is missing or of another type, or one of the
            `refused` is there.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file. bytes={len(body)} reason={error}") from error
    types = dict(zip(found.names, found.types, strict=True))
    for field in schema:
        if types.get(field.name) != field.type:
            raise FormatError(f"a Parquet file lacks a column. column={field.name!r}")
    for name in refused:
        if name in types:
            raise FormatError(f"written by a newer version of lakestore. column={name!r}")
    return TypedFile(file, schema)


def read_groups(typed: TypedFile, groups: Sequence[int] | None = None) -> pa.Table:
    """Return the rows of some row groups, or of all.

    Raises:
        FormatError: there is no row, or a page does not decode.
    """
    wanted = range(typed.num_row_groups) if groups is None else groups
    if not wanted:  # pyarrow 18 fails at that, newer ones return a table
        raise FormatError("a Parquet file holds no row")
    try:
        # One thread: handing a small file to a pool costs five times what decoding it does.
        table = typed.file.read_row_groups(
            list(wanted), columns=typed.schema.names, use_threads=False
        )
        table.validate(full=True)  # texts that are not UTF-8, for one
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"a Parquet file does not decode. reason={error}") from error
    if not table.num_rows:
        raise FormatError("a Parquet file holds no row")
    return table
