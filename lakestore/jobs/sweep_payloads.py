"""Sweeping bytes beside events that nothing refers to: of pruned events, ended sessions, crashes.

An object goes when it is older than the grace, and neither an old manifest nor the newest one says
that a packed row refers to it, nor does anything of the log that the old one does not cover. So
whoever refers to it once more, having read of it within the view age limit, is seen in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import Archive
from lakestore.history.environment import Environment
from lakestore.history.logged import SESSIONS, rows_of_logs
from lakestore.history.needless import Age
from lakestore.jobs.departed import StoreTime
from lakestore.jobs.listings import OBJECTS_AT_ONCE, Listed, pieces
from lakestore.jobs.removing import Remover
from lakestore.log.commits import LogFiles
from lakestore.log.keys import (
    app_manifests,
    app_objects,
    commit_key,
    log_of_object,
    parse_log_name,
    rollup_key,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables import events
from lakestore.tables.runs import SessionRow

Covering = Callable[[Age], Manifest]
"""Returns the newest manifest that is old enough; its number is 0 when none is."""


@dataclass(frozen=True, slots=True)
class PayloadSweep:
    """Sweeps bytes beside events of one app."""

    env: Environment
    archive: Archive
    app_name: str
    age: Age
    now: StoreTime
    covering: Covering
    remover: Remover

    def run(self) -> None:
        """Delete what nothing refers to.

        Raises:
            NotFoundError: a manifest was superseded and what it names swept: begin again.
            FormatError: a manifest or run is damaged.
            StorageError: the store failed.
        """
        listed = self.env.store.list(app_objects(self.app_name))
        for piece in pieces(by_log(listed), OBJECTS_AT_ONCE):
            old = {log: [one for one in some if self.age.reaches(one)] for log, some in piece}
            old = {log: some for log, some in old.items() if some}
            if old:
                self.remover.remove("payloads", self._needless(old))

    def _needless(self, old: Mapping[str, Sequence[StoredObject]]) -> list[StoredObject]:
        """Return those of some sessions' old objects that nothing refers to."""
        covering = self.covering(self._age_now())
        rows = rows_of_logs(self.archive, SESSIONS, covering, list(old))
        left = {log: _besides(some, rows.get(log)) for log, some in old.items()}
        for log in [log for log, some in left.items() if some]:
            referred = self._referred(log, rows.get(log))
            # What nobody can tell may refer to anything.
            left[log] = [it for it in left[log] if referred is not None and it.key not in referred]
        left = {log: some for log, some in left.items() if some}
        if not left:
            return []
        # After the logs: what was packed and swept meanwhile is in it.
        newest = self.archive.newest(app_manifests(self.app_name))
        rows = rows_of_logs(self.archive, SESSIONS, newest, list(left))
        found = [one for log, some in left.items() for one in _besides(some, rows.get(log))]
        # Another sweep that went by a later one may have deleted commits since; with what they
        # refer to cut out by one that is not old yet, both would tell of nothing.
        same = self.age.reaches_all or self.covering(self._age_now()).number == covering.number
        return found if same else []

    def _age_now(self) -> Age:
        """Return what is old enough by now, not when the sweep began."""
        return self.age.kept(self.now.at - self.env.clock.elapsed())

    def _referred(self, log: str, row: SessionRow | None) -> set[str] | None:
        """Return what a log refers to above what is packed of it; None where that is not known."""
        # What lands in a log that was seen empty may be of a session that began anew.
        base = row.version if row is not None and row.emptied_at is None else 0
        listed = {one.key: one for one in self.env.store.list(log)}
        files = _files(log, listed)
        rollup = files.newest_rollup or 0
        rollup = rollup if rollup > base else 0
        keys = [commit_key(log, it) for it in files.commits if it > max(rollup, base)]
        found: set[str] = set()
        try:
            if rollup:
                body = self.env.store.get(rollup_key(log, rollup))
                found |= {payload.key for _, payload in events.payloads_by_version(body)}
            for key in keys:
                self._add(events.decode(self.env.store.get(key)), listed[key], found)
        except NotFoundError:  # swept meanwhile: a later sweep looks again
            return None
        except (FormatError, UnreadableError) as error:
            self.remover.note(f"bytes beside events stay, since their log is damaged: {error}")
            return None
        return found

    def _add(self, rows: Sequence[events.EventRow], commit: StoredObject, found: set[str]) -> None:
        """Add what a commit refers to; of a life that was ended long ago nothing is needed."""
        if rows[0].kind == "delete" and self.age.reaches(commit):
            found.clear()
        found.update(payload.key for row in rows for payload in row.payloads)


def by_log(listed: Iterator[StoredObject]) -> Iterator[Listed]:
    """Yield what is listed of bytes beside events with the session's log, strays left out."""
    for log, some in groupby(listed, key=lambda one: log_of_object(one.key)):
        if log is not None:
            yield log, list(some)


def _besides(listed: Sequence[StoredObject], row: SessionRow | None) -> list[StoredObject]:
    """Return those of `listed` to which what is packed of a session does not refer."""
    kept = {content.key for content in row.payloads} if row else set()
    return [one for one in listed if one.key not in kept]


def _files(log: str, keys: Mapping[str, StoredObject]) -> LogFiles:
    files = LogFiles()
    for key in keys:
        parsed = parse_log_name(key.removeprefix(log))
        if parsed is not None:
            (files.rollups if parsed[1] else files.commits).append(parsed[0])
    return files
