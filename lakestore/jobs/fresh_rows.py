"""What entries say that is not packed, of each table of keyed rows. Owns which are not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakestore.errors import NotFoundError
from lakestore.history.archive import FOLDED, KEYED, Keyed, Place
from lakestore.history.entries import decoded
from lakestore.history.keyed import KeyedRow
from lakestore.jobs.changes import WORTH_FORGETTING, Changes, Publisher
from lakestore.lake import Lake
from lakestore.log.entries import list_entries, name_of
from lakestore.log.keys import app_manifests

K = TypeVar("K", bound=KeyedRow)

_ENTRIES_AT_ONCE = 1_024
_ROWS_AT_ONCE = 65_536
"""Of tables whose entries are packed for good: about as many are held and published together."""
_WORTH_NAMING = 8
"""Fewer are read again the next time: that costs less than saying that they need not be."""


@dataclass(frozen=True, slots=True)
class FreshRows(Generic[K]):
    """What some entries hold."""

    rows: dict[Place, K]
    """What counts of each key."""
    read: set[str]
    """The names of those that were read."""

    def take(self, kind: Keyed[K], name: str, rows: Sequence[K]) -> None:
        """Take what the entry of that name holds."""
        if rows:  # one that could not be read is read again
            self.read.add(name)
        if kind.is_final:  # of a fold its entries, too, which a later fold may hold
            self.read.update(map(kind.name_of, rows))
        for row in rows:
            known = self.rows.get(kind.place(row))
            self.rows[kind.place(row)] = row if known is None else kind.merge(known, row)


def fresh_changes(
    lake: Lake, app_name: str, begun: Changes | None = None, *, names_all: bool = False
) -> Iterator[Changes]:
    """Yield what packing all fresh entries of an app makes of it, in parts that fit into memory.

    Args:
        lake: The lake.
        app_name: The app.
        begun: What is to be published with the first part, if there is any.
        names_all: Also name a few entries of tables where names only save work.

    Raises:
        FormatError: the newest manifest is damaged.
        StorageError: the store failed.
    """
    archive = lake.sessions.archive
    # Before the listings: what it names is in the runs that are read later, too.
    packed = archive.folded(archive.newest(app_manifests(app_name)))
    swept, made = set(packed), begun or Changes()
    for kind in KEYED:
        prefix = kind.prefix(app_name)
        listed = {name_of(it.key): it.key for _, it in list_entries(lake.environment.store, prefix)}
        swept -= listed.keys()
        fresh = {name: key for name, key in listed.items() if name not in packed}
        for part in _parts(lake, kind, fresh):
            made.keyed.setdefault(kind.name, []).extend(part.rows.values())
            if names_all or kind.is_final or len(part.read) >= _WORTH_NAMING:
                made.folded |= part.read
            if len(made.keyed[kind.name]) >= _ROWS_AT_ONCE:
                yield made
                made = Changes()
    made.swept = frozenset(swept)
    yield made


def forget_names(lake: Lake, app_name: str) -> bool:
    """Let the newest manifest name no entries that were swept; tell whether it names fewer now.

    Only of tables where names save work alone. Where they are few, or most of all are still needed,
    they stay until more entries are packed.

    Raises:
        ConflictError: other jobs keep publishing.
        FormatError: the newest manifest is damaged.
        StorageError: the store failed.
    """
    archive = lake.sessions.archive
    newest = archive.newest(app_manifests(app_name))
    named = sum(run.rows for run in newest.table(FOLDED.name).runs)
    if named < WORTH_FORGETTING:
        return False
    binding = tuple(f"{kind.name}/" for kind in KEYED if kind.is_final)
    swept = {name for name in archive.folded(newest) if not name.startswith(binding)}
    for kind in KEYED:
        if not kind.is_final:
            listed = list_entries(lake.environment.store, kind.prefix(app_name))
            swept -= {name_of(entry.key) for _, entry in listed}
    publisher = Publisher(lake.environment, archive, app_name)
    return publisher.publish(Changes(swept=frozenset(swept))) is not None


def fresh_rows(lake: Lake, kind: Keyed[K], app_name: str, user_id: str | None) -> Iterator[K]:
    """Yield what is not packed of one table, of an app or of one of its users.

    Entries are listed whole, and told by their names: a stamp says nothing of what was seen, since
    a late one may sort anywhere.
    """
    archive = lake.sessions.archive
    packed = archive.folded(archive.newest(app_manifests(app_name)))
    entries = list_entries(lake.environment.store, kind.prefix(app_name, user_id))
    listed = {name_of(entry.key): entry.key for _, entry in entries}
    fresh = {name: key for name, key in listed.items() if name not in packed}
    for part in _parts(lake, kind, fresh):
        yield from part.rows.values()


def _parts(lake: Lake, kind: Keyed[K], entries: dict[str, str]) -> Iterator[FreshRows[K]]:
    """Yield what `entries`, by name, hold; all at once where later rows replace earlier ones."""
    store, pool = lake.environment.store, lake.environment.pool

    def read(key: str) -> Sequence[K]:
        try:
            return decoded(kind.read, key, store.get(key))
        except NotFoundError:  # swept: what covers it is listed too, or packed
            return []

    part: FreshRows[K] = FreshRows({}, set())
    names = list(entries)
    for first in range(0, len(names), _ENTRIES_AT_ONCE):
        some = names[first : first + _ENTRIES_AT_ONCE]
        found = pool.map(read, [entries[name] for name in some], near=store.near)
        for name, rows in zip(some, found, strict=True):
            part.take(kind, name, rows)
        if kind.is_final and len(part.rows) >= _ROWS_AT_ONCE:
            yield part
            part = FreshRows({}, set())
    if part.read:
        yield part
