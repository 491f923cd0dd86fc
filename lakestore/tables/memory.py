"""The `memory` table: what agents remember, one row a memory or a forget. No I/O, no ADK."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Literal

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.tables.parquet import open_parquet, read_groups, write_small

Kind = Literal["add", "forget", "swap"]
ENTRY_KINDS = ("add", "forget")
"""What entries, and runs of `memory`, have; `swap` stands in runs of what was put aside."""

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string()),
        pa.field("key", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("stamp", pa.string(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("place", pa.string()),
        pa.field("inserted_at", _TIME, nullable=False),
        pa.field("session_id", pa.string()),
        pa.field("source_user_id", pa.string()),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("extracted", pa.bool_(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("invocation_id", pa.string()),
        pa.field("author", pa.string()),
        pa.field("tool_call_id", pa.string()),
        pa.field("event_time", _TIME),
        pa.field("content", pa.string()),
        pa.field("text", pa.string()),
        pa.field("words", pa.list_(pa.string()), nullable=False),
        pa.field("custom_metadata", pa.string()),
        pa.field("embedding", pa.list_(pa.float32())),
    ]
)
"""What an entry holds, in any order; runs ascending by `user_id` and `key` (as UTF-8)."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One memory as it was added, or that one was forgotten. Its repr shows nothing of people."""

    app_name: str = field(repr=False)
    user_id: str | None = field(repr=False)
    """Null for what all users of the app share."""
    id: str = field(repr=False)
    """Unique in one session of one user; a forget means every memory of that id in its scope."""
    kind: Kind
    """`add`; `forget`, which wins over every add of the id, whenever it comes; `swap`, in whose
    place of the scope (None: of every scope) a rebuild has put others, under its stamp."""
    stamp: str
    """Of the entry; texts compare. Of two adds of one memory the later one's content counts."""
    ordinal: int
    """The row's place in its entry, from 0."""
    place: str | None
    """`place_of` the row that added the memory first, which orders equals; of a forget that of
    the memory it takes away, null where it is not known."""
    inserted_at: int
    """The writer's clock in microseconds since 1970 UTC: informative, never orders."""
    session_id: str | None = field(default=None, repr=False)
    """The session that it came from, null for none; of a forget that of what it takes away."""
    source_user_id: str | None = field(default=None, repr=False)
    """The user of that session; the same as `user_id` in a user's own memory."""
    version: int = 0
    """The last commit of that session that whoever added it knew; 0 where that is not known."""
    extracted: bool = False
    """Whether a rebuild made it, so that the next one replaces it."""
    event_id: str | None = field(default=None, repr=False)
    """The event that it came from, null for none."""
    invocation_id: str | None = field(default=None, repr=False)
    author: str | None = field(default=None, repr=False)
    tool_call_id: str | None = field(default=None, repr=False)
    """The function call that it came from, null for none."""
    event_time: int | None = None
    """When it happened, in microseconds since 1970 UTC; null where that is not known."""
    content: str | None = field(default=None, repr=False)
    """ADK's `Content` as JSON; null in a forget."""
    text: str | None = field(default=None, repr=False)
    """What is searched: see `lakestore.tables.thin.content_text`."""
    words: tuple[str, ...] = field(default=(), repr=False)
    """`lakestore.tables.words.searchable_words` of the text, ascending."""
    custom_metadata: str | None = field(default=None, repr=False)
    """JSON object, null for none."""
    embedding: bytes | None = field(default=None, repr=False)
    """The vector of the text by the embedder of that day, of any length; null for none. As
    `vector` gives it: as objects, numbers would take eight times as much."""

    @property
    def key(self) -> str:
        """What names the row in its scope, as JSON: of a forget the id alone.

        Of an add the id and the session, and its user where all users share the memory. Of a swap
        it is empty, so that it comes first.
        """
        if self.kind == "swap":
            return ""
        if self.kind == "forget":
            return forget_key(self.id)
        if self.session_id is None:
            return f"[{encode_basestring(self.id)},null]"
        names = [self.id, self.session_id]
        if self.user_id is None:
            names.append(self.source_user_id or "")
        return f"[{','.join(map(encode_basestring, names))}]"

    @property
    def ending(self) -> str | None:
        """The key of the forget that would end it; None for what is no add."""
        return forget_key(self.id) if self.kind == "add" else None

    @property
    def is_by_hand(self) -> bool:
        """Whether it is of no event, and no rebuild made it: nobody can make it again."""
        return self.event_id is None and not self.extracted

    @property
    def first_place(self) -> str:
        """Where it stands among all of its scope, by what the row itself says."""
        own = place_of(self.stamp, self.ordinal)
        return own if self.place is None else min(own, self.place)

    @property
    def origins(self) -> tuple[tuple[str, int], ...]:
        """Sessions and their versions of which each, when it was erased, takes the row along.

        The session "" stands for all that was remembered of the user up to a time, in
        microseconds. What a rebuild has made of a session goes by the session alone.
        """
        whole = ("", int(self.stamp[:17]))
        if not (self.session_id and self.version):
            return (whole,)  # of an unknown version it may be of what was begun under that id since
        own = (self.session_id, self.version)
        return (own,) if self.extracted else (whole, own)


def forget_key(memory_id: str) -> str:
    """Return the key of the forget of an id."""
    return f"[{encode_basestring(memory_id)}]"


def merge(one: MemoryRow, other: MemoryRow) -> MemoryRow:
    """Return what two rows of one key come to: the later one, in the place of the earlier."""
    later = max(one, other, key=lambda row: (row.stamp, row.ordinal))
    place = min(one.first_place, other.first_place)
    return later if later.first_place == place else replace(later, place=place)


_NAMES = tuple(field.name for field in fields(MemoryRow))
_TIMES = ("inserted_at", "event_time")
_EMBEDDING = SCHEMA.field("embedding")
_OTHERS = [each for each in SCHEMA if each.name != _EMBEDDING.name]
_ROW = pa.struct(_OTHERS)
_COMPRESS_FROM = 3_072
"""Bytes in memory."""
_FLOAT = 4
"""Bytes."""
_values = attrgetter(*(each.name for each in _OTHERS))


def place_of(stamp: str, ordinal: int) -> str:
    """Return where a row stands among all of its scope; texts compare."""
    return f"{stamp}/{ordinal:010}"


def vector(numbers: Iterable[float]) -> bytes:
    """Return a vector as rows hold it: 32-bit floats, one after the other."""
    return array("f", numbers).tobytes()


def to_table(rows: Sequence[MemoryRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    columns = pa.array([_values(row) for row in rows], _ROW).flatten()
    table = pa.Table.from_arrays(columns, schema=pa.schema(_OTHERS))
    column = _to_lists([row.embedding for row in rows])
    return table.add_column(SCHEMA.names.index(_EMBEDDING.name), _EMBEDDING, column)


def _to_lists(vectors: Sequence[bytes | None]) -> pa.ListArray:
    body, offsets = b"".join(filter(None, vectors)), [0]
    for each in vectors:
        offsets.append(offsets[-1] + len(each or b"") // _FLOAT)
    floats = pa.Array.from_buffers(pa.float32(), offsets[-1], [None, pa.py_buffer(body)])
    # A list is null where its offset is.
    starts = [None if each is None else at for each, at in zip(vectors, offsets, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*starts, offsets[-1]], pa.int32()), floats)


def from_table(table: pa.Table) -> list[MemoryRow]:
    """Return the rows of a table in `SCHEMA`, in its order."""
    columns = {name: table[name] for name in _NAMES}
    for name in _TIMES:  # a view costs nothing; a cast would import pyarrow.compute
        columns[name] = pa.chunked_array(
            [chunk.view(pa.int64()) for chunk in columns[name].chunks], pa.int64()
        )
    embeddings = _from_lists(columns.pop(_EMBEDDING.name))
    lists = {name: column.to_pylist() for name, column in columns.items()}
    lists["words"] = list(map(tuple, lists["words"]))
    lists[_EMBEDDING.name] = embeddings
    return [MemoryRow(*row) for row in zip(*(lists[name] for name in _NAMES), strict=True)]


def _from_lists(column: pa.ChunkedArray) -> list[bytes | None]:
    vectors: list[bytes | None] = []
    for chunk in column.chunks:
        floats = chunk.values
        body = memoryview(floats.buffers()[1] or b"")[_FLOAT * floats.offset :]
        places = pairwise(chunk.offsets.to_pylist())
        for there, (start, end) in zip(chunk.is_valid().to_pylist(), places, strict=True):
            vectors.append(bytes(body[_FLOAT * start : _FLOAT * end]) if there else None)
    return vectors


def encode(rows: Sequence[MemoryRow]) -> bytes:
    """Return an entry: Parquet in `SCHEMA`, rows in the order given."""
    return encode_table(to_table(rows))


def encode_table(table: pa.Table) -> bytes:
    """Return an entry with the rows of a table in `SCHEMA`."""
    return write_small(table, compress=table.nbytes >= _COMPRESS_FROM)


def table_in(body: bytes) -> pa.Table:
    """Return the rows of an entry as a table in `SCHEMA`.

    Raises:
        FormatError: see `decode`.
    """
    table = read_groups(open_parquet(body, SCHEMA))
    unknown = set(table["kind"].to_pylist()).difference(ENTRY_KINDS)
    if unknown:
        raise FormatError(f"rows of a kind that this version does not know. kinds={unknown}")
    return table


def decode(body: bytes) -> list[MemoryRow]:
    """Return the rows of an entry, in their order.

    Raises:
        FormatError: the bytes are not Parquet in `SCHEMA`, or hold no row, or one of a kind that
            this version does not know.
    """
    return from_table(table_in(body))
