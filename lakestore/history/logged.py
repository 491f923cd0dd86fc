"""What is packed of logs, sessions' and artifacts' alike: one row a log, in runs of one table.

Owns which row tells of which log, and what stands for one of which nothing but a digest is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lakestore.history.archive import Archive
from lakestore.history.artifact_loading import key_of
from lakestore.history.erased import artifact_stand_in, stand_in
from lakestore.history.runs import ARTIFACTS, EVENTS, LAST, Kind, Place, artifact_place
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    EVENT_LOGS,
    ArtifactKey,
    SessionKey,
    artifacts_of_app,
    log_digest,
    parse_artifact,
    parse_log,
)
from lakestore.log.manifests import Manifest
from lakestore.tables.artifacts import ArtifactRow
from lakestore.tables.erased import ErasedRow
from lakestore.tables.runs import SessionRow


class LogRow(Protocol):
    """What is packed of one log."""

    @property
    def version(self) -> int:
        """The last version that is packed."""

    @property
    def token(self) -> str:
        """That commit's."""


L = TypeVar("L", bound=LogRow)


@dataclass(frozen=True, slots=True)
class Logged(Generic[L]):
    """A table whose rows tell what is packed of logs."""

    kind: Kind[L]
    root: str
    """Where its logs are."""
    log: Callable[[L], str]
    """Returns the prefix of the log that a row tells of."""
    place: Callable[[str], Place | None]
    """Returns where the row of a log is; None when only a digest of an id is left in its prefix."""
    stand_in: Callable[[str, Place, ErasedRow], L]
    """Returns what runs would say of a log of an app that was erased."""

    def logs(self, app_name: str) -> str:
        """Return the prefix of all such logs of an app."""
        return artifacts_of_app(self.root, app_name)

    def log_at(self, app_name: str, place: Place) -> str:
        """Return the prefix of the log whose row is at a place."""
        return self.log(self.stand_in(app_name, place, _NOBODY))


_NOBODY = ErasedRow("", 0, "", 0)
_EVERYWHERE: tuple[Place, Place] = (("", ""), LAST)


def _session_place(log: str) -> Place | None:
    key = parse_log(log)
    return None if key is None else (key.user_id, key.session_id)


def _session_stand_in(app_name: str, place: Place, gone: ErasedRow) -> SessionRow:
    return stand_in(SessionKey(app_name, *place), gone)


def _artifact_place(log: str) -> Place | None:
    key = parse_artifact(log)
    return None if key is None else artifact_place(key)


def _artifact_stand_in(app_name: str, place: Place, gone: ErasedRow) -> ArtifactRow:
    user_id, name = place
    session_id, filename = json.loads(name) if name else (None, "")
    return artifact_stand_in(ArtifactKey(app_name, user_id, session_id, filename), gone)


SESSIONS: Logged[SessionRow] = Logged(
    EVENTS,
    EVENT_LOGS,
    lambda row: SessionKey(row.app_name, row.user_id, row.session_id).log,
    _session_place,
    _session_stand_in,
)
FILES: Logged[ArtifactRow] = Logged(
    ARTIFACTS, ARTIFACT_LOGS, lambda row: key_of(row).log, _artifact_place, _artifact_stand_in
)
LOGGED: tuple[Logged[Any], ...] = (SESSIONS, FILES)
"""All tables of such rows."""


def rows_at(
    archive: Archive, logged: Logged[L], manifest: Manifest, places: Iterable[Place]
) -> dict[Place, L]:
    """Return what a manifest says of some logs, by where their rows are.

    Of an erased one it is what stands for it.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    wanted = set(places)
    if not manifest.number or not wanted:
        return {}
    found = archive.rows_at(logged.kind, manifest, wanted)
    erased = archive.erased(manifest)
    for place in wanted.difference(found) if erased else ():
        gone = erased.get(log_digest(logged.log_at(manifest.app_name, place)))
        if gone is not None:
            found[place] = logged.stand_in(manifest.app_name, place, gone)
    return found


def rows_of_logs(
    archive: Archive, logged: Logged[L], manifest: Manifest, logs: Sequence[str]
) -> dict[str, L]:
    """Return what a manifest says of some logs that mostly lie side by side, by log.

    Of an erased one it is what stands for it, without its names where only a digest tells.

    Raises:
        NotFoundError, FormatError, StorageError: see `Archive.session`.
    """
    if not manifest.number or not logs:
        return {}
    wanted, app = set(logs), manifest.app_name
    places = [logged.place(log) for log in logs]
    known = [place for place in places if place is not None]
    low, high = (min(known), max(known)) if len(known) == len(places) else _EVERYWHERE
    files = manifest.table(logged.kind.name).runs
    rows = archive.rows_in(logged.kind, app, files, low, high)
    found = {log: row for row in rows if (log := logged.log(row)) in wanted}
    erased = archive.erased(manifest)
    for log in wanted.difference(found) if erased else ():
        gone = erased.get(log_digest(log))
        if gone is not None:
            found[log] = logged.stand_in(app, logged.place(log) or ("", ""), gone)
    return found
