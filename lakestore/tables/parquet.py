"""How tables become Parquet bytes and come back. Owns encodings and the check of what was read."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

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
    writer = GroupWriter(table.schema)
    first = table.num_rows % group_rows
    if first:
        writer.write(table.slice(0, first))
    for start in range(first, table.num_rows, group_rows):
        writer.write(table.slice(start, group_rows))
    return writer.close()


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where one row group is in a file."""

    start: int
    """Bytes before it."""
    length: int
    """Bytes."""
    rows: int


class GroupWriter:
    """Writes large Parquet in memory, one row group a call: zstd, dictionaries, statistics."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", write_page_checksum=True, store_schema=False
        )
        self.groups: list[GroupPlace] = []
        """The row groups that were written."""

    @property
    def nbytes(self) -> int:
        """Bytes so far."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        start = self.nbytes
        self._writer.write_table(table, row_group_size=table.num_rows)
        self.groups.append(GroupPlace(start, self.nbytes - start, table.num_rows))

    def close(self) -> bytes:
        """Write the footer and return the file."""
        self._writer.close()
        body: bytes = self._sink.getvalue().to_pybytes()
        return body


_TAIL = 8  # the length of the footer, then the magic bytes


def footer_size(body: bytes) -> int:
    """Return how many bytes at the end of a Parquet file are its footer, magic bytes included."""
    return int.from_bytes(body[-_TAIL:-4], "little") + _TAIL


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself, without which no part of it can be read."""

    metadata: pq.FileMetaData

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""
        return 4 * int(self.metadata.serialized_size)


def read_footer(footer: bytes) -> Footer:
    """Return what the `footer` of a file says, see `footer_size`.

    Raises:
        FormatError: it is damaged.
    """
    try:
        return Footer(pq.read_metadata(pa.BufferReader(b"PAR1" + footer)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not the footer of a Parquet file. reason={error}") from error


class Pieces(io.RawIOBase):
    """A file of which the footer is known and some ranges are in memory."""

    def __init__(self, size: int, footer: Footer, pieces: Mapping[int, bytes]) -> None:
        """Take the `size` of the file, its footer, and what is in memory of it, by offset."""
        self.footer = footer
        self._size = size
        self._pieces = sorted(pieces.items())
        self._position = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    @override
    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size - self._position if size is None or size < 0 else size
        number = bisect_right(self._pieces, self._position, key=lambda piece: piece[0]) - 1
        start, body = self._pieces[number] if number >= 0 else (0, b"")
        found = body[self._position - start :][:wanted]
        if len(found) < wanted:
            raise OSError("a part of a file is asked for that was not read")
        self._position += len(found)
        return found


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A Parquet file in memory that is sure to have the columns of a schema."""

    file: pq.ParquetFile
    schema: pa.Schema

    @property
    def num_row_groups(self) -> int:
        """How many row groups it has."""
        return int(self.file.num_row_groups)


def open_parquet(body: bytes | Pieces, schema: pa.Schema, refused: Sequence[str] = ()) -> TypedFile:
    """Return the file that `body` holds, of which the columns of `schema` are to be read.

    Raises:
        FormatError: it is not Parquet, or a column is missing or of another type, or one of the
            `refused` is there.
    """
    try:
        known = body.footer.metadata if isinstance(body, Pieces) else None
        source = pa.PythonFile(body, "r") if isinstance(body, Pieces) else pa.BufferReader(body)
        file = pq.ParquetFile(source, metadata=known, page_checksum_verification=True)
        found = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file. reason={error}") from error
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
