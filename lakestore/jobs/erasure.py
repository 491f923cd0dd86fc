"""What of runs stays when sessions are erased or forgotten, or rows pruned. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakestore.history.erased import is_erased
from lakestore.history.keyed import Keyed, KeyedRow
from lakestore.history.logged import SESSIONS, Logged, LogRow
from lakestore.history.runs import Place
from lakestore.log.keys import log_digest
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow

K = TypeVar("K", bound=KeyedRow)
L = TypeVar("L", bound=LogRow)


@dataclass(frozen=True, slots=True)
class Keep:
    """What rows of runs become when some sessions are erased; None for those that go."""

    erased: Mapping[str, ErasedRow]
    """By the digests of their logs."""
    forgotten: Mapping[tuple[str, str], SessionRow] = field(default_factory=dict)
    """Rows of deleted sessions that go, by user and session."""
    pruned: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    """By table of keyed rows, which of them were pruned."""
    ends: Mapping[str, Collection[Place]] = field(default_factory=dict)
    """By table of keyed rows, the places of new ones that end others."""

    def __bool__(self) -> bool:
        """Tell whether any row of a session becomes another."""
        return bool(self.erased or self.forgotten)

    def session(self, row: SessionRow) -> SessionRow | None:
        """Drop rows of erased and forgotten sessions, see `logged`."""
        if (row.user_id, row.session_id) in self.forgotten:
            return None
        return self._unless_erased(SESSIONS, row)

    def logged(self, kind: Logged[L]) -> Callable[[L], L | None] | None:
        """Return what makes of each row of a table what it becomes; None where all stay.

        Rows of what was erased go, but not of what was begun under the same ids since.
        """
        if not self.erased:
            return None
        return lambda row: self._unless_erased(kind, row)

    def _unless_erased(self, kind: Logged[L], row: L) -> L | None:
        gone = self.erased.get(log_digest(kind.log(row))) if self.erased else None
        return row if gone is None or row.version > gone.version else None

    def keyed(self, kind: Keyed[K]) -> Callable[[K], K | None] | None:
        """Return what makes of each row of a table what it becomes; None where all stay."""
        is_pruned = self.pruned.get(kind.name, _never)
        forgotten = self.forgotten if kind.ends_with_session else {}
        ends = self.ends.get(kind.name, ())
        if not (self.erased or forgotten or ends or kind.name in self.pruned):
            return None

        def kept(row: K) -> K | None:
            if is_pruned(row) or (kind.ending and kind.ending(row) in ends):
                return None
            session = forgotten.get((row.source_user_id or "", row.session_id or ""))
            if session is not None and row.version <= session.version:
                return None
            return kind.without_source(row) if is_erased(self.erased, row) else row

        return kept


def _never(_row: object) -> bool:
    return False
