"""Memories as a service would store them: rows of the table `memory` made from ADK's events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from google.adk.events import Event

from lakestore.tables.memory import MemoryRow, place_of, vector
from lakestore.tables.thin import content_text, microseconds
from lakestore.tables.words import searchable_words


def stamp(number: int) -> str:
    """Return the stamp with that number; later numbers are later."""
    return f"{number:017}-000000-{number:016x}"


def row_of(
    event: Event,
    number: int,
    session_id: str | None = None,
    *,
    user_id: str | None = "u",
    metadata: dict[str, object] | None = None,
    embedding: Sequence[float] | None = None,
    thoughts: bool = False,
) -> MemoryRow:
    """Return the row of an event that was added by entry `number`."""
    content = event.content.model_dump(mode="json", exclude_none=True) if event.content else {}
    text = content_text(content.get("parts") or [], thoughts=thoughts)
    return MemoryRow(
        app_name="a",
        user_id=user_id,
        id=event.id,
        kind="add",
        stamp=stamp(number),
        ordinal=0,
        place=place_of(stamp(number), 0),
        inserted_at=number,
        session_id=session_id,
        source_user_id=user_id,
        event_id=event.id,
        author=event.author,
        event_time=microseconds(event.timestamp),
        content=json.dumps(content, ensure_ascii=False),
        text=text,
        words=tuple(sorted(searchable_words(text or ""))),
        custom_metadata=None if metadata is None else json.dumps(metadata),
        embedding=None if embedding is None else vector(embedding),
    )


def rows_of(
    events: Iterable[tuple[str | None, Event]], first: int = 1, *, thoughts: bool = False
) -> list[MemoryRow]:
    """Return the rows of events, each with its session, that were added one by one."""
    return [
        row_of(event, number, session_id, thoughts=thoughts)
        for number, (session_id, event) in enumerate(events, first)
    ]


def forget(row: MemoryRow, number: int) -> MemoryRow:
    """Return the row by which entry `number` forgets what `row` added."""
    return MemoryRow(
        app_name=row.app_name,
        user_id=row.user_id,
        id=row.id,
        kind="forget",
        stamp=stamp(number),
        ordinal=0,
        place=row.place,
        inserted_at=number,
        session_id=row.session_id,
        source_user_id=row.source_user_id,
    )
