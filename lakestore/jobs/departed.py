"""Rows of deleted sessions in runs: they go 30 days after the sessions' logs were seen empty.

Until then something of a log may still land, or be deleted, by a request that was under way; the
row says that nothing of it counts. What is seen of a log is written into the row, so that every
sweep goes on where others were. A row that says that its log is empty covers nothing any more: what
lands there clears the mark first, so that nobody can delete by it when the row may be gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from lakestore.history.archive import EVENTS, KEYED
from lakestore.history.logged import SESSIONS, rows_of_logs
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.listings import OBJECTS_AT_ONCE, logs_in, pieces
from lakestore.lake import Lake
from lakestore.log.keys import app_logs, app_manifests, log_digest
from lakestore.log.manifests import Manifest
from lakestore.tables.runs import SessionRow

_DAY = 86_400 * 1_000_000
KEPT = 30 * _DAY
"""How long after its log was seen empty a row goes at the earliest, in microseconds."""
LOOK_EVERY = _DAY
"""How often the runs are looked through."""
_CHEAP_BYTES = 8 * 2**20
_WORTH_A_SHARE = 16
_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The store's time, as it was told at some instant of this machine's own clock."""

    read: float
    """Seconds since 1970 UTC."""
    at: float
    """`Clock.elapsed` then."""

    def micros(self, elapsed: float) -> int:
        """Return the store's time at another instant, in microseconds since 1970 UTC."""
        return int((self.read + elapsed - self.at) * 1_000_000)


class Departed:
    """Looks after the rows of an app's deleted sessions."""

    def __init__(self, lake: Lake, app_name: str, now: StoreTime) -> None:
        self._env = lake.environment
        self._archive = lake.sessions.archive
        self._app = app_name
        self._now = now
        self._going = 0
        self._longest = 0
        """How long the log of a row that may go has been empty, at most."""

    def look(self) -> None:
        """Mark the rows whose logs are empty, and drop those that were marked long ago.

        Where there are any, and hardly more than once a day: it reads the runs of sessions.

        Raises:
            NotFoundError: what was packed was packed again, and swept: another sweep looks.
            ConflictError: other jobs keep publishing.
            FormatError, StorageError: what is packed, or the logs, could not be read.
        """
        newest = self._archive.newest(app_manifests(self._app))
        started = self._env.clock.elapsed()
        now = self._now.micros(started)
        runs = newest.table(EVENTS.name).runs
        if now - newest.looked < LOOK_EVERY or not any(run.dead for run in runs):
            return
        changes = self._changes(newest, now)
        names = [EVENTS.name, *(kind.name for kind in KEYED if kind.ends_with_session)]
        size = sum(run.size for name in names for run in newest.table(name).runs)
        if not self._is_worth_it(newest, size):
            changes.forgotten.clear()
        if not changes.sessions and not changes.forgotten and size <= _CHEAP_BYTES:
            return  # looking again costs less than a manifest
        # By a mark that is published late a row could go too early after it.
        if self._env.is_young(started):
            Publisher(self._env, self._archive, self._app).publish(changes)

    def _changes(self, newest: Manifest, now: int) -> Changes:
        waiting = {EVENTS.place(row): row for row in islice(self._waiting(newest, now), _AT_ONCE)}
        # Those that are left are next; of a log only what is listed after its row was read counts.
        changes = Changes(looked=now if len(waiting) < _AT_ONCE else None)
        for row in self._with_logs(newest):
            waiting.pop(EVENTS.place(row), None)
            if row.emptied_at is not None:
                changes.add(Change(row, replace(row, emptied_at=None)))
        for place, row in waiting.items():
            if row.emptied_at is None:
                changes.add(Change(row, replace(row, emptied_at=now)))
            else:
                changes.forgotten[place] = row
                self._longest = max(self._longest, now - row.emptied_at)
        self._going = len(changes.forgotten)
        return changes

    def _waiting(self, newest: Manifest, now: int) -> Iterator[SessionRow]:
        """Yield the rows of which it is to be seen whether their logs are empty."""
        for packed in self._archive.sessions(newest):
            row = packed.row
            if not row.alive and (row.emptied_at is None or now - row.emptied_at >= KEPT):
                yield row

    def _with_logs(self, newest: Manifest) -> Iterator[SessionRow]:
        """Yield the rows of deleted sessions whose logs are not empty, or soon will not be."""
        listed = logs_in(self._env.store.list(app_logs(self._app)))
        for piece in pieces(listed, OBJECTS_AT_ONCE):
            rows = rows_of_logs(self._archive, SESSIONS, newest, [log for log, _ in piece])
            yield from (row for row in rows.values() if not row.alive and row.session_id)
        if newest.revived:
            for packed in self._archive.sessions(newest):
                if log_digest(packed.key.log) in newest.revived:
                    yield packed.row

    def _is_worth_it(self, newest: Manifest, size: int) -> bool:
        """Tell whether runs should be written anew for what may go: it takes all of them."""
        runs = newest.table(EVENTS.name).runs
        return (
            size <= _CHEAP_BYTES
            or self._going * _WORTH_A_SHARE >= sum(run.rows for run in runs)
            or self._longest >= 2 * KEPT
        )
