"""Shared state: what `app:` and `user:` keys are, folded from entries; and its upkeep.

The commit is the truth; entries make it quick to read. The state of a scope is the fold of its
entries, per key the latest stamp, so order of arrival, repetition and delay change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from lakestore.errors import LakeError, NotFoundError, StorageError
from lakestore.history.archive import Archive
from lakestore.history.cache import ByteCache
from lakestore.history.entries import decode_entry, shared_rows
from lakestore.history.environment import Environment
from lakestore.history.needless import Age, is_held
from lakestore.history.scopes import Listing, ScopeFold
from lakestore.log.entries import Entry, list_entries, parse_entry, put_entry
from lakestore.log.keys import (
    Scope,
    SessionKey,
    app_entries,
    app_manifests,
    entry_key,
)
from lakestore.log.manifests import Manifest
from lakestore.log.stamps import Stamper
from lakestore.storage import UnreadableError
from lakestore.tables import state
from lakestore.tables.events import EventRow
from lakestore.tables.state import StateRow, latest

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_FOLD_ABOVE = 64


def _place(manifest: Manifest) -> tuple[int, str]:
    return manifest.number, manifest.token


class SharedState:
    """Reads and writes the state of scopes; safe to use from many threads."""

    def __init__(self, environment: Environment, stamper: Stamper, archive: Archive) -> None:
        self._env = environment
        self._archive = archive
        self._stamper = stamper
        self._cache: ByteCache[Scope, ScopeFold] = ByteCache(environment.cache_bytes)
        self._folding: set[Scope] = set()
        self._reported: set[str] = set()

    def read(self, scopes: Sequence[Scope]) -> dict[Scope, ScopeFold]:
        """Return the state of each scope now: one LIST each, and a GET for each unseen entry.

        Raises:
            StorageError: the store failed, or the entries never held still.
        """
        return self.fold(self.listing(scopes))

    def read_app(self, app_name: str, users: Iterable[str]) -> dict[Scope, ScopeFold]:
        """Return the state of the app and of each of `users`, by one listing for all of them."""
        scopes = [Scope(app_name, None), *(Scope(app_name, user) for user in users)]
        return self.fold(self._list(scopes, [app_entries(app_name)]))

    def recent(self, scopes: Sequence[Scope], max_age: float) -> dict[Scope, ScopeFold]:
        """Return the state of each scope as it was at most `max_age` seconds ago."""
        oldest = self._env.clock.elapsed() - max_age
        known = {scope: self._cache.get(scope) for scope in scopes}
        young = {scope: fold for scope, fold in known.items() if fold and fold.seen >= oldest}
        return {**young, **self.read([scope for scope in scopes if scope not in young])}

    def listing(self, scopes: Sequence[Scope], look: Future[Manifest] | None = None) -> Listing:
        """Begin to list the entries of `scopes`, always whole: late ones may sort anywhere.

        Args:
            scopes: Of one app.
            look: Has the newest manifest of the app, if it was asked for just now.
        """
        return self._list(scopes, [scope.entries for scope in scopes], look)

    def ask_packed(self, listing: Listing) -> Listing:
        """Begin to read what jobs have packed of the scopes; waits for the manifest alone."""
        if listing.manifest is None:
            return listing
        manifest = listing.manifest.result()
        behind = [
            scope
            for scope in listing.scopes
            if (self._cache.get(scope) or ScopeFold(scope)).packed != _place(manifest)
        ]
        if not behind or not manifest.number:
            return listing
        return replace(listing, packed=self._archive.ask_state(manifest, behind))

    def _put_entry(self, scope: Scope, stamp: str, body: bytes, *, fold: bool) -> str:
        env = self._env
        return put_entry(
            env.store,
            scope.entries,
            stamp,
            body,
            fold=fold,
            clock=env.clock,
            metrics=env.metrics,
        )

    def _list(
        self,
        scopes: Sequence[Scope],
        prefixes: Sequence[str],
        look: Future[Manifest] | None = None,
    ) -> Listing:
        started = self._env.clock.elapsed()
        near = self._env.store.near
        answers = [self._env.pool.start(partial(self._list_one, p), near=near) for p in prefixes]
        known = [self._cache.get(scope) for scope in scopes]
        young = (fold is not None and self._env.is_young(fold.packed_seen) for fold in known)
        if look is None and all(young):
            return Listing(scopes, prefixes, started, answers, None)
        manifest = look or self._archive.recent(app_manifests(scopes[0].app_name))
        return Listing(scopes, prefixes, started, answers, manifest)

    def _list_one(self, prefix: str) -> list[tuple[str, Entry]]:
        return list(list_entries(self._env.store, prefix))

    def forget(self) -> None:
        """Know nothing of what was read."""
        self._cache.clear()

    def note_read(self, key: SessionKey, stamps: Sequence[str]) -> None:
        """Note that commits of a session with these stamps were read: later stamps sort after."""
        if stamps:
            for scope in (Scope(key.app_name, key.user_id), Scope(key.app_name, None)):
                self._stamper.see(scope, max(stamps))

    def write(self, rows: Sequence[EventRow]) -> None:
        """Put the entries of the commit with `rows`; nothing when it touches no shared state.

        Raises:
            StorageError: some entry may be missing; doing it again is safe.
        """
        touched = list(shared_rows(rows).items())
        self._env.pool.map(lambda it: self._put(*it), touched, near=self._env.store.near)

    def overlay(
        self, rows: Sequence[EventRow], folds: Mapping[Scope, ScopeFold]
    ) -> dict[Scope, ScopeFold]:
        """Return `folds` with the shared state of the commit with `rows`, whose entries stand."""
        result = dict(folds)
        for scope, entry in shared_rows(rows).items():
            fold = result.get(scope)
            key = entry_key(scope.entries, entry[0].stamp, fold=False)
            if fold is not None and fold.lacks(key, entry):
                result[scope] = fold.with_entry(key, entry)
        return result

    def complete(
        self, rows: Sequence[EventRow], folds: Mapping[Scope, ScopeFold]
    ) -> dict[Scope, ScopeFold]:
        """Return `folds` with the shared state of the commit with `rows`, putting missing entries.

        Whoever reads a session's last commit calls this before building on it: its writer may have
        stopped between commit and entries. A read-only lake folds them in memory.
        """
        if self._env.writable:
            for scope, entry in shared_rows(rows).items():
                fold = folds.get(scope) or self._cache.get(scope) or ScopeFold(scope)
                if fold.lacks(entry_key(scope.entries, entry[0].stamp, fold=False), entry):
                    self._put(scope, entry)
        return self.overlay(rows, folds)

    def _put(self, scope: Scope, rows: list[StateRow]) -> None:
        stamp = rows[0].stamp
        key = self._put_entry(scope, stamp, state.encode(rows), fold=False)
        self._stamper.see(scope, stamp)
        known = self._cache.get(scope)
        if known is not None:
            self._cache.put(scope, known.with_entry(key, rows))

    def fold(self, listing: Listing) -> dict[Scope, ScopeFold]:
        """Return the state of the scopes of `listing`, listed again if it does not count.

        Raises:
            StorageError: the store failed, or the entries never held still.
        """
        for _ in range(_ATTEMPTS):
            listed, look = listing.entries(), None
            try:
                folds = self._fold(listing, listed)
                if self._env.is_young(listing.started):
                    for fold in folds.values():
                        self._keep(fold, listed[fold.scope.entries])
                    return folds
            except NotFoundError:  # swept since it was listed: what covers it is there now
                look = self._archive.look(app_manifests(listing.scopes[0].app_name))
            self._env.metrics.add("retries")
            listing = self._list(listing.scopes, listing.prefixes, look)
        raise StorageError(
            f"entries changed faster than they could be read. prefixes={listing.prefixes}"
        )

    def _fold(
        self, listing: Listing, listed: Mapping[str, Sequence[Entry]]
    ) -> dict[Scope, ScopeFold]:
        scopes = listing.scopes
        known = self._with_packed(listing)
        missing = [
            entry.key
            for scope in scopes
            for entry in listed[scope.entries]
            if entry.key not in known[scope].read
        ]
        store = self._env.store
        bodies = self._env.pool.map(self._body_of, missing, near=store.near)
        fetched = {
            key: decode_entry(key, body) for key, body in zip(missing, bodies, strict=True) if body
        }
        folds = {}
        for scope in scopes:
            before, entries = known[scope], listed[scope.entries]
            new = self._counting([row for e in entries for row in fetched.get(e.key, ())])
            # What could not be read is tried again the next time.
            read = frozenset(e.key for e in entries if e.key in fetched or e.key in before.read)
            rows = latest([*before.rows.values(), *new]) if new else before.rows
            folds[scope] = replace(before, rows=rows, read=read, seen=listing.started)
        return folds

    def _with_packed(self, listing: Listing) -> dict[Scope, ScopeFold]:
        """Return what is known of each scope, with what jobs have packed of it by now."""
        known = {scope: self._cache.get(scope) or ScopeFold(scope) for scope in listing.scopes}
        if listing.manifest is None:
            return known
        manifest = listing.manifest.result()
        # When that was the newest one, which may be a while before it was listed with.
        seen = self._archive.seen(app_manifests(listing.scopes[0].app_name))
        packed = listing.packed() if listing.packed else {}
        behind = [
            scope
            for scope, fold in known.items()
            if fold.packed != _place(manifest) and scope not in packed
        ]
        if behind and manifest.number:
            packed = {**packed, **self._archive.state(manifest, behind)}
        return {
            scope: replace(
                fold,
                rows=latest([*self._unerased(manifest, fold), *packed.get(scope, ())]),
                packed=_place(manifest),
                packed_seen=min(seen, listing.started),
            )
            for scope, fold in known.items()
        }

    def _unerased(self, manifest: Manifest, fold: ScopeFold) -> list[StateRow]:
        rows = fold.rows.values()
        return [row for row in rows if not self._archive.has_erased(manifest, row)]

    def _counting(self, rows: Sequence[StateRow]) -> list[StateRow]:
        """Return those of `rows`, of entries of one app, that no erased session has set."""
        if not rows:
            return []
        manifest = self._archive.known(app_manifests(rows[0].app_name))
        return [row for row in rows if not self._archive.has_erased(manifest, row)]

    def _body_of(self, key: str) -> bytes | None:
        """Return an entry; None, with an error that is logged once, when it cannot be read."""
        try:
            body = self._env.store.get(key)
        except UnreadableError as error:
            level = logging.DEBUG if key in self._reported else logging.ERROR
            self._reported.add(key)
            logger.log(level, "a state entry cannot be read and was passed over: %s", error)
            return None
        self._reported.discard(key)
        return body

    def _keep(self, fold: ScopeFold, listed: Sequence[Entry]) -> None:
        self._cache.put(fold.scope, fold)
        if fold.rows:
            self._stamper.see(fold.scope, max(row.stamp for row in fold.rows.values()))
        folded = max((entry.stamp for entry in listed if entry.is_fold), default="")
        fresh = sum(entry.stamp > folded for entry in listed)
        if (
            fresh > _FOLD_ABOVE
            and self._env.writable
            and self._env.rollups
            and fold.scope not in self._folding
        ):
            self._folding.add(fold.scope)
            self._env.upkeep(lambda: self.fold_entries(fold.scope))

    def fold_entries(self, scope: Scope) -> None:
        """Put the fold of all entries of `scope` as one more, and sweep what an old fold covers.

        An entry may go when another one, older than the grace by the time of the store, holds an
        equal or later stamp for each of its keys.
        """
        try:
            # A pruned key stands in runs alone: an entry has no row without a value.
            rows = [row for row in self.read([scope])[scope].rows.values() if row.value is not None]
            if rows:
                stamp = self._stamper.stamp([scope])
                body = state.encode(rows)
                ours = self._put_entry(scope, stamp, body, fold=True)
                self._sweep(scope, ours)
        except LakeError:
            logger.warning(
                "a fold of state entries was not put. key=%r", scope.entries, exc_info=True
            )
        finally:
            self._folding.discard(scope)

    def _sweep(self, scope: Scope, ours: str) -> None:
        store = self._env.store
        created = {stored.key: stored for stored in store.list(scope.entries)}
        listed = [entry for key in created if (entry := parse_entry(key)) is not None]
        now = created[ours].modified if ours in created else 0.0
        age = Age.of(now, self._env.limits.grace)
        old = [entry for entry in listed if entry.is_fold and age.reaches(created[entry.key])]
        if not old:
            return
        cover = old[-1]
        # What an erased session has set must not stand for what others set under earlier stamps.
        held = latest(self._counting(self._rows_of(cover)))
        for entry in listed:
            if entry.stamp < cover.stamp and is_held(self._rows_of(entry), held):
                store.delete(entry.key)

    def _rows_of(self, entry: Entry) -> list[StateRow]:
        """Return what an entry holds; nothing when another sweep has removed it."""
        try:
            return decode_entry(entry.key, self._env.store.get(entry.key))
        except NotFoundError:
            return []
