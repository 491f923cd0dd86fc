"""Folds of a scope's memories: many entries as one more, so that listings stay short without jobs.

Owns when that is done, and what such a fold makes needless. What rows mean is nobody's here: a fold
has the rows of its entries as they are, each with its own stamp.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType

from lakestore.errors import LakeError, NotFoundError
from lakestore.history.archive import MEMORY, Archive
from lakestore.history.entries import decoded
from lakestore.history.environment import Environment
from lakestore.history.needless import Age
from lakestore.log.entries import Entry, list_entries, name_of, parse_entry, put_entry
from lakestore.log.keys import Scope, app_manifests
from lakestore.log.stamps import Stamper
from lakestore.storage import UnreadableError
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow

logger = logging.getLogger(__name__)

_ENTRIES = 64
"""How many entries that are in no fold are worth one."""
_FOLDS = 16
"""How many folds are worth one."""
_MOST_ROWS = 20_000
"""A fold is no larger, but for its last entry, and folds that would make a larger one are left as
they are: compaction is due."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a fold holds."""

    stamps: frozenset[str]
    """Those of its entries, of which it has all rows."""
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether as many such folds as are worth one fit into it."""
        return self.rows * (_FOLDS + 1) <= _MOST_ROWS


_NOTHING = Holding(frozenset(), 0)

Held = Mapping[str, Holding]
"""What folds hold, by their keys."""


class MemoryFolds:
    """Puts folds and sweeps what old ones hold; of each scope one thread at a time."""

    def __init__(self, environment: Environment, archive: Archive, stamper: Stamper) -> None:
        self._env = environment
        self._archive = archive
        self._stamper = stamper
        self._lock = Lock()
        self._folding: set[Scope] = set()

    def consider(self, scope: Scope, fresh: Iterable[str], held: Held) -> None:
        """Fold the entries of a scope, soon and in another thread, if it is worth it.

        Args:
            scope: Whose.
            fresh: The keys of those that are not packed.
            held: What the folds among them hold.
        """
        if not (self._env.writable and self._env.rollups):
            return
        if not _chosen([entry for key in fresh if (entry := parse_entry(key)) is not None], held):
            return
        with self._lock:
            if scope in self._folding:
                return
            self._folding.add(scope)
        self._env.upkeep(lambda: self.fold(scope, held))

    def fold(self, scope: Scope, known: Held = MappingProxyType({})) -> None:
        """Put one fold of what is worth it, and sweep what an old one holds.

        Args:
            scope: Of which scope.
            known: What some folds hold, so that these are not read: none is ever changed.
        """
        try:
            self._fold(scope, known)
        except LakeError:
            logger.warning("a fold of memories was not put. scope=%r", scope, exc_info=True)
        finally:
            with self._lock:
                self._folding.discard(scope)

    def _fold(self, scope: Scope, known: Held) -> None:
        prefix, started = scope.entries_in(MEMORY.entries), self._env.clock.elapsed()
        listed = [entry for _, entry in list_entries(self._env.store, prefix)]
        packed = self._archive.folded(self._archive.newest(app_manifests(scope.app_name)))
        fresh = [entry for entry in listed if name_of(entry.key) not in packed]
        held = self._held((entry for entry in fresh if entry.is_fold), known)
        rows: dict[tuple[str, str], MemoryRow] = {}
        for entry in _chosen(fresh, held):
            if len(rows) >= _MOST_ROWS:
                break  # the others are the next one's
            rows |= {(row.key, row.stamp): row for row in self._rows_of(entry)}
        if not rows or not self._env.is_young(started):
            return  # what is old may be of entries that were packed, pruned and swept since
        stamp = self._stamper.stamp([scope])
        ours = put_entry(
            self._env.store,
            prefix,
            stamp,
            memory.encode(list(rows.values())),
            fold=True,
            clock=self._env.clock,
            metrics=self._env.metrics,
        )
        self._sweep(prefix, ours, held)

    def _sweep(self, prefix: str, ours: str, known: Held) -> None:
        """Delete what folds hold that are older than the grace, by the time of the store."""
        store = self._env.store
        created = {stored.key: stored for stored in store.list(prefix)}
        age = Age.of(created[ours].modified if ours in created else 0.0, self._env.limits.grace)
        entries = [entry for key in created if (entry := parse_entry(key)) is not None]
        old = (entry for entry in entries if entry.is_fold and age.reaches(created[entry.key]))
        held = self._held(old, known)
        for entry in entries:
            covers = [fold.stamps for key, fold in held.items() if key > entry.key]
            own = held.get(entry.key, _NOTHING).stamps if entry.is_fold else {entry.stamp}
            if own and any(own <= stamps for stamps in covers):
                store.delete(entry.key)

    def _held(self, folds: Iterable[Entry], known: Held) -> Held:
        return {it.key: known.get(it.key) or holding(self._rows_of(it)) for it in folds}

    def _rows_of(self, entry: Entry) -> list[MemoryRow]:
        """Return what an entry holds; nothing when it is gone, or nobody can read it."""
        try:
            return decoded(MEMORY.read, entry.key, self._env.store.get(entry.key))
        except (NotFoundError, UnreadableError):
            return []


def _chosen(fresh: Sequence[Entry], held: Held) -> list[Entry]:
    """Return what is to be folded of entries that no later fold holds: all others, or all folds.

    What one holds stays there for the grace at least, and is not folded again.
    """
    if len(fresh) <= _FOLDS:
        return []
    whole: frozenset[str] = frozenset().union(*(fold.stamps for fold in held.values()))
    others = [entry for entry in fresh if not entry.is_fold and entry.stamp not in whole]
    if len(others) > _ENTRIES:
        return others
    folds = [entry for entry in fresh if entry.is_fold and _is_worth_folding(entry, held)]
    return folds if len(folds) > _FOLDS else []


def _is_worth_folding(fold: Entry, held: Held) -> bool:
    """Tell whether a fold is small, and no later one holds all that it does."""
    own = held.get(fold.key, _NOTHING)
    later = (other.stamps for key, other in held.items() if key > fold.key)
    return own.is_small and not any(own.stamps <= stamps for stamps in later)


def holding(rows: Sequence[MemoryRow]) -> Holding:
    """Return what a fold holds, of its rows."""
    return Holding(frozenset(row.stamp for row in rows), len(rows))
