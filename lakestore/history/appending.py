"""Appending to a session: what a refusal means, and what is sure when it returns.

Nothing is read to append: the version after the last one the caller knows is created exclusively.
What was read long ago is confirmed before it is decided on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from lakestore.history.archive import Archive
from lakestore.history.cache import ByteCache
from lakestore.history.committing import Commits
from lakestore.history.drafts import Draft, Landed, RowMaker, bodies_of, not_in
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_commit
from lakestore.history.loading import Loader
from lakestore.history.moving import STAYS, Mover, Stays
from lakestore.history.payloads import Payloads
from lakestore.history.proving import Proofs
from lakestore.history.refusals import missing, stale
from lakestore.history.shared import SharedState
from lakestore.history.view import SessionView
from lakestore.log.commits import Marker, probe, standing
from lakestore.log.keys import SessionKey, commit_key
from lakestore.log.stamps import Stamper
from lakestore.tables.events import EventRow


class Appends(ABC):
    """What appends to sessions, and all that this takes."""

    def __init__(self, environment: Environment) -> None:
        stamper = Stamper(environment.clock, environment.new_token)
        self._env = environment
        self._make = RowMaker(environment, stamper)
        self._cache: ByteCache[str, SessionView] = ByteCache(environment.cache_bytes)
        self.archive = Archive(environment)
        self.payloads = Payloads(environment)
        self._proofs = Proofs(environment)
        self._loader = Loader(environment, self.archive, self._cache)
        self.shared = SharedState(environment, stamper, self.archive)
        self._commits = Commits(environment, self._loader, self.archive, self.shared)

    @abstractmethod
    def load(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, whatever is cached; version 0 when it never was."""

    @abstractmethod
    def _extend(
        self, key: SessionKey, marker: Marker, rows: list[EventRow], seen: float | None
    ) -> None:
        """Keep the cached view true after a commit of our own, and the log short."""

    def append(
        self,
        key: SessionKey,
        marker: Marker,
        drafts: Sequence[Draft],
        payload_threshold: int | None = None,
    ) -> Landed:
        """Append `drafts` after the commit at `marker`, all in one commit.

        If one of them stands in the very next commit already, under the same id with the same
        content, that commit is this caller's, sent before: all its events count as appended, and
        only drafts that are not in it are appended after it. So does a draft that stands in the
        commit at `marker`, if that is cached: it is not read for this. When this returns, events
        and shared state are durable: 1 PUT, and 1 more for each shared scope they touch.

        Args:
            key: The session.
            marker: The last commit that the caller knows.
            drafts: What to append.
            payload_threshold: Inline bytes of more than so many bytes are moved out of the events
                and stored before, 1 PUT each that the session has not stored; None for none.

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
            pending = [it for it in drafts if not any(it.is_text_of(row) for row in found)]
        mover = self._mover(key, marker, payload_threshold)
        while True:
            if there is not None:
                marker = self._absorb(key, marker, there, pending)
                found += there
                pending = not_in(there, pending)
            if not pending:
                return Landed(marker, tuple(found))
            rows = mover.moved(self._make.events(key, marker, pending))
            started = self._env.clock.elapsed()
            there = self._commits.put(key, marker, rows)
            if there is None:
                if not mover.is_sure:
                    self._prove(key, rows, mover.bodies)
                self._proofs.note(mover.bodies)
                self._extend(key, marker, rows, started)
                return Landed(Marker(rows[0].version, rows[0].token, started), tuple(found))

    def _mover(self, key: SessionKey, marker: Marker, threshold: int | None) -> Mover | Stays:
        if threshold is None:
            return STAYS
        view = self._cache.get(key.log)
        if view is not None and (view.version, view.token) != (marker.version, marker.token):
            view = None
        return Mover(self._env, self.archive, self.payloads, self._proofs, key, threshold, view)

    def _prove(
        self, key: SessionKey, rows: Sequence[EventRow], bodies: Mapping[str, bytes]
    ) -> None:
        """Make sure of what a commit that stands refers to, before it is acknowledged."""
        if any(row.payloads for row in rows):
            with standing(commit_key(key.log, rows[0].version)):
                self._proofs.prove(key, rows, bodies, lambda: self._loader.load(key))

    def _delivered_last(
        self, key: SessionKey, marker: Marker, drafts: Sequence[Draft]
    ) -> list[EventRow]:
        """Return the rows of `drafts` in the commit at `marker`, as far as the cache knows it.

        A `Session` may show none of its events, and be sent the last one again.
        """
        view = self._cache.get(key.log)
        if view is None or (view.version, view.token) != (marker.version, marker.token):
            return []
        rows = view.newest or view.events(1)
        found = [row for row in rows if any(draft.is_text_of(row) for draft in drafts)]
        if found:
            self._prove(key, found, bodies_of(found, drafts))
        return found

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
        self._prove(key, rows, bodies_of(rows, pending))
        self._extend(key, marker, rows, None)
        # Reading a commit that exists confirms nothing: the view stays as old as it was.
        return Marker(first.version, first.token, marker.seen)
