"""The `artifacts` table: versions of files that agents saved. Arrow and Parquet; no I/O, no ADK.

Each commit of an artifact's log holds all of it that is not packed: the versions that live, and
what was committed besides. So of a log nobody reads more than the newest commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Literal, get_args

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.tables.parquet import open_parquet, read_groups, write_small

Kind = Literal["save", "delete", "prune", "name"]

_UTC = pa.timestamp("us", tz="UTC")
_SAVED = [
    pa.field("version", pa.int64(), nullable=False),
    pa.field("token", pa.string(), nullable=False),
    pa.field("committed_at", _UTC, nullable=False),
    pa.field("artifact_version", pa.int64()),
    pa.field("part", pa.string()),
    pa.field("payload", pa.string()),
    pa.field("file_uri", pa.string()),
    pa.field("mime_type", pa.string()),
    pa.field("display_name", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("sha256", pa.string()),
    pa.field("custom_metadata", pa.string()),
]
COMMIT_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("session_id", pa.string()),
        pa.field("filename", pa.string(), nullable=False),
        *_SAVED,
        pa.field("previous", pa.string(), nullable=False),
        pa.field("base", pa.int64(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("named", pa.list_(pa.string()), nullable=False),
    ]
)
"""What a commit holds: rows ascending by `version`, the last of which is the commit's own."""
RUN_SCHEMA = pa.schema(
    [
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("session_id", pa.string()),
        pa.field("filename", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("active_at", _UTC, nullable=False),
        pa.field("saves", pa.list_(pa.struct(_SAVED)), nullable=False),
        pa.field("named", pa.list_(pa.string()), nullable=False),
        pa.field("named_version", pa.int64(), nullable=False),
    ]
)
"""One row an artifact, ascending by `user_id` and `key` (as UTF-8)."""

_COMPRESS_FROM = 16
"""Rows."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One version of an artifact. Its repr shows nothing of people."""

    version: int
    """The number, from 1, of the commit in the artifact's log that saved it."""
    token: str
    """That commit's."""
    committed_at: int
    """The writer's clock in microseconds since 1970 UTC: informative, never orders."""
    artifact_version: int
    """What ADK calls it by: 0, 1, 2 in commit order; from 0 again after a delete."""
    part: str = field(repr=False)
    """ADK's `Part` as JSON by alias, without the bytes or the text that are the payload."""
    payload: str | None = field(default=None, repr=False)
    """The key of the object with its bytes; null where the part only points at something."""
    file_uri: str | None = field(default=None, repr=False)
    """What it points at."""
    mime_type: str | None = field(default=None, repr=False)
    display_name: str | None = field(default=None, repr=False)
    size: int | None = None
    """Bytes of the payload."""
    sha256: str | None = None
    """Of the payload, in hexadecimal."""
    custom_metadata: str | None = field(default=None, repr=False)
    """JSON object, null for none."""


@dataclass(frozen=True, slots=True)
class Named:
    """Payloads of an artifact to which nothing refers, said before they go."""

    version: int
    """The commit that said so."""
    token: str
    committed_at: int
    payloads: tuple[str, ...] = field(repr=False)
    """Their keys; none where nothing was said yet."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one object of an artifact's log says."""

    app_name: str = field(repr=False)
    user_id: str = field(repr=False)
    session_id: str | None = field(repr=False)
    filename: str = field(repr=False)
    version: int
    """Its number, from 1."""
    kind: Kind
    """`save`; `delete`; `prune`: the oldest versions went; `name`: payloads that may go."""
    token: str
    previous: str
    """The token of the commit that the writer saw as the last, empty before the first."""
    committed_at: int
    """The writer's clock in microseconds since 1970 UTC: informative; retention goes by it."""
    base: int
    """The version up to which all that lives is packed, and is not repeated here."""
    first: int
    """What an earlier commit saved does not live any more, whether it is packed or not."""
    saves: tuple[Saved, ...] = ()
    """All that live of those saved above `base`, ascending; of a `save` the last is its own."""
    named: Named | None = None
    """What was named last."""


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """What jobs have packed of one artifact."""

    app_name: str = field(repr=False)
    user_id: str = field(repr=False)
    session_id: str | None = field(repr=False)
    filename: str = field(repr=False)
    version: int
    """The last version that is packed: nothing at or below it is taken from the log."""
    token: str
    """That commit's."""
    active_at: int
    """`committed_at` of that commit."""
    saves: tuple[Saved, ...]
    """All that live, ascending by artifact version; none when it was deleted."""
    named: tuple[str, ...] = field(default=(), repr=False)
    """Payloads that were named last."""
    named_version: int = 0
    """By which commit; 0 for none."""

    @property
    def key(self) -> str:
        """What names it among the artifacts of its user."""
        return place_of(self.session_id, self.filename)


_SAVED_NAMES = tuple(each.name for each in _SAVED)
_COMMIT = pa.struct(list(COMMIT_SCHEMA))
_RUN = pa.struct(list(RUN_SCHEMA))
_IDS = ("app_name", "user_id", "session_id", "filename")
_ITS_OWN = ("version", "token", "committed_at", "previous", "base", "first")
_ids, _saved = attrgetter(*_IDS), attrgetter(*_SAVED_NAMES)
_said = attrgetter("version", "token", "committed_at")
_NOTHING = (None,) * (len(_SAVED_NAMES) - 3)


def place_of(session_id: str | None, filename: str) -> str:
    """Return what names an artifact among those of its user, as JSON without blanks."""
    session = "null" if session_id is None else encode_basestring(session_id)
    return f"[{session},{encode_basestring(filename)}]"


def encode_commit(commit: Commit) -> bytes:
    """Return a commit as Parquet in `COMMIT_SCHEMA`."""
    ids, named = _ids(commit), commit.named
    rest = (commit.previous, commit.base, commit.first)
    rows = [("save", *ids, *_saved(saved), *rest, ()) for saved in commit.saves]
    if named is not None:
        rows.append(("name", *ids, *_said(named), *_NOTHING, *rest, named.payloads))
    if commit.kind in ("delete", "prune"):
        rows.append((commit.kind, *ids, *_said(commit), *_NOTHING, *rest, ()))
    rows.sort(key=lambda row: row[1 + len(ids)])  # by version
    table = pa.Table.from_arrays(pa.array(rows, _COMMIT).flatten(), schema=COMMIT_SCHEMA)
    return write_small(table, compress=len(rows) >= _COMPRESS_FROM)


def decode_commit(body: bytes) -> Commit:
    """Return the commit in `body`.

    Raises:
        FormatError: the bytes are not Parquet in `COMMIT_SCHEMA`, or hold no row, or one of a kind
            that this version does not know.
    """
    table = read_groups(open_parquet(body, COMMIT_SCHEMA))
    kinds = table["kind"].to_pylist()
    unknown = set(kinds).difference(get_args(Kind))
    if unknown:
        raise FormatError(f"rows of a kind that this version does not know. kinds={unknown}")
    columns = {name: _values(table[name]) for name in COMMIT_SCHEMA.names if name != "kind"}
    last = {name: values[-1] for name, values in columns.items()}
    saves = zip(kinds, zip(*(columns[name] for name in _SAVED_NAMES), strict=True), strict=True)
    said = next((row for row, kind in enumerate(kinds) if kind == "name"), None)
    return Commit(
        **{name: last[name] for name in (*_IDS, *_ITS_OWN)},
        kind=kinds[-1],
        saves=tuple(Saved(*values) for kind, values in saves if kind == "save"),
        named=None if said is None else _named(columns, said),
    )


def to_table(rows: Sequence[ArtifactRow]) -> pa.Table:
    """Return `rows` as a table in `RUN_SCHEMA`, in the order given."""
    values = [
        tuple(
            [_saved(saved) for saved in row.saves] if name == "saves" else getattr(row, name)
            for name in RUN_SCHEMA.names
        )
        for row in rows
    ]
    return pa.Table.from_arrays(pa.array(values, _RUN).flatten(), schema=RUN_SCHEMA)


def from_table(table: pa.Table) -> list[ArtifactRow]:
    """Return the rows of a table in `RUN_SCHEMA`, in its order."""
    columns = {name: table[name] for name in RUN_SCHEMA.names if name != "key"}
    values: dict[str, list[Any]] = {
        **{name: _values(column) for name, column in columns.items() if name != "saves"},
        "saves": [each for chunk in columns["saves"].chunks for each in _saves_in(chunk)],
    }
    values["named"] = list(map(tuple, values["named"]))
    return [ArtifactRow(*row) for row in zip(*(values[name] for name in columns), strict=True)]


def _saves_in(lists: pa.ListArray) -> list[tuple[Saved, ...]]:
    columns = [_values(column) for column in lists.flatten().flatten()]
    flat = [Saved(*values) for values in zip(*columns, strict=True)]
    offsets = lists.offsets.to_pylist()
    return [tuple(flat[a - offsets[0] : b - offsets[0]]) for a, b in pairwise(offsets)]


def _named(columns: Mapping[str, list[Any]], row: int) -> Named:
    version, token, when = (columns[name][row] for name in ("version", "token", "committed_at"))
    return Named(version, token, when, tuple(columns["named"][row]))


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, times as microseconds.

    Not by `cast`: it imports pyarrow.compute and pandas, half a second of a new process.
    """
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return list(plain.to_pylist())
