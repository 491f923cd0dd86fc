"""Bytes beside events, put back where rows are read. Owns what is fetched, and what is missing.

How they come there is `lakestore.history.moving`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar

from lakestore.errors import NotFoundError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.inline import InlineTexts, encoded
from lakestore.tables.payloads import Content

logger = logging.getLogger(__name__)

R = TypeVar("R")

_BYTES_AT_ONCE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Body:
    """What is stored under a key."""

    bytes: bytes = field(repr=False)

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return len(self.bytes)


class Payloads:
    """Puts bytes back into events; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._cache: ByteCache[str, Body] = ByteCache(environment.cache_bytes)

    def keep(self, key: str, body: bytes) -> None:
        """Remember what is stored under a key."""
        self._cache.put(key, Body(body))

    def forget(self) -> None:
        """Remember nothing."""
        self._cache.clear()

    def whole(
        self, read: Callable[[], tuple[R, Sequence[EventRow]]], begin_again: Callable[[], None]
    ) -> tuple[R, list[EventRow]]:
        """Return what `read` does, with the bytes of events back in place.

        Who finds that some are gone begins again: the events were pruned, or the session ended.
        What is referred to then still, and cannot be had, stays empty and among the row's payloads,
        with an error that is logged.

        Args:
            read: Returns something, and rows.
            begin_again: Is called before `read` is called once more.

        Raises:
            StorageError: the store failed.
        """
        found, rows = read()
        bodies, gone = self._fetch(rows)
        if gone:
            begin_again()
            found, rows = read()
            bodies, gone = self._fetch(rows)
        for key, reason in gone.items():
            logger.error("bytes of an event cannot be read; they are left out. %s", reason or key)
        return found, [_filled(row, bodies) if row.payloads else row for row in rows]

    def _fetch(self, rows: Sequence[EventRow]) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the bytes that rows refer to, by key, and why some are missing."""
        wanted = {it.key: it.content for row in rows for it in row.payloads}
        bodies: dict[str, bytes] = {}
        gone: dict[str, str] = {}
        for some in _portions(list(wanted.values())):
            near = self._env.store.near
            found = self._env.pool.map(self._get, some, near=near)
            for content, body in zip(some, found, strict=True):
                if isinstance(body, bytes):
                    bodies[content.key] = body
                else:
                    gone[content.key] = body
        return bodies, gone

    def _get(self, content: Content) -> bytes | str:
        """Return the bytes of one object, or why they cannot be had."""
        known = self._cache.get(content.key)
        if known is not None:
            return known.bytes
        try:
            body = self._env.store.get(content.key)
        except (NotFoundError, UnreadableError) as error:
            return str(error)
        if sha256(body).hexdigest() != content.sha256:
            return f"they are not those that were stored. key={content.key!r}"
        self.keep(content.key, body)
        return body


def _portions(contents: Sequence[Content]) -> Iterator[list[Content]]:
    """Yield objects in lists of about so many bytes as may be under way at once."""
    some: list[Content] = []
    held = 0
    for content in contents:
        if some and held + content.size > _BYTES_AT_ONCE:
            yield some
            some, held = [], 0
        some.append(content)
        held += content.size
    if some:
        yield some


def _filled(row: EventRow, bodies: Mapping[str, bytes]) -> EventRow:
    """Return a row as it was before bytes were moved out of it, as far as they are there."""
    try:
        places = InlineTexts(row.event_json or "{}")
        wanted = [it for it in row.payloads if it.key in bodies]
        texts = {it.path: encoded(bodies[it.key], it.encoding) for it in wanted}
        lost = tuple(it for it in row.payloads if it.key not in bodies)
        return replace(row, event_json=places.with_texts(texts), payloads=lost)
    except (ValueError, KeyError, RecursionError):  # of another program
        keys = [it.key for it in row.payloads]
        logger.error("an event has no place for bytes that it refers to. keys=%r", keys)
        return replace(row, payloads=())
