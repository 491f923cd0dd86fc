"""A session as a conversation that people read: who said what, when, and what it changed.

Works on the stored JSON of events, not on ADK's classes: it starts fast, and an event that a newer
ADK wrote shows what is known of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from lakestore.shell.text import byte_size, clip, plural, visible, width, wrap
from lakestore.tables.thin import field

JsonObject = Mapping[str, Any]

LOST = "lakestore:lost"
"""Under this an object with inline bytes has how many they were, where they cannot be had."""
_SHORTENED = 240
"""Letters of a tool's arguments or answer that are shown unless all are asked for."""
_WIDEST_AUTHOR = 20


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session and its events, ready to print."""

    app_name: str
    user_id: str
    session_id: str
    events: Sequence[JsonObject]
    """Stored events in commit order."""
    state: JsonObject
    """The session's state now, shared keys with their prefixes."""
    files: Mapping[str, str]
    """By name its artifacts, and those of its user: how many versions, and how large the last."""


def conversation_lines(talk: Conversation, room: int, *, full: bool = False) -> Iterator[str]:
    """Yield a session as lines of at most `room` columns.

    With `full`, arguments and answers of tools are never shortened.
    """
    yield from _heading(talk)
    authors = [visible(_author(event)) for event in talk.events]
    column = min(max(map(width, authors), default=0), _WIDEST_AUTHOR)
    turns = _turn_numbers(talk.events)
    last_turn, last_day = 0, ""
    for event, author in zip(talk.events, authors, strict=True):
        turn, (day, clock) = turns[_invocation(event)], _when(event)
        if turn != last_turn or day != last_day:
            yield ""
            yield click.style(f"── turn {turn} ── {day} ".ljust(room, "─")[:room], dim=True)
            last_turn, last_day = turn, day
        yield from _event(event, clock, clip(author, column), column, room, full, turns)
    yield from _closing("state now", {key: _json(talk.state[key]) for key in talk.state}, room)
    yield from _closing("artifacts now", talk.files, room)


def _heading(talk: Conversation) -> Iterator[str]:
    counts = (field(field(event, "usage_metadata"), "total_token_count") for event in talk.events)
    tokens = sum(count for count in counts if isinstance(count, int))
    turns = len(_turn_numbers(talk.events))
    name = click.style(visible(talk.session_id), bold=True)
    yield f"{name}  app {visible(talk.app_name)}  user {visible(talk.user_id)}"
    yield f"{plural(len(talk.events), 'event')}, {plural(turns, 'turn')}, {plural(tokens, 'token')}"


def _closing(heading: str, told: Mapping[str, str], room: int) -> Iterator[str]:
    if not told:
        return
    yield ""
    yield click.style(f"── {heading} ".ljust(room, "─")[:room], dim=True)
    column = min(max(width(visible(key)) for key in told), room // 2)
    for key in sorted(told):
        name = clip(visible(key), column)
        blanks = " " * (column - width(name) + 2)
        yield name + blanks + clip(visible(told[key]), max(room - column - 2, 1))


def _event(
    event: JsonObject,
    clock: str,
    author: str,
    column: int,
    room: int,
    full: bool,
    turns: Mapping[str, int],
) -> Iterator[str]:
    margin = len(clock) + column + 4
    start = f"{clock}  {click.style(author, bold=True)}{' ' * (column - width(author))}  "
    for paragraph, style in _paragraphs(event, full, turns):
        for line in wrap(paragraph, max(room - margin, 20)):
            yield (start + (click.style(line, **style) if style else line)).rstrip()
            start = " " * margin


_Styled = tuple[str, dict[str, Any]]
_PLAIN: dict[str, Any] = {}
_TOOL: dict[str, Any] = {"fg": "cyan"}
_STATE: dict[str, Any] = {"dim": True}
_ERROR: dict[str, Any] = {"fg": "red"}


def _paragraphs(event: JsonObject, full: bool, turns: Mapping[str, int]) -> Iterator[_Styled]:
    before = 0
    for part in _list(field(field(event, "content"), "parts")):
        for styled in _part(_object(part), full):
            before += 1
            yield styled
    if field(event, "error_code") or field(event, "error_message"):
        before += 1
        words = [field(event, "error_code"), field(event, "error_message")]
        yield "✗ " + ": ".join(str(word) for word in words if word), _ERROR
    for line in _action_lines(_object(field(event, "actions")), full, turns):
        before += 1
        yield line, _STATE
    if not before:
        yield "(nothing to show)", _STATE


def _part(part: JsonObject, full: bool) -> Iterator[_Styled]:
    if field(part, "text"):
        yield f"{'(thinks) ' if field(part, 'thought') else ''}{field(part, 'text')}", _PLAIN
    if call := _object(field(part, "function_call")):
        args = ", ".join(f"{key}={_json(arg)}" for key, arg in _object(field(call, "args")).items())
        yield _shorten(f"→ {field(call, 'name')}({args})", full), _TOOL
    if answer := _object(field(part, "function_response")):
        failed = "error" in _object(field(answer, "response"))
        text = (
            f"{'✗' if failed else '←'} {field(answer, 'name')}: {_json(field(answer, 'response'))}"
        )
        yield _shorten(text, full), _ERROR if failed else _TOOL
        for each in _list(field(answer, "parts")):
            yield from _attachments(_object(each))
    if code := _object(field(part, "executable_code")):
        yield f"[code] {field(code, 'code')}", _PLAIN
    if result := _object(field(part, "code_execution_result")):
        yield f"[ran] {field(result, 'output')}", _PLAIN
    yield from _attachments(part)


def _attachments(part: JsonObject) -> Iterator[_Styled]:
    if blob := _object(field(part, "inline_data")):
        yield f"[{field(blob, 'mime_type') or 'data'}, {_size(blob)}]", _PLAIN
    if file := _object(field(part, "file_data")):
        yield f"[{field(file, 'mime_type') or 'file'}, {field(file, 'file_uri')}]", _PLAIN


def _size(blob: JsonObject) -> str:
    if LOST in blob:
        return f"{byte_size(blob[LOST])}, lost"
    # Base64 writes three bytes as four letters, and fills up the last four.
    return byte_size(len(str(field(blob, "data") or "").rstrip("=")) * 3 // 4)


def _action_lines(actions: JsonObject, full: bool, turns: Mapping[str, int]) -> Iterator[str]:
    for key, value in _object(field(actions, "state_delta")).items():
        yield _shorten(f"state {key} = {_json(value)}", full)
    for name, version in _object(field(actions, "artifact_delta")).items():
        yield f"artifact {name}, version {version}"
    if agent := field(actions, "transfer_to_agent"):
        yield f"hands over to {agent}"
    if field(actions, "escalate"):
        yield "escalates"
    if invocation := field(actions, "rewind_before_invocation_id"):
        turn = turns.get(str(invocation))
        yield f"rewinds to before {f'turn {turn}' if turn else invocation}"
    if compaction := _object(field(actions, "compaction")):
        parts = _list(field(field(compaction, "compacted_content"), "parts"))
        texts = [str(field(part, "text") or "") for part in parts]
        yield _shorten(f"sums up what was said: {' '.join(texts)}", full)


def _turn_numbers(events: Iterable[JsonObject]) -> dict[str, int]:
    turns: dict[str, int] = {}
    for event in events:
        turns.setdefault(_invocation(event), len(turns) + 1)
    return turns


def _invocation(event: JsonObject) -> str:
    return str(field(event, "invocation_id"))


def _object(value: object) -> JsonObject:
    # What a newer ADK writes may have other types; it is then left out, as in the thin columns.
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _author(event: JsonObject) -> str:
    return str(field(event, "author") or "?")


def _when(event: JsonObject) -> tuple[str, str]:
    try:
        moment = datetime.fromtimestamp(event["timestamp"], UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return "at an unknown time", "--:--:--"
    return moment.strftime("%Y-%m-%d UTC"), moment.strftime("%H:%M:%S")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shorten(text: str, full: bool) -> str:
    return text if full else clip(text, _SHORTENED)
