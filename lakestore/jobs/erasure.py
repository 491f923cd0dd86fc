"""What of runs stays when sessions are erased or forgotten. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakestore.history.erased import is_erased
from lakestore.log.keys import SessionKey, log_digest
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow


@dataclass(frozen=True, slots=True)
class Keep:
    """What rows of runs become when some sessions are erased; None for those that go."""

    erased: Mapping[str, ErasedRow]
    """By the digests of their logs."""
    forgotten: Mapping[tuple[str, str], SessionRow] = field(default_factory=dict)
    """Rows of deleted sessions that go, by user and session."""

    def __bool__(self) -> bool:
        """Tell whether any row becomes another."""
        return bool(self.erased or self.forgotten)

    def session(self, row: SessionRow) -> SessionRow | None:
        """Drop rows of erased sessions, but not of what was begun under their ids since."""
        if (row.user_id, row.session_id) in self.forgotten:
            return None
        gone = self.erased.get(log_digest(log_of_row(row))) if self.erased else None
        return row if gone is None or row.version > gone.version else None

    def state(self, row: StateRow) -> StateRow | None:
        """Drop users' rows, and take the source out of the app's own."""
        if not is_erased(self.erased, row):
            return row
        if row.user_id is not None:
            return None
        return replace(row, session_id="", source_user_id="", version=0)


def log_of_row(row: SessionRow) -> str:
    """Return the prefix of a session's log."""
    return SessionKey(row.app_name, row.user_id, row.session_id).log
