"""Between ADK's `MemoryEntry` and rows of memory. Owns what of an entry is refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, cast

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pydantic import ValidationError

from lakestore.adk.convert import json_metadata, reason_of, without_unknown
from lakestore.checks import check_text
from lakestore.errors import InputError
from lakestore.history.recollecting import Source, Taste, of_content
from lakestore.log.ids import check_id
from lakestore.search.index import Hit
from lakestore.tables.memory import MemoryRow
from lakestore.tables.state import refuse_halves

logger = logging.getLogger(__name__)

MemoryScope = Literal["user", "app"]
"""Whose memory: the user's own, or what all users of the app share."""


@dataclass(frozen=True, slots=True)
class MemoryHistory:
    """Where one memory came from, and what became of it."""

    memory_id: str
    scope: MemoryScope
    session_id: str | None = field(repr=False)
    """The session; None for none."""
    event_id: str | None = field(repr=False)
    invocation_id: str | None
    author: str | None = field(repr=False)
    tool_call_id: str | None
    """The function call that it came from, or answers."""
    added: datetime
    """When it was added first, UTC."""
    changed: datetime
    """When it was added last, or forgotten, UTC."""
    forgotten: bool


def entry_of(hit: Hit) -> MemoryEntry:
    """Return what was found as ADK has it."""
    values = hit.values
    micros, metadata = values["event_time"], _parsed(values["custom_metadata"])
    return MemoryEntry(
        id=hit.key[1],
        content=_content(values["content"], values["text"]),
        author=values["author"],
        timestamp=None if micros is None else _time(micros).isoformat(),
        custom_metadata=metadata,
    )


def _content(stored: str, text: str | None) -> types.Content:
    """Return a content as stored, as far as this ADK can read it, or else what is searched of it.

    One that it cannot read takes no others along.
    """
    try:
        return types.Content.model_validate_json(stored)
    except ValidationError as error:
        known = without_unknown(types.Content, _parsed(stored), error)
    if known is not None:
        content, dropped = known
        logger.warning("a memory has fields that this ADK does not know. fields=%r", dropped)
        return content
    logger.warning("a memory cannot be parsed by this ADK and is returned as its text")
    return types.Content(parts=[types.Part(text=text or "")])


def _parsed(stored: str | None) -> dict[str, Any]:
    """Return a JSON object, an empty one for what is none."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def history_of(row: MemoryRow, scope: MemoryScope) -> MemoryHistory:
    """Return what a row says of a memory, or of one that was forgotten."""
    return MemoryHistory(
        row.id,
        scope,
        row.session_id,
        row.event_id,
        row.invocation_id,
        row.author,
        row.tool_call_id,
        _time(int(row.first_place[:17])),
        _time(row.inserted_at),
        row.kind == "forget",
    )


def _time(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def micros_of(timestamp: str | None) -> int | None:
    """Return the time of a memory that is added by hand; one without a zone is in UTC.

    Raises:
        InputError: it is none, or outside of the years 1 to 9999.
    """
    if timestamp is None:
        return None
    try:
        time = datetime.fromisoformat(check_text("timestamp", timestamp))
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InputError(
            "the timestamp of a memory is a time as ISO 8601 has it, such as"
            " 2026-03-10T08:00:00+00:00"
        ) from None
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


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
    content = content_of(entry.content)
    text = taste.text(content.get("parts") or [])
    metadata = {**shared, **(metadata_of(entry.custom_metadata) or {})}
    row = of_content(source, "", content, text, metadata)
    name = memory_id or _digest(row) if entry.id is None else check_id("a memory's id", entry.id)
    author, time = author_of(entry.author), micros_of(entry.timestamp)
    return replace(row, id=name, author=author, event_time=time)


def _digest(row: MemoryRow) -> str:
    said = "\0".join((row.content or "", row.custom_metadata or ""))
    return sha256(said.encode()).hexdigest()[:32]


def check_memories(memories: object) -> list[MemoryEntry]:
    """Return memories that are to be added, as a list.

    Raises:
        InputError: they are none.
    """
    if not isinstance(memories, Sequence):
        raise InputError(f"memories is a list of MemoryEntry. type={type(memories).__name__}")
    for entry in memories:
        if not isinstance(entry, MemoryEntry):
            raise InputError(f"memories are ADK's MemoryEntry. type={type(entry).__name__}")
    return list(memories)


def author_of(given: str | None) -> str | None:
    """Return the author of a memory that is added by hand.

    Raises:
        InputError: it is no text, or one that UTF-8 cannot hold.
    """
    if given is None:
        return None
    try:
        refuse_halves(check_text("author", given))
    except UnicodeError:
        raise InputError("the author of a memory has half a character in it") from None
    return given


def metadata_of(given: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return custom metadata as JSON types.

    Raises:
        InputError: it is no mapping, or holds what JSON cannot.
    """
    return None if given is None else json_metadata(given)


def content_of(content: types.Content) -> dict[str, Any]:
    """Return the content of a memory that is added by hand, as JSON types by alias.

    Raises:
        InputError: it is none, or cannot be written as JSON.
    """
    if not isinstance(content, types.Content):  # pydantic does not check what is assigned
        raise InputError(f"the content of a memory is a Content. type={type(content).__name__}")
    try:
        found = json.loads(
            content.model_dump_json(exclude_none=True, by_alias=True, warnings="error")
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"the content of a memory cannot be written as JSON. {reason_of(error)}"
        ) from None
    return cast(dict[str, Any], found)
