"""Tables of keyed rows: they come as entries, and jobs pack them into runs.

Owns what jobs and SQL must know of such a table, and nothing of what its rows mean. What is done
with each of `KEYED` alike: packed, merged, named in `folded`, swept, erased, checked and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from lakestore.errors import FormatError
from lakestore.history.entries import read_entry
from lakestore.history.erased import Sourced
from lakestore.history.runs import Kind, Place
from lakestore.log.entries import name_of
from lakestore.log.keys import (
    MEMORY_ENTRIES,
    STATE_ENTRIES,
    TELEMETRY_ENTRIES,
    Scope,
    app_entries,
    entry_key,
    is_stamp,
)
from lakestore.tables import memory, state, telemetry
from lakestore.tables.memory import MemoryRow
from lakestore.tables.state import StateRow
from lakestore.tables.telemetry import TelemetryRow


class KeyedRow(Sourced, Protocol):
    """What every row says of itself."""

    @property
    def user_id(self) -> str | None:
        """The user; None for the app's own."""

    @property
    def stamp(self) -> str:
        """Of the entry in which it came; of shared state, what orders writes to a key, too."""


K = TypeVar("K", bound=KeyedRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed(Kind[K]):
    """A table of rows with keys; the place of a row in a run is its user and its key."""

    entries: str
    """The prefix of all its entries."""
    read: Callable[[str, bytes], list[K]]
    """Returns the rows of the entry under a key; raises `FormatError` when it is damaged."""
    merge: Callable[[K, K], K]
    """Returns what two rows of one key come to, in whatever order; one of them, mostly."""
    source_user: str
    """The column that names the user of the session that a row is from."""
    without_source: Callable[[K], K | None]
    """Returns what a row becomes when that session was erased; None for it goes."""
    is_final: bool
    """Whether an entry that is named in `folded` has been packed for good: what runs have lost of
    it since was to go. Else only runs tell, by keys and stamps."""
    ends_with_session: bool
    """Whether rows of a deleted session go when nothing else tells of it any more."""
    ending: Callable[[K], Place | None] | None = None
    """Returns the place of the row that, whenever it comes, ends another for good; None for a row
    that ends others itself. A table whose rows end none has None."""
    is_derived: Callable[[K], bool] = lambda _: False
    """Whether a row follows from events, so that nothing is lost with it."""
    beside: Kind[K] | None = None
    """A table of such rows that were put aside: what is to go from one goes from both."""

    def prefix(self, app_name: str, user_id: str | None = None) -> str:
        """Return the prefix of an app's entries, or of one user's."""
        if user_id is None:
            return app_entries(app_name, self.entries)
        return Scope(app_name, user_id).entries_in(self.entries)

    def name_of(self, row: K) -> str:
        """Return the name of the entry in which a row came, as `folded` has it."""
        scope = Scope(row.app_name, row.user_id).entries_in(self.entries)
        return name_of(entry_key(scope, row.stamp, fold=False))


def _state_without_source(row: StateRow) -> StateRow | None:
    """A user's goes; the app's own stays, without a word of where it came from."""
    if row.user_id is not None:
        return None
    return replace(row, session_id="", source_user_id="", version=0)


def _later(one: StateRow, other: StateRow) -> StateRow:
    return other if one.precedes(other) else one


def _reader(entries: str, decode: Callable[[bytes], list[K]]) -> Callable[[str, bytes], list[K]]:
    """Return what reads an entry, and refuses rows that are not its scope's."""

    def read(key: str, body: bytes) -> list[K]:
        rows = decode(body)
        for row in rows:
            if not key.startswith(Scope(row.app_name, row.user_id).entries_in(entries)):
                raise FormatError("a row names another scope than its key")
            if not is_stamp(row.stamp):
                raise FormatError("a stamp is damaged")
        return rows

    return read


def _memory_without_source(row: MemoryRow) -> MemoryRow | None:
    """It goes; that all users' memory of an id was forgotten stays, without a word of by whom."""
    if row.kind != "forget" or row.user_id is not None:
        return None
    return MemoryRow(
        row.app_name,
        None,
        row.id,
        "forget",
        stamp=row.stamp,
        ordinal=row.ordinal,
        place=None,
        inserted_at=row.inserted_at,
    )


def _forget_of(row: MemoryRow) -> Place | None:
    return None if row.ending is None else (row.user_id or "", row.ending)


STATE: Keyed[StateRow] = Keyed(
    "state",
    state.SCHEMA,
    state.to_table,
    state.from_table,
    lambda row: (row.user_id or "", row.key),
    ("user_id", "key"),
    entries=STATE_ENTRIES,
    read=read_entry,
    merge=_later,
    source_user="source_user_id",
    without_source=_state_without_source,
    is_final=False,
    ends_with_session=False,
)
"""Shared state."""
TELEMETRY: Keyed[TelemetryRow] = Keyed(
    "telemetry",
    telemetry.SCHEMA,
    telemetry.to_table,
    telemetry.from_table,
    lambda row: (row.user_id, row.id),
    ("user_id", "id"),
    entries=TELEMETRY_ENTRIES,
    read=_reader(TELEMETRY_ENTRIES, telemetry.decode),
    merge=lambda one, _other: one,
    source_user="user_id",
    without_source=lambda _row: None,
    is_final=True,
    ends_with_session=True,
)
"""What plugins have measured; a row is never changed."""

PREVIOUS: Kind[MemoryRow] = Kind(
    "previous",
    memory.SCHEMA,
    memory.to_table,
    memory.from_table,
    lambda row: (row.user_id or "", row.key),
    ("user_id", "key"),
)
"""What a rebuild has put others in place of: runs only."""
MEMORY: Keyed[MemoryRow] = Keyed(
    "memory",
    memory.SCHEMA,
    memory.to_table,
    memory.from_table,
    lambda row: (row.user_id or "", row.key),
    ("user_id", "key"),
    entries=MEMORY_ENTRIES,
    read=_reader(MEMORY_ENTRIES, memory.decode),
    merge=memory.merge,
    source_user="source_user_id",
    without_source=_memory_without_source,
    is_final=True,
    ends_with_session=False,
    ending=_forget_of,
    is_derived=lambda row: row.extracted,
    beside=PREVIOUS,
)
"""What agents remember. A forget ends every add of its id, whenever that comes."""

KEYED: tuple[Keyed[Any], ...] = (STATE, TELEMETRY, MEMORY)
"""All of them."""
