"""Where inline bytes stand in the JSON of an event. Owns what can be moved out, and back; no I/O.

Works on the text, of which only what is left without the bytes is parsed: what comes back is the
very text that was there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from lakestore.tables.payloads import Encoding

_DATA = re.compile(r'"data"\s*:\s*"')
_HOLDERS = ("inlineData", "inline_data")


@dataclass(frozen=True, slots=True)
class Inline:
    """A text under `data` of an object under `inlineData` or `inline_data`."""

    path: str
    """JSON pointer to it."""
    text: str
    mime_type: str | None
    display_name: str | None


class InlineTexts:
    """The places in an event's JSON where inline bytes stand, or stood."""

    def __init__(self, event_json: str) -> None:
        """Look for them.

        Raises:
            ValueError: it is no JSON.
            RecursionError: it nests too deep.
        """
        self._between: list[str] = []
        self._texts: list[str] = []
        self._places: dict[str, int] = {}
        self._found: list[Inline] = []
        self._cut(event_json)
        if self._texts:
            # What takes their place can be no other text in it, however that is escaped.
            mark = sha256("".join(self._between).encode(errors="surrogatepass")).hexdigest()
            marks = {f"{mark}/{number}": number for number in range(len(self._texts))}
            self._look(json.loads(self._joined(list(marks))), "", marks)

    def _cut(self, event_json: str) -> None:
        start = 0
        for match in _DATA.finditer(event_json):
            # Inside of a text there are no quotes without a backslash: this is a value.
            end = event_json.find('"', match.end())
            if match.start() < start or end < 0:
                continue
            text = event_json[match.end() : end]
            if "\\" not in text:
                self._between.append(event_json[start : match.end()])
                self._texts.append(text)
                start = end
        self._between.append(event_json[start:])

    def _joined(self, texts: list[str]) -> str:
        pairs = zip(self._between, [*texts, ""], strict=True)
        return "".join(part for pair in pairs for part in pair)

    def _look(self, value: Any, path: str, marks: Mapping[str, int]) -> None:
        waiting: list[tuple[Any, str, bool]] = [(value, path, False)]
        while waiting:
            value, path, is_held = waiting.pop()
            if isinstance(value, dict):
                number = marks.get(value["data"]) if _has_text(value) else None
                if is_held and number is not None:
                    self._note(value, f"{path}/data", number)
                waiting += [
                    (each, f"{path}/{_escaped(name)}", name in _HOLDERS)
                    for name, each in value.items()
                    if isinstance(each, dict | list)
                ]
            elif isinstance(value, list):
                waiting += [
                    (each, f"{path}/{place}", False)
                    for place, each in enumerate(value)
                    if isinstance(each, dict | list)
                ]

    def _note(self, holder: dict[str, Any], path: str, number: int) -> None:
        self._places[path] = number
        mime_type = _text_of(holder, "mimeType", "mime_type")
        display_name = _text_of(holder, "displayName", "display_name")
        self._found.append(Inline(path, self._texts[number], mime_type, display_name))

    def __iter__(self) -> Iterator[Inline]:
        """Yield them in the order of the event."""
        return iter(sorted(self._found, key=lambda one: self._places[one.path]))

    def text_at(self, path: str) -> str | None:
        """Return the text at one of the places, None where it is none."""
        number = self._places.get(path)
        return None if number is None else self._texts[number]

    def with_texts(self, texts: Mapping[str, str]) -> str:
        """Return the event's JSON with other texts at some of the places, by path."""
        whole = list(self._texts)
        for path, text in texts.items():
            whole[self._places[path]] = text
        return self._joined(whole)


def _has_text(value: dict[str, Any]) -> bool:
    return isinstance(value.get("data"), str)


def _text_of(holder: dict[str, Any], *names: str) -> str | None:
    found = (holder.get(name) for name in names)
    return next((each for each in found if isinstance(each, str)), None)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def decoded(text: str, longer_than: int) -> tuple[bytes, Encoding] | None:
    """Return the bytes that a text stands for, and how they are written.

    None if it is not exactly what they are encoded to, or stands for no more than `longer_than`.
    """
    if len(text) % 4 or len(text) * 3 // 4 <= longer_than or not text.isascii():
        return None
    is_url = "-" in text or "_" in text
    if is_url and ("+" in text or "/" in text):
        return None
    encoding: Encoding = "base64url" if is_url else "base64"
    try:
        body = base64.b64decode(text, b"-_" if is_url else None, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Of letters that are all allowed only the last can have bits that stand for nothing.
    end = body[len(body) - (len(body) % 3 or 3) :]
    is_exact = len(body) > longer_than and encoded(end, encoding) == text[-4:]
    return (body, encoding) if is_exact else None


def encoded(body: bytes, encoding: Encoding) -> str:
    """Return the text that stands for some bytes."""
    encode = base64.urlsafe_b64encode if encoding == "base64url" else base64.b64encode
    return encode(body).decode()
