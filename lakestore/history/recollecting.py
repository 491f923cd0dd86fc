"""From events, as JSON, to rows of memory. Owns what of an event is remembered; no I/O, no ADK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakestore.log.keys import Scope
from lakestore.log.stamps import stamp_text
from lakestore.search.rows import Rows
from lakestore.tables.memory import MemoryRow
from lakestore.tables.state import to_json, to_utf8
from lakestore.tables.thin import content_text, field, microseconds
from lakestore.tables.words import searchable_words

NEVER = stamp_text(0, 0, "0" * 16)
"""The stamp of what is not added yet."""
_KEPT = (
    *("source_user_id", "version", "event_id", "invocation_id"),
    *("author", "tool_call_id", "event_time"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where memories come from, and whose they are to be."""

    app_name: str
    user_id: str | None
    """Whose memory it is; None for what all users of the app share."""
    source_user_id: str
    session_id: str | None = None
    version: int = 0
    """The last commit of the session that is known; 0 for none."""
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Taste:
    """What of a content is searched, besides what was said."""

    thoughts: bool = False
    """The model's thoughts."""
    tools: bool = False
    """Names, arguments and results of tools."""

    def text(self, parts: list[dict[str, Any]]) -> str | None:
        """Return the text that is searched, None where there is none."""
        found = content_text(parts, thoughts=self.thoughts)
        if not self.tools:
            return found
        called = [text for part in parts for text in _tool_texts(part)]
        return "\n".join([*([found] if found is not None else []), *called]) or found


def of_event(
    source: Source, event: Mapping[str, Any], taste: Taste, **more: Any
) -> MemoryRow | None:
    """Return what is remembered of an event, as ADK writes it by alias; None without text or id.

    It has neither stamp nor time yet. `more` are other fields of the row.
    """
    content = field(event, "content")
    parts = [part for part in field(content, "parts") or () if isinstance(part, dict)]
    text = taste.text(parts)
    if text is None:
        return None
    event_id = _text(field(event, "id"))
    if event_id is None:
        return None
    return of_content(
        source,
        event_id,
        content,
        text,
        source.metadata,
        event_id=event_id,
        invocation_id=_text(field(event, "invocation_id")),
        author=_text(field(event, "author")),
        tool_call_id=_call_in(parts),
        event_time=microseconds(field(event, "timestamp")),
        **more,
    )


def of_content(
    source: Source,
    memory_id: str,
    content: Mapping[str, Any],
    text: str | None,
    metadata: Mapping[str, Any] | None,
    place: str | None = None,
    **more: Any,
) -> MemoryRow:
    """Return a row with a content as ADK writes it, and the text that is searched of it."""
    return MemoryRow(
        app_name=source.app_name,
        user_id=source.user_id,
        id=memory_id,
        kind="add",
        stamp=NEVER,
        ordinal=0,
        place=place,
        inserted_at=0,
        session_id=source.session_id,
        source_user_id=source.source_user_id,
        version=source.version,
        content=to_json(content),
        text=text,
        words=tuple(sorted(searchable_words(text or ""))),
        custom_metadata=to_json(metadata) if metadata else None,
        **more,
    )


def forget_of(scope: Scope, rows: Rows, number: int) -> MemoryRow:
    """Return the row that forgets a memory: all that it is known by, without what it says.

    It has neither stamp nor time yet.
    """
    session_id, memory_id = rows.keys[number]
    known = rows.shown(number)
    return MemoryRow(
        app_name=scope.app_name,
        user_id=scope.user_id,
        id=memory_id,
        kind="forget",
        stamp=NEVER,
        ordinal=0,
        place=rows.place(number),
        inserted_at=0,
        session_id=session_id,
        **{name: known[name] for name in _KEPT},
    )


def _text(value: object) -> str | None:
    return to_utf8(value) if isinstance(value, str) and value else None


def _call_in(parts: list[dict[str, Any]]) -> str | None:
    """Return the id of the first function call, or answer to one, among `parts`."""
    for part in parts:
        for name in ("function_call", "function_response"):
            call = field(part, name)
            found = None if call is None else field(call, "id")
            if isinstance(found, str):
                return to_utf8(found)
    return None


def _tool_texts(part: dict[str, Any]) -> list[str]:
    texts = []
    for name, said in (("function_call", "args"), ("function_response", "response")):
        call = field(part, name)
        if isinstance(call, dict):
            value = field(call, said)
            told = "" if value is None else json.dumps(value, ensure_ascii=False)
            texts.append(to_utf8(f"{field(call, 'name') or ''} {told}".strip()))
    return texts
