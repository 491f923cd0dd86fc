"""Sessions: create, read, append, delete. Owns what a refusal means and when a view is confirmed.

Nothing is read to append: the version after the last one the caller knows is created exclusively.
What was read long ago is confirmed before it is decided on, and a commit that took long is
confirmed after it, by a load that must contain it: what a stalled process takes for a free name may
be one that was swept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lakestore.errors import (
    AlreadyExistsError,
    LakeError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.history.cache import ByteCache
from lakestore.history.drafts import Draft, Landed, RowMaker, event_id, not_in
from lakestore.history.environment import Environment
from lakestore.history.loading import Loader, decode_commit
from lakestore.history.refusals import contended, missing, stale
from lakestore.history.shared import Listing, ScopeFold, SharedState
from lakestore.history.upkeep import roll_up, rollup_is_due
from lakestore.history.view import SessionView
from lakestore.log.commits import Confirmations, Marker, probe, put_commit, unknown
from lakestore.log.keys import EVENT_LOGS, Scope, SessionKey, app_logs, commit_key, user_logs
from lakestore.log.stamps import Stamper
from lakestore.tables import events
from lakestore.tables.events import EventRow

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LOOK_EVERY = 64


_Look = tuple[float, bytes | None]
"""When a commit was asked for, and its bytes, None where there is none."""
_Found = tuple[SessionView, Listing, Sequence[Sequence[EventRow]]]
"""A session, the listing of its shared state, and commits that were made while it was listed."""


class Sessions:
    """All sessions of a lake; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        stamper = Stamper(environment.clock, environment.new_token)
        self._env = environment
        self._make = RowMaker(environment, stamper)
        self._cache: ByteCache[str, SessionView] = ByteCache(environment.cache_bytes)
        self._loader = Loader(environment, self._cache)
        self.shared = SharedState(environment, stamper)
        self.confirmations = Confirmations()
        self._rolling: set[SessionKey] = set()

    def load(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, whatever is cached; version 0 when it never was.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        view = self._load(key)
        self.shared.complete(view.newest, {})
        return self._keep(view)

    def read(self, key: SessionKey) -> tuple[SessionView, Mapping[Scope, ScopeFold]] | None:
        """Return a session and the shared state of its user and app, None when there is none.

        Warm: 1 GET and 2 LIST, side by side. Entries that are listed after the log was hold what it
        shows of acknowledged commits; what the log shows besides is laid over them.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed.
        """
        scopes = (Scope(key.app_name, key.user_id), Scope(key.app_name, None))
        found = self._read_warm(key, scopes) or self._read_cold(key, scopes)
        view, listing, followed = found
        if not view.alive:
            return None
        folds = self.shared.fold(listing)
        for rows in followed[:-1]:
            folds = self.shared.overlay(rows, folds)
        folds = self.shared.complete(view.newest, folds)
        self._keep(view)
        return view, folds

    def _read_warm(self, key: SessionKey, scopes: Sequence[Scope]) -> _Found | None:
        """Return what the cached view and the commits after it say, None if that is not enough."""
        cached = self._young(key)
        if cached is None:
            return None
        store = self._env.store
        look = self._env.pool.start(lambda: self._look(cached), near=store.near)
        listing = self.shared.listing(scopes)
        advanced = self._advance(cached, look.result())
        return None if advanced is None else (advanced[0], listing, advanced[1])

    def _read_cold(self, key: SessionKey, scopes: Sequence[Scope]) -> _Found:
        listings: list[Listing] = []
        view = self._load(key, lambda: listings.append(self.shared.listing(scopes)))
        return view, listings[-1] if listings else self.shared.listing(()), []

    def read_all(self, app_name: str, user_id: str | None) -> Iterator[SessionView]:
        """Yield the living sessions of a user, or of all users of an app, by one listing.

        Damaged ones are passed over with a logged error.

        Raises:
            StorageError: the store failed.
        """
        prefix = app_logs(app_name) if user_id is None else user_logs(app_name, user_id)
        for view in self._loader.load_all(prefix):
            self.shared.note_read(view.key, view.stamps())
            if view.alive:
                yield view

    def find(self, session_id: str, app_name: str | None = None) -> list[SessionKey]:
        """Return the living sessions of that id, of all users and of one app or all.

        Raises:
            FormatError: an object of such a session is damaged.
            StorageError: the store failed.
        """
        prefix = EVENT_LOGS if app_name is None else app_logs(app_name)
        return self._loader.owners(prefix, session_id)

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
            rows = self._make.create(key, view.marker, delta)
            if self._commit(key, view.marker, rows) is None:
                return self._keep(view.follow(rows))
            view = self.load(key)
        raise contended(key)

    def delete(self, key: SessionKey) -> None:
        """End a session; nothing happens when there is none.

        Raises:
            StorageError: it was not deleted, or (`UnknownOutcomeError`) it may have been.
        """
        for _ in range(_ATTEMPTS):
            view = self._refresh(key)
            self.shared.complete(view.newest, {})
            if not view.alive:
                return
            rows = self._make.delete(key, view.marker)
            if self._commit(key, view.marker, rows) is None:
                self._keep(view.follow(rows))
                return
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
        last = view.events(1)
        if (event_id(last[0]) if last else None) != last_event_id:
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
            there = self._commit(key, marker, rows)
            if there is None:
                self._extend(key, marker, rows, started)
                return Landed(Marker(rows[0].version, rows[0].token, started), tuple(found))

    def _load(self, key: SessionKey, listed: Callable[[], object] = lambda: None) -> SessionView:
        view = self._loader.load(key, listed)
        self.shared.note_read(key, view.stamps())
        return view

    def _refresh(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, from the cached view if there is one."""
        cached = self._young(key)
        advanced = cached and self._advance(cached, self._look(cached))
        return advanced[0] if advanced else self._load(key)

    def _young(self, key: SessionKey) -> SessionView | None:
        view = self._cache.get(key.log)
        young = view is not None and self._env.is_young(view.seen)
        self._env.metrics.add("cache_hits" if young else "cache_misses")
        return view if young else None

    def _look(self, view: SessionView) -> _Look:
        """Ask for the commit after `view`."""
        started = self._env.clock.elapsed()
        return started, probe(self._env.store, view.key.log, view.version + 1)

    def _advance(
        self, view: SessionView, look: _Look
    ) -> tuple[SessionView, list[list[EventRow]]] | None:
        """Return the view as it is now and the commits that it has more, by what `look` found.

        None if it must be loaded, since it grew old meanwhile or a sweep came between.
        """
        followed: list[list[EventRow]] = []
        started, body = look
        while body is not None:
            bodies = [body]
            if followed:  # more than one behind: all the rest at once
                started = self._env.clock.elapsed()
                rest = self._loader.bodies_above(view.key.log, view.version + 1)
                if rest is None:
                    return None
                bodies += rest
            for each in bodies:
                rows = decode_commit(view.key.log, view.version + 1, each)
                self.shared.note_read(view.key, [row.stamp for row in rows if row.stamp])
                view = view.follow(rows)
                followed.append(rows)
            if len(followed) > 1:
                break
            started, body = self._look(view)
        # Nothing more being there proves something only while the view is young: later it may be
        # swept.
        return (view.confirmed(started), followed) if self._env.is_young(view.seen) else None

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
        if not view.holds(rows[0].version, rows[0].token):
            raise stale(key)
        return Marker(marker.version, marker.token, view.seen), rows

    def _absorb(
        self, key: SessionKey, marker: Marker, rows: list[EventRow], pending: Sequence[Draft]
    ) -> Marker:
        """Take the commit `rows`, found right after `marker`, as ours, or say why it is not."""
        first = rows[0]
        if not self._env.is_young(marker.seen):
            # It may be what another stalled writer left under a name that was swept.
            self._confirm(key, first)
        self.shared.complete(rows, {})
        self.shared.note_read(key, [row.stamp for row in rows if row.stamp])
        if first.kind == "delete":
            raise missing(key)
        if not any(draft.stands_in_any(rows) for draft in pending):
            raise stale(key)
        self._extend(key, marker, rows, None)
        # Reading a commit that exists confirms nothing: the view stays as old as it was.
        return Marker(first.version, first.token, marker.seen)

    def _commit(
        self, key: SessionKey, marker: Marker, rows: list[EventRow]
    ) -> list[EventRow] | None:
        """Create the next commit, then its entries; return the rows that stand there instead."""
        first = rows[0]
        started = self._env.clock.elapsed()
        taken = put_commit(
            self._env.store,
            commit_key(key.log, first.version),
            events.encode_commit(rows),
            is_ours=lambda body: (
                decode_commit(key.log, first.version, body)[0].token == first.token
            ),
            clock=self._env.clock,
            metrics=self._env.metrics,
        )
        if taken is not None:
            return decode_commit(key.log, first.version, taken)
        if not self._env.is_young(started if marker.seen is None else min(started, marker.seen)):
            self._confirm(key, first)
        try:
            self.shared.write(rows)
        except UnknownOutcomeError:
            raise
        except StorageError as error:  # the commit stands, and is more than nothing
            raise unknown(commit_key(key.log, first.version)) from error
        return None

    def _confirm(self, key: SessionKey, commit: EventRow) -> None:
        """Make sure, by loading, that readers see a commit that took long."""
        view = self._loader.load(key)
        if view.version < commit.version or not view.holds(commit.version, commit.token):
            raise UnknownOutcomeError(
                "the commit took longer than the view age limit and cannot be found any more:"
                f" reload the session. key={commit_key(key.log, commit.version)!r}"
            )

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
            view = self._refresh(key)
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
