"""Going through an app's logs and entries by one listing, piece by piece: memory is a piece's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from lakestore.history.archive import EVENTS, LAST, Archive, Place
from lakestore.log.keys import SessionKey, is_log_folder, parse_log, parse_log_name
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject
from lakestore.tables.runs import SessionRow

OBJECTS_AT_ONCE = 16_384
_EVERYWHERE: tuple[Place, Place] = (("", ""), LAST)

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


def rows_of_logs(
    archive: Archive, manifest: Manifest, logs: Sequence[str]
) -> dict[str, SessionRow]:
    """Return what a manifest says of the sessions of some logs, by log.

    Of an erased one it is what stands for it: deleted, without its names where only a digest tells.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    if not manifest.number:
        return {}
    wanted = set(logs)
    low, high = _range([parse_log(log) for log in logs])
    files = manifest.table(EVENTS.name).runs
    found = {}
    for row in archive.rows_in(EVENTS, manifest.app_name, files, low, high):
        log = SessionKey(row.app_name, row.user_id, row.session_id).log
        if log in wanted:
            found[log] = row
    for log in wanted.difference(found) if archive.erased(manifest) else ():
        gone = archive.erased_log(manifest, log)
        if gone is not None:
            found[log] = gone.row
    return found


def _range(keys: Sequence[SessionKey | None]) -> tuple[Place, Place]:
    """Return the first and last place of some sessions; of one whose id is not known, all."""
    places = [(key.user_id, key.session_id) for key in keys if key is not None]
    return (min(places), max(places)) if places and len(places) == len(keys) else _EVERYWHERE
