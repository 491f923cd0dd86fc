"""What can be searched, in SQL: each row as `lakestore.search` takes it, under a name of its own.

A row's name tells its content from any other that was ever there in its place: an index is brought
up to date by comparing names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakestore.search.rows import COLUMNS
from lakestore.tables import memory

_TIME = pa.timestamp("us", tz="UTC")
_FOUND = [pa.field("score", pa.float64()), pa.field("snippet", pa.string())]
_SCHEMA = pa.schema([memory.SCHEMA.field(name).with_nullable(True) for name in COLUMNS])


def _texts(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of thing to search."""

    name: str
    query: str
    """Selects `COLUMNS` of rows `WHERE {part}`; `id` is the row's name, as JSON."""
    of_one: tuple[str, ...]
    """Conditions of the parts that are searched for one user, the first first among equals."""
    names: tuple[str, ...]
    """What a row's name holds."""
    answer: pa.Schema
    """What is told of each row that was found."""
    lacks_words: bool
    """Whether words and vectors are not stored."""

    def parts(self, user_id: str | None) -> Sequence[str]:
        """Return the conditions of the parts that are searched, of `$app` and `$user`."""
        return ("app_name = $app",) if user_id is None else self.of_one

    def rows(self, part: str) -> str:
        """Return the query of the rows of a part."""
        return f"{self.query} WHERE {part}"

    def typed(self, table: pa.Table) -> pa.Table:
        """Return rows in the types that indexes take."""
        return table.select(COLUMNS).cast(_SCHEMA)

    def named(self, name: list[Any]) -> dict[str, Any]:
        """Return what the name of a row says of it."""
        found = dict(zip(self.names, name, strict=True))
        return {**found, "scope": "app" if found["user_id"] is None else "user"}


# Equals come session by session, in the order of what was said.
_ORDER = """lpad(greatest(coalesce(epoch_us(event_time), 0), 0)::VARCHAR, 20, '0') || '/'
  || session_id || '/' || user_id || '/' || lpad(version::VARCHAR, 20, '0')"""

_METADATA = """TRY(coalesce(
  json_extract(event_json, '$.customMetadata'), json_extract(event_json, '$.custom_metadata')
))::VARCHAR"""


def _events(metadata: str) -> Source:
    query = f"""SELECT * FROM (
      SELECT json_array(user_id, version, ordinal, token)::VARCHAR AS id, 'add' AS kind,
        {_ORDER} AS stamp, ordinal, NULL AS place, session_id, author, event_time, text,
        []::VARCHAR[] AS words, {metadata} AS custom_metadata, NULL::FLOAT[] AS embedding,
        NULL AS content, event_id, invocation_id, NULL AS tool_call_id,
        user_id AS source_user_id, version, app_name, user_id
      FROM events WHERE text <> ''
    )"""
    answer = pa.schema(
        [
            *_FOUND,
            *_texts("user_id", "session_id"),
            pa.field("version", pa.int64()),
            pa.field("ordinal", pa.int32()),
            *_texts("event_id", "invocation_id", "author"),
            pa.field("event_time", _TIME),
            *_texts("text"),
        ]
    )
    of_one = ("app_name = $app AND user_id = $user",)
    names = ("user_id", "version", "ordinal", "token")
    return Source("events", query, of_one, names, answer, lacks_words=True)


_MEMORY = Source(
    "memory",
    """SELECT * FROM (
      SELECT * REPLACE (
        json_array(user_id, id, stamp, ordinal, place)::VARCHAR AS id, NULL AS content
      ) FROM internal.memory_rows
    )""",
    ("app_name = $app AND user_id = $user", "app_name = $app AND user_id IS NULL"),
    ("user_id", "id", "stamp", "ordinal", "place"),
    pa.schema(
        [
            *_FOUND,
            *_texts("scope", "user_id", "id", "session_id", "source_user_id"),
            *_texts("event_id", "invocation_id", "author"),
            pa.field("event_time", _TIME),
            *_texts("text", "custom_metadata"),
        ]
    ),
    lacks_words=False,
)

SOURCES = {
    ("events", False): _events("NULL"),
    ("events", True): _events(_METADATA),
    ("memory", False): _MEMORY,
    ("memory", True): _MEMORY,
}
"""By name, and by whether custom metadata are asked for, for which the JSON of events is opened."""
