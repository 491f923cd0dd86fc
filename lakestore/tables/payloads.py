"""Bytes that were moved out of events, as rows refer to them. Arrow; no I/O, no JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import pyarrow as pa

Encoding = Literal["base64", "base64url"]

PAYLOADS = pa.list_(
    pa.struct(
        [
            pa.field("path", pa.string(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("sha256", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("mime_type", pa.string()),
            pa.field("encoding", pa.string(), nullable=False),
        ]
    )
)
"""Of an event: null where nothing was moved out of it."""

CONTENTS = pa.list_(
    pa.struct(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("sha256", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
        ]
    )
)
"""Of a session: null where its rows refer to nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Content:
    """One object with bytes of a session's events."""

    key: str = field(repr=False)
    """Where it is."""
    sha256: str
    """Of the bytes, in hexadecimal."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of one event that are stored beside it, where its JSON has an empty text."""

    path: str = field(repr=False)
    """JSON pointer (RFC 6901) to that text in the event."""
    key: str = field(repr=False)
    """Where the bytes are."""
    sha256: str
    """Of the bytes, in hexadecimal."""
    size: int
    """Bytes."""
    mime_type: str | None
    """As the event names it."""
    encoding: Encoding
    """How the bytes were written as the text that they are put back as."""

    @property
    def content(self) -> Content:
        """The object that it refers to."""
        return Content(self.key, self.sha256, self.size)


_payload = attrgetter("path", "key", "sha256", "size", "mime_type", "encoding")
_content = attrgetter("key", "sha256", "size")


def payload_array(rows: Iterable[Sequence[Payload]]) -> pa.Array:
    """Return the payloads of each row as a column."""
    return pa.array([[_payload(one) for one in some] or None for some in rows], PAYLOADS)


def content_lists(rows: Iterable[Sequence[Content]]) -> list[list[tuple[str, str, int]] | None]:
    """Return the contents of each row as values of a column."""
    return [[_content(one) for one in some] or None for some in rows]


def payloads_in(values: Sequence[dict[str, Any]] | None) -> tuple[Payload, ...]:
    """Return the payloads of one row, from the values of its column."""
    return tuple(Payload(**each) for each in values or ())


def contents_in(values: Sequence[dict[str, Any]] | None) -> tuple[Content, ...]:
    """Return the contents of one row, from the values of its column."""
    return tuple(Content(**each) for each in values or ())


def contents_of(payloads: Iterable[Payload], *known: Sequence[Content]) -> tuple[Content, ...]:
    """Return each object once that some payloads, or the lists that are `known`, refer to."""
    found = {one for some in known for one in some}
    found.update(payload.content for payload in payloads)
    return tuple(sorted(found))
