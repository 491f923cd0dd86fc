"""Sessions of which nothing but a digest is left. Owns what that says of rows; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lakestore.log.keys import ArtifactKey, SessionKey, log_digest
from lakestore.tables.artifacts import ArtifactRow
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow


class Sourced(Protocol):
    """A row that a session has left outside of its log."""

    @property
    def app_name(self) -> str:
        """The app."""

    @property
    def source_user_id(self) -> str | None:
        """The user of the session."""

    @property
    def session_id(self) -> str | None:
        """The session; empty or None where there is none, or it is not known any more."""

    @property
    def version(self) -> int:
        """A version of its log, at which or after which the row was made."""

    @property
    def origins(self) -> Sequence[tuple[str, int]]:
        """Sessions of that user, "" for none, and the versions up to which they have made it."""


def is_erased(erased: Mapping[str, ErasedRow], row: Sourced) -> bool:
    """Tell whether what made `row` is among what was erased."""
    return any(
        version <= gone.version
        for session_id, version in row.origins
        if (gone := erased.get(origin_digest(row.app_name, row.source_user_id, session_id)))
    )


def newest_of(
    known: Mapping[str, ErasedRow], said: Mapping[str, ErasedRow]
) -> dict[str, ErasedRow]:
    """Return what both say was erased, of each log up to the later version: it never goes back."""
    later = {
        digest: row
        for digest, row in said.items()
        if digest not in known or known[digest].version <= row.version
    }
    return {**known, **later}


def origin_digest(app_name: str, user_id: str | None, session_id: str) -> str:
    """Return by what it is known that a session was erased; "" for all that has none.

    No session has the empty id.
    """
    return log_digest(SessionKey(app_name, user_id or "", session_id).log)


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


def artifact_stand_in(key: ArtifactKey, gone: ErasedRow) -> ArtifactRow:
    """Return what runs would say of an artifact that was deleted as `gone` says."""
    return ArtifactRow(
        *(key.app_name, key.user_id, key.session_id, key.filename),
        version=gone.version,
        token=gone.token,
        active_at=gone.erased_at,
        saves=(),
    )
