"""The `artifacts` table: versions of files that agents saved. Arrow and Parquet; no I/O, no ADK.

Each commit of an artifact's log holds all of it that is not packed: the versions that live, and
what was committed besides. So of a log nobody reads more than the newest commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAVED_NAMES = tuple(each.name for each in _SAVED)
_COMMIT = pa.struct(list(COMMIT_SCHEMA))
_RUN = pa.struct(list(RUN_SCHEMA))
_IDS = ("app_name", "user_id", "session_id", "filename")
_PLAIN = ("version", "token", "named_version")
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
    rows = read_groups(open_parquet(body, COMMIT_SCHEMA)).to_pylist()
    unknown = {row["kind"] for row in rows}.difference(get_args(Kind))
    if unknown:
        raise FormatError(f"rows of a kind that this version does not know. kinds={unknown}")
    last = rows[-1]
    said = next((row for row in rows if row["kind"] == "name"), None)
    return Commit(
        **{name: last[name] for name in _IDS},
        **{name: last[name] for name in ("version", "kind", "token", "previous", "base", "first")},
        committed_at=_micros(last["committed_at"]),
        saves=tuple(_to_saved(row) for row in rows if row["kind"] == "save"),
        named=None if said is None else _to_named(said),
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
    return [
        ArtifactRow(
            **{name: row[name] for name in (*_IDS, *_PLAIN)},
            active_at=_micros(row["active_at"]),
            saves=tuple(map(_to_saved, row["saves"])),
            named=tuple(row["named"]),
        )
        for row in table.to_pylist()
    ]


def _to_saved(row: dict[str, Any]) -> Saved:
    values = {name: row[name] for name in _SAVED_NAMES}
    return Saved(**{**values, "committed_at": _micros(row["committed_at"])})


def _to_named(row: dict[str, Any]) -> Named:
    return Named(row["version"], row["token"], _micros(row["committed_at"]), tuple(row["named"]))


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
