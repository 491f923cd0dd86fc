"""Sessions: create, read, append, delete. Owns what a refusal means and when a view is confirmed.

Nothing is read to append: the version after the last one the caller knows is created exclusively.
What was read long ago is confirmed before it is decided on, and a commit that took long is
confirmed after it, by a load that must contain it: what a stalled process takes for a free name may
be one that was swept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lakestore.errors import (
    AlreadyExistsError,
    FormatError,
    LakeError,
)
from lakestore.history.archive import Archive, Packed
from lakestore.history.cache import ByteCache
from lakestore.history.committing import Commits
from lakestore.history.drafts import Draft, Landed, RowMaker, not_in
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_commit
from lakestore.history.loading import Loader
from lakestore.history.reading import ALL, Folds, Found, Reader, Wanted
from lakestore.history.refusals import contended, missing, stale
from lakestore.history.reviving import keep_row, may_go
from lakestore.history.shared import SharedState
from lakestore.history.upkeep import roll_up, rollup_is_due
from lakestore.history.view import SessionView
from lakestore.log.commits import Confirmations, Marker, probe
from lakestore.log.keys import SessionKey
from lakestore.log.stamps import Stamper
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import to_utf8

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LOOK_EVERY = 64


class Sessions:
    """All sessions of a lake; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        stamper = Stamper(environment.clock, environment.new_token)
        self._env = environment
        self._make = RowMaker(environment, stamper)
        self._cache: ByteCache[str, SessionView] = ByteCache(environment.cache_bytes)
        self.archive = Archive(environment)
        self._loader = Loader(environment, self.archive, self._cache)
        self.shared = SharedState(environment, stamper, self.archive)
        self._reader = Reader(environment, self._loader, self.archive, self.shared, self._cache)
        self._commits = Commits(environment, self._loader, self.archive, self.shared)
        self.confirmations = Confirmations()
        self._rolling: set[SessionKey] = set()

    def load(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, whatever is cached; version 0 when it never was.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        view = self._reader.load(key)
        self.shared.complete(view.newest, {})
        return self._keep(view)

    def read(self, key: SessionKey) -> tuple[SessionView, Folds] | None:
        """Return a session and the shared state of its user and app, None when there is none.

        Warm: 1 GET and 2 LIST, side by side.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        found = self._reader.read(key, Wanted(last=0))
        return None if found is None else (found.view, found.folds)

    def read_events(self, key: SessionKey, wanted: Wanted) -> Found | None:
        """Return a session, its shared state and its events, None when there is none.

        Cold, of a session that is packed: 4 LIST and some GET, in 4 round trips.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        return self._reader.read(key, wanted)

    def read_all(
        self, app_name: str, user_id: str | None, *, ended: bool = False
    ) -> Iterator[SessionView]:
        """Yield the living sessions of a user, or of all users of an app, by one listing.

        With `ended` those that were deleted, too. Damaged ones are passed over with a logged error.

        Raises:
            StorageError: the store failed.
        """
        for view in self._loader.load_all(app_name, user_id):
            self.shared.note_read(view.key, view.stamps())
            if view.alive or ended:
                yield view

    def find(self, session_id: str, app_name: str | None = None) -> list[SessionKey]:
        """Return the living sessions of that id, of all users and of one app or all.

        Of all apps, one in which nobody can tell is passed over if another has such a session.

        Raises:
            FormatError: an object of such a session is damaged, or a manifest or run of the app.
            StorageError: the store failed.
        """
        found: list[SessionKey] = []
        failed: LakeError | None = None
        for app in self._loader.apps() if app_name is None else [app_name]:
            try:
                found += self._loader.owners(app, session_id)
            except (FormatError, UnreadableError) as error:
                failed = failed or error
        if failed is not None and not found:
            raise failed
        return found

    def apps(self) -> list[str]:
        """Return the names of all apps that have sessions, by a few requests for each.

        Raises:
            StorageError: the store failed.
        """
        return self._loader.apps()

    def forget(self) -> None:
        """Know nothing of what was read: something may have been swept before its time."""
        self._cache.clear()
        self.shared.forget()
        self.confirmations.forget()

    def fresh(
        self, app_name: str, first: str, last: str
    ) -> Iterator[tuple[SessionView, SessionRow | None]]:
        """Yield the sessions that have something to pack, deleted ones too, by user and id.

        Args:
            app_name: The app.
            first: Only of logs with this prefix or a later one, in the order of keys.
            last: Only of logs with this prefix or an earlier one.

        Yields:
            The session, and its row in the runs that it was read with, None when there is none.

        Raises:
            StorageError: the store failed.
        """
        return self._loader.load_fresh(app_name, first, last)

    def events(
        self, views: Sequence[SessionView], wanted: Wanted = ALL
    ) -> Sequence[list[EventRow] | LakeError]:
        """Return the event rows of each of `views`, all of one app, in commit order.

        Of a session that cannot be read it returns why.

        Args:
            views: Sessions as they were read a moment ago.
            wanted: Which events.

        Raises:
            StorageError: the store failed.
        """
        return self._reader.events(views, wanted)

    def create(self, key: SessionKey, delta: dict[str, Any], *, generated: bool) -> SessionView:
        """Begin a session with the initial state `delta` (JSON types, prefixes kept).

        Args:
            key: Names it.
            delta: Its initial state.
            generated: The id was drawn at random, so there is no need to look whether it exists.

        Raises:
            AlreadyExistsError: a living session has that id.
            StorageError: it was not created, or (`UnknownOutcomeError`) it may have been.
        """
        view = SessionView(key, self._env.clock.elapsed()) if generated else self.load(key)
        for _ in range(_ATTEMPTS):
            if view.alive:
                raise AlreadyExistsError(f"the session exists already. log={key.log!r}")
            if view.ended and may_go(view.ended) and not self._keep_row(view.ended):
                view = self.load(key)
                continue
            rows = self._make.create(key, view.marker, delta)
            if self._commits.put(key, view.marker, rows) is None:
                return self._keep(view.follow(rows))
            view = self.load(key)
        raise contended(key)

    def _keep_row(self, packed: Packed) -> bool:
        return keep_row(self._env, self.archive, packed)

    def delete(self, key: SessionKey) -> None:
        """End a session; nothing happens when there is none.

        Raises:
            StorageError: it was not deleted, or (`UnknownOutcomeError`) it may have been.
        """
        for _ in range(_ATTEMPTS):
            view = self._reader.refresh(key)
            if not view.alive:
                self.shared.complete(view.newest, {})
                return
            if self.end(view):
                return
        raise contended(key)

    def end(self, view: SessionView) -> bool:
        """End a session if `view`, in which it lives, is still all of it; tell whether it was.

        Raises:
            StorageError: it was not ended, or (`UnknownOutcomeError`) it may have been.
        """
        key = view.key
        if not self._env.is_young(view.seen):
            now = self.load(key)
            if not now.alive or (now.version, now.token) != (view.version, view.token):
                return False
            view = now
        self.shared.complete(view.newest, {})
        rows = self._make.delete(key, view.marker)
        if self._commits.put(key, view.marker, rows) is not None:
            return False
        self._keep(view.follow(rows))
        return True

    def end_unread(self, key: SessionKey, version: int) -> Marker:
        """End a session of which `version` is the last, though it cannot be read.

        Raises:
            StorageError: it was not ended, or (`UnknownOutcomeError`) it may have been.
        """
        for last in range(version, version + _ATTEMPTS):
            marker = Marker(last, "", self._env.clock.elapsed())
            rows = self._make.delete(key, marker)
            with suppress(FormatError):  # another writer's commit, as damaged as the rest
                if self._commits.put(key, marker, rows) is None:
                    return Marker(rows[0].version, rows[0].token, None)
        raise contended(key)

    def marker_at(self, key: SessionKey, last_event_id: str | None) -> Marker:
        """Return the marker for a caller that knows only its last event's id (None: no event).

        Raises:
            ConflictError: the stored last event is another one.
            NotFoundError: there is no such session.
            StorageError: the store failed.
        """
        view = self.load(key)
        if not view.alive:
            raise missing(key)
        known = None if last_event_id is None else to_utf8(last_event_id)
        if view.last_event_id != known:
            raise stale(key)
        return view.marker

    def append(self, key: SessionKey, marker: Marker, drafts: Sequence[Draft]) -> Landed:
        """Append `drafts` after the commit at `marker`, all in one commit.

        If one of them stands in the very next commit already, under the same id with the same
        content, that commit is this caller's, sent before: all its events count as appended, and
        only drafts that are not in it are appended after it. So does a draft that stands in the
        commit at `marker`, if that is cached: it is not read for this. When this returns, events
        and shared state are durable: 1 PUT, and 1 more for each shared scope they touch.

        Raises:
            AlreadyExistsError: that commit has another event with the id of a draft.
            ConflictError: another writer's commit follows `marker`.
            NotFoundError: the session was deleted.
            StorageError: nothing was appended, or (`UnknownOutcomeError`) it may have been.
        """
        found: list[EventRow] = []
        pending = list(drafts)
        there: list[EventRow] | None = None
        if not self._env.is_young(marker.seen):
            marker, there = self._catch_up(key, marker)
        if there is None:
            found += self._delivered_last(key, marker, drafts)
            stored = {row.event_json for row in found}
            pending = [draft for draft in drafts if draft.event_json not in stored]
        while True:
            if there is not None:
                marker = self._absorb(key, marker, there, pending)
                found += there
                pending = not_in(there, pending)
            if not pending:
                return Landed(marker, tuple(found))
            rows = self._make.events(key, marker, pending)
            started = self._env.clock.elapsed()
            there = self._commits.put(key, marker, rows)
            if there is None:
                self._extend(key, marker, rows, started)
                return Landed(Marker(rows[0].version, rows[0].token, started), tuple(found))

    def _delivered_last(
        self, key: SessionKey, marker: Marker, drafts: Sequence[Draft]
    ) -> list[EventRow]:
        """Return the rows of `drafts` in the commit at `marker`, as far as the cache knows it.

        A `Session` may show none of its events, and be sent the last one again.
        """
        view = self._cache.get(key.log)
        if view is None or (view.version, view.token) != (marker.version, marker.token):
            return []
        sent = {draft.event_json for draft in drafts}
        return [row for row in view.newest or view.events(1) if row.event_json in sent]

    def _catch_up(self, key: SessionKey, marker: Marker) -> tuple[Marker, list[EventRow] | None]:
        """Confirm an old marker by loading; return the commit right after it, if there is one."""
        view = self.load(key)
        if not view.alive:
            raise missing(key)
        if (view.version, view.token) == (marker.version, marker.token):
            return view.marker, None
        body = probe(self._env.store, key.log, marker.version + 1)
        rows = decode_commit(key.log, marker.version + 1, body) if body else []
        if not rows or rows[0].previous != marker.token:
            raise stale(key)
        if not self._commits.holds(view, rows[0]):
            raise stale(key)
        return Marker(marker.version, marker.token, view.seen), rows

    def _absorb(
        self, key: SessionKey, marker: Marker, rows: list[EventRow], pending: Sequence[Draft]
    ) -> Marker:
        """Take the commit `rows`, found right after `marker`, as ours, or say why it is not."""
        first = rows[0]
        if not self._env.is_young(marker.seen):
            # It may be what another stalled writer left under a name that was swept.
            self._commits.confirm(key, first)
        self.shared.complete(rows, {})
        self.shared.note_read(key, [row.stamp for row in rows if row.stamp])
        if first.kind == "delete":
            raise missing(key)
        if not any(draft.stands_in_any(rows) for draft in pending):
            raise stale(key)
        self._extend(key, marker, rows, None)
        # Reading a commit that exists confirms nothing: the view stays as old as it was.
        return Marker(first.version, first.token, marker.seen)

    def _keep(self, view: SessionView) -> SessionView:
        if view.version:
            self._cache.put(view.key.log, view)
        return view

    def _extend(
        self, key: SessionKey, marker: Marker, rows: list[EventRow], seen: float | None
    ) -> None:
        """Keep the cached view true after a commit of our own, and the log short."""
        view = self._cache.get(key.log)
        if view is not None and (view.version, view.token) == (marker.version, marker.token):
            view = self._keep(view.follow(rows).confirmed(view.seen if seen is None else seen))
            due = rollup_is_due(view)
        else:
            due = rows[0].version % _LOOK_EVERY == 0
        if due and self._env.rollups and key not in self._rolling:
            self._rolling.add(key)
            self._env.upkeep(lambda: self.roll_up(key))

    def roll_up(self, key: SessionKey, *, force: bool = False) -> None:
        """Write a rollup of the session if one is due (or `force`), and sweep below an old one.

        A failure is logged: the next writer does it again.
        """
        try:
            view = self._reader.refresh(key)
            grown = view.alive and view.version > view.rolled_version
            if grown and (force or rollup_is_due(view)):
                self.shared.complete(view.newest, {})
                rollup = roll_up(self._env, view)
                # Appends have gone on meanwhile.
                kept = self._cache.get(key.log)
                if kept is not None and kept.is_above(rollup):
                    self._keep(kept.on_rollup(rollup))
        except LakeError:
            logger.warning("a rollup was not written. log=%r", key.log, exc_info=True)
        finally:
            self._rolling.discard(key)
