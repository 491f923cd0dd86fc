"""Going through an app's logs and entries by one listing, piece by piece: memory is a piece's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from lakestore.log.keys import is_log_folder, parse_log_name
from lakestore.storage import StoredObject

OBJECTS_AT_ONCE = 16_384

Listed = tuple[str, list[StoredObject]]
"""The prefix of a log, or of a scope's entries, and what is right below it."""


def grouped(listed: Iterable[StoredObject]) -> Iterator[Listed]:
    """Yield what is listed folder by folder."""
    for folder, group in groupby(listed, key=lambda one: one.key[: one.key.rindex("/") + 1]):
        yield folder, list(group)


def logs_in(listed: Iterable[StoredObject]) -> Iterator[Listed]:
    """Yield the commits and rollups that are listed, log by log."""
    for log, group in grouped(listed):
        if is_log_folder(log):
            found = [one for one in group if parse_log_name(one.key.removeprefix(log))]
            if found:
                yield log, found


def pieces(listed: Iterable[Listed], size: int) -> Iterator[list[Listed]]:
    """Yield `listed` in pieces of about `size` objects."""
    piece: list[Listed] = []
    count = 0
    for each in listed:
        piece.append(each)
        count += len(each[1])
        if count >= size:
            yield piece
            piece, count = [], 0
    if piece:
        yield piece
