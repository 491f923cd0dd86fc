"""Sessions of which nothing but a digest is left. Owns what that says of rows; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakestore.log.keys import SessionKey, log_digest
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow


class Sourced(Protocol):
    """A row that a session has left outside of its log."""

    @property
    def app_name(self) -> str:
        """The app."""

    @property
    def source_user_id(self) -> str:
        """The user of the session."""

    @property
    def session_id(self) -> str:
        """The session; empty where it is not known any more."""

    @property
    def version(self) -> int:
        """A version of its log, at which or after which the row was made."""


def is_erased(erased: Mapping[str, ErasedRow], row: Sourced) -> bool:
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
