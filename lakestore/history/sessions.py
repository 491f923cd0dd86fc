"""Sessions: create, read, delete, and when what is cached of one is true. Appending is inherited.

What was read long ago is confirmed before it is decided on, and a commit that took long is
confirmed after it, by a load that must contain it: what a stalled process takes for a free name may
be one that was swept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from typing_extensions import override

from lakestore.errors import (
    AlreadyExistsError,
    FormatError,
    LakeError,
)
from lakestore.history.appending import Appends
from lakestore.history.archive import Packed
from lakestore.history.environment import Environment
from lakestore.history.reading import ALL, Folds, Found, Reader, Wanted
from lakestore.history.refusals import contended, missing, stale
from lakestore.history.reviving import keep_row, may_go
from lakestore.history.upkeep import roll_up, rollup_is_due
from lakestore.history.view import SessionView
from lakestore.log.commits import Confirmations, Marker
from lakestore.log.keys import SessionKey, app_manifests
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import to_utf8

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LOOK_EVERY = 64


class Sessions(Appends):
    """All sessions of a lake; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._reader = Reader(environment, self._loader, self.archive, self.shared, self._cache)
        self.confirmations = Confirmations()
        self._rolling: set[SessionKey] = set()

    @override
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

    def begin_again(self, app_name: str, key: SessionKey | None = None) -> None:
        """Let the next read go by the newest manifest, and of the session `key` by its log.

        Raises:
            FormatError: the manifest is damaged.
            StorageError: the store failed.
        """
        if key is not None:
            self._cache.drop(key.log)
        self.archive.newest(app_manifests(app_name))

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
        self.payloads.forget()
        self._proofs.forget()
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

    def _keep(self, view: SessionView) -> SessionView:
        if view.version:
            self._cache.put(view.key.log, view)
        return view

    @override
    def _extend(
        self, key: SessionKey, marker: Marker, rows: list[EventRow], seen: float | None
    ) -> None:
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
