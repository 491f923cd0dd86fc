"""Sessions of which nothing but a digest is left. Owns what that says of rows; no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from lakestore.log.keys import SessionKey, log_digest
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow


def is_erased(erased: Mapping[str, ErasedRow], row: StateRow) -> bool:
    """Tell whether the commit that set `row` is one of those that were erased."""
    source = SessionKey(row.app_name, row.source_user_id, row.session_id)
    gone = erased.get(log_digest(source.log)) if row.session_id else None
    return gone is not None and row.version <= gone.version


def stand_in(key: SessionKey, gone: ErasedRow) -> SessionRow:
    """Return what runs would say of a session that was deleted as `gone` says."""
    return SessionRow(
        app_name=key.app_name,
        user_id=key.user_id,
        session_id=key.session_id,
        version=gone.version,
        token=gone.token,
        alive=False,
        state=None,
        stamp=None,
        created_at=None,
        active_at=gone.erased_at,
        last_event_time=None,
        last_event_id=None,
        events=0,
        segments=(),
    )
