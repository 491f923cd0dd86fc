"""Between ADK's `MemoryEntry` and rows of memory. Owns what is refused of an entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, cast

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from lakestore.adk.convert import json_metadata
from lakestore.checks import check_text
from lakestore.errors import InputError
from lakestore.history.recollecting import Source, Taste, of_content
from lakestore.log.keys import check_id
from lakestore.search.index import Hit
from lakestore.tables.memory import MemoryRow
from lakestore.tables.state import to_utf8

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def entry_of(hit: Hit) -> MemoryEntry:
    """Return what a search has found as ADK's entry, its time in UTC."""
    values = hit.values
    metadata, micros = values["custom_metadata"], values["event_time"]
    return MemoryEntry(
        id=hit.key[1],
        content=types.Content.model_validate_json(values["content"]),
        author=values["author"],
        timestamp=None if micros is None else time_of(micros).isoformat(),
        custom_metadata={} if metadata is None else json.loads(metadata),
    )


def row_of(
    source: Source,
    entry: MemoryEntry,
    memory_id: str | None,
    shared: Mapping[str, Any],
    taste: Taste,
) -> MemoryRow:
    """Return the row of an entry; it has neither stamp nor time yet.

    Args:
        source: Where it comes from, and whose it is to be.
        entry: What is to be remembered.
        memory_id: What names it if the entry has no id; None: a digest of what it says.
        shared: Metadata for what the entry's own lacks.
        taste: What of it is searched.

    Raises:
        InputError: something of it cannot be stored.
    """
    if not isinstance(entry, MemoryEntry):
        raise InputError(f"memories are ADK's MemoryEntry. type={type(entry).__name__}")
    content = _json_content(entry.content)
    text = taste.text(content.get("parts") or [])
    metadata = {**shared, **json_metadata(entry.custom_metadata)}
    row = of_content(source, "", content, text, metadata)
    if entry.id is not None:
        name = check_id("a memory's id", entry.id)
    else:
        name = memory_id or _digest(row)
    author = None if entry.author is None else to_utf8(check_text("author", entry.author))
    return replace(row, id=name, author=author, event_time=_micros(entry.timestamp))


def _digest(row: MemoryRow) -> str:
    said = "\0".join((row.content or "", row.custom_metadata or ""))
    return sha256(said.encode()).hexdigest()[:32]


def time_of(micros: int) -> datetime:
    """Return microseconds since 1970 as a time in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def _micros(timestamp: str | None) -> int | None:
    """Return the time of a memory that is added by hand; one without a zone is in UTC."""
    if timestamp is None:
        return None
    try:
        time = datetime.fromisoformat(check_text("timestamp", timestamp))
    except ValueError:
        raise InputError(
            "the timestamp of a memory is a time as ISO 8601 has it, such as"
            " 2026-03-10T08:00:00+00:00"
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)


def _json_content(content: types.Content) -> dict[str, Any]:
    try:
        found = json.loads(
            content.model_dump_json(exclude_none=True, by_alias=True, warnings="error")
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the content of a memory cannot be written as JSON: {error}") from None
    return cast(dict[str, Any], found)
