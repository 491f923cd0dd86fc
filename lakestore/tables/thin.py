"""The thin columns of `events`: pure functions of the stored JSON, worth querying without it.

Owns which there are and how each follows from the event as ADK 2.13 writes it. A later version may
add some without rewriting history.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakestore.tables.state import to_utf8

THIN_FIELDS = [
    pa.field("event_id", pa.string()),
    pa.field("invocation_id", pa.string()),
    pa.field("author", pa.string()),
    pa.field("branch", pa.string()),
    pa.field("event_time", pa.timestamp("us", tz="UTC")),
    pa.field("text", pa.string()),
    pa.field("model_version", pa.string()),
    pa.field("finish_reason", pa.string()),
    pa.field("error_code", pa.string()),
    pa.field("error_message", pa.string()),
    pa.field("prompt_tokens", pa.int64()),
    pa.field("output_tokens", pa.int64()),
    pa.field("thought_tokens", pa.int64()),
    pa.field("cached_tokens", pa.int64()),
    pa.field("total_tokens", pa.int64()),
    pa.field("tool_names", pa.list_(pa.string())),
    pa.field("is_final_response", pa.bool_()),
    pa.field("is_compaction", pa.bool_()),
    pa.field("is_rewind", pa.bool_()),
]
"""Names and types, in the order of `SCHEMA`."""

_LAST_MICROSECOND = 253_402_300_799_999_999  # 9999-12-31: what pandas, Python and DuckDB all hold
_FIRST_MICROSECOND = -62_135_596_800_000_000


class HasJson(Protocol):
    """What a thin column follows from."""

    @property
    def event_json(self) -> str | None:
        """The whole event, null for other kinds."""


def thin_columns(rows: Sequence[HasJson]) -> list[list[Any]]:
    """Return one list of values a thin column, in the order of `THIN_FIELDS` and `rows`."""
    values = [_NO_EVENT if row.event_json is None else thin(row.event_json) for row in rows]
    return [list(column) for column in zip(*values, strict=True)] or [[] for _ in THIN_FIELDS]


_NO_EVENT: tuple[Any, ...] = (None,) * len(THIN_FIELDS)


def thin(event_json: str) -> tuple[Any, ...]:
    """Return the thin values of one event, in the order of `THIN_FIELDS`.

    A field of an unexpected type counts as missing: newer versions of ADK may change it. An event
    that is damaged has none.
    """
    try:
        event = _object(json.loads(event_json))
    except (ValueError, RecursionError):
        return _NO_EVENT
    parts = [_object(part) for part in _list(field(field(event, "content"), "parts"))]
    usage, actions = field(event, "usage_metadata"), field(event, "actions")
    return (
        _text(field(event, "id")),
        _text(field(event, "invocation_id")),
        _text(field(event, "author")),
        _text(field(event, "branch")),
        microseconds(field(event, "timestamp")),
        content_text(parts),
        _text(field(event, "model_version")),
        _text(field(event, "finish_reason")),
        _text(field(event, "error_code")),
        _text(field(event, "error_message")),
        _count(field(usage, "prompt_token_count")),
        _count(field(usage, "candidates_token_count")),
        _count(field(usage, "thoughts_token_count")),
        _count(field(usage, "cached_content_token_count")),
        _count(field(usage, "total_token_count")),
        [name for p in parts if (name := _text(field(field(p, "function_call"), "name")))],
        is_final_response(event, parts),
        field(actions, "compaction") is not None,
        field(actions, "rewind_before_invocation_id") is not None,
    )


def field(value: object, name: str) -> Any:
    """Return a field of an ADK object in JSON, None when it is missing or `value` no object.

    ADK's fields stand in JSON by alias (`usageMetadata`), as they are stored, or by `name`
    (`usage_metadata`), as others may have written them; ADK itself reads both.
    """
    if not isinstance(value, dict):
        return None
    found = value.get(_ALIASES[name])
    return value.get(name) if found is None else found


class _Aliases(dict[str, str]):
    """The alias of each name, spelled once."""

    def __missing__(self, name: str) -> str:
        first, *rest = name.split("_")
        return self.setdefault(name, first + "".join(word.capitalize() for word in rest))


_ALIASES = _Aliases()


def content_text(parts: Sequence[dict[str, Any]], *, thoughts: bool = False) -> str | None:
    """Return the text parts, joined by newlines; None when there are none.

    Args:
        parts: Of a content, as ADK writes it.
        thoughts: Whether those count that are the model's thoughts.
    """
    spoken = (part for part in parts if thoughts or not field(part, "thought"))
    texts = [text for part in spoken if (text := _text(field(part, "text"))) is not None]
    return "\n".join(texts) if texts else None


def is_final_response(event: dict[str, Any], parts: Sequence[dict[str, Any]]) -> bool:
    """Tell whether the event ends a turn, by the rule of ADK's `Event.is_final_response`."""
    if field(field(event, "actions"), "skip_summarization"):
        return True
    if field(event, "long_running_tool_ids"):
        return True
    partial = field(event, "partial")
    calls = any(field(part, "function_call") is not None for part in parts)
    if field(event, "error_code") and not partial and not calls:
        return True
    responses = any(field(part, "function_response") is not None for part in parts)
    trailing = bool(parts) and field(parts[-1], "code_execution_result") is not None
    return not (calls or responses or partial or trailing)


def microseconds(timestamp: object) -> int | None:
    """Return seconds since 1970 UTC as whole microseconds, None outside the years 1 to 9999."""
    if not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        return None
    # NaN compares as false, so it is left out too.
    if not _FIRST_MICROSECOND <= timestamp * 1_000_000 <= _LAST_MICROSECOND:
        return None
    return round(timestamp * 1_000_000)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return to_utf8(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -(2**63) <= value < 2**63 else None
