"""Shared state that entries say and that is not packed. Owns which entries need not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakestore.errors import NotFoundError
from lakestore.history.archive import STATE, Place
from lakestore.history.entries import decode_entry
from lakestore.jobs.changes import Changes
from lakestore.lake import Lake
from lakestore.log.entries import list_entries, name_of
from lakestore.log.keys import app_manifests
from lakestore.tables.state import StateRow

_ENTRIES_AT_ONCE = 1_024
_WORTH_NAMING = 8
"""Fewer are read again the next time: that costs less than saying that they need not be."""


@dataclass(frozen=True, slots=True)
class FreshState:
    """What entries hold that were not known to be packed."""

    rows: Mapping[Place, StateRow]
    """The latest of each key."""
    read: frozenset[str]
    """The names of those that were read."""
    listed: frozenset[str]
    """The names of all that are there."""

    def changes(self, *, names_all: bool = False) -> Changes:
        """Return what packing it makes of the app; `names_all`: also the names of a few entries."""
        made = Changes(state=list(self.rows.values()))
        if names_all or len(self.read) >= _WORTH_NAMING:
            made.folded, made.entries = self.read, self.listed
        return made


def fresh_state(lake: Lake, app_name: str, prefix: str) -> FreshState:
    """Return what entries of an app under `prefix` hold, without those that are packed.

    Entries are listed whole, and told by their names: a stamp says nothing of what was seen, since
    a late one may sort anywhere.

    Raises:
        FormatError: the newest manifest is damaged.
        StorageError: the store failed.
    """
    store, pool = lake.environment.store, lake.environment.pool
    archive = lake.sessions.archive
    # Before the listing: what it names is in the runs that are read later, too.
    packed = archive.folded(archive.newest(app_manifests(app_name)))

    def read(key: str) -> Sequence[StateRow]:
        try:
            return decode_entry(key, store.get(key))
        except NotFoundError:  # swept: what covers it is listed too, or packed
            return []

    latest: dict[Place, StateRow] = {}
    listed = {name_of(entry.key): entry.key for _, entry in list_entries(store, prefix)}
    fresh = [name for name in listed if name not in packed]
    done: set[str] = set()
    for first in range(0, len(fresh), _ENTRIES_AT_ONCE):
        names = fresh[first : first + _ENTRIES_AT_ONCE]
        found = pool.map(read, [listed[name] for name in names], near=store.near)
        for name, rows in zip(names, found, strict=True):
            if rows:  # one that could not be read is read again
                done.add(name)
            for row in rows:
                known = latest.get(STATE.place(row))
                if known is None or known.precedes(row):
                    latest[STATE.place(row)] = row
    return FreshState(latest, frozenset(done), frozenset(listed))
