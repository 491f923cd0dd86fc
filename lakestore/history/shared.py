"""Shared state: what `app:` and `user:` keys are, folded from entries; and its upkeep.

The commit is the truth; entries make it quick to read. The state of a scope is the fold of its
entries, per key the latest stamp, so order of arrival, repetition and delay change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.log.entries import Entry, list_entries, parse_entry, put_entry
from lakestore.log.keys import Scope, SessionKey, app_entries, entry_key, is_stamp
from lakestore.log.stamps import Stamper
from lakestore.storage import UnreadableError
from lakestore.tables import state
from lakestore.tables.events import EventRow, delta_of
from lakestore.tables.state import StateRow, from_json, latest, split_scopes, to_json

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_FOLD_ABOVE = 64
_ROW_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class ScopeFold:
    """The state of one scope as a listing of its entries folds to. Never changes."""

    scope: Scope
    rows: Mapping[str, StateRow] = field(default_factory=dict)
    """The latest row of each key."""
    read: frozenset[str] = frozenset()
    """The keys of the entries that were read."""
    seen: float = 0.0
    """`Clock.elapsed` when the listing began."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""
        values = sum(len(row.key) + len(row.value) + _ROW_OVERHEAD for row in self.rows.values())
        return values + sum(len(key) + 200 for key in self.read)

    def values(self) -> dict[str, Any]:
        """Return the state, keys without prefix; fresh objects at each call."""
        return {key: from_json(row.value) for key, row in self.rows.items()}

    def with_entry(self, key: str, rows: Sequence[StateRow]) -> ScopeFold:
        """Return the fold that has read one more entry."""
        return ScopeFold(
            self.scope,
            latest([*self.rows.values(), *rows]),
            self.read | {key},
            self.seen,
        )

    def lacks(self, key: str, rows: Iterable[StateRow]) -> bool:
        """Tell whether entry `key`, which would hold `rows`, is neither read nor overtaken."""
        if key in self.read:
            return False
        return any(row.key not in self.rows or self.rows[row.key].stamp < row.stamp for row in rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries of some scopes that are being listed."""

    scopes: Sequence[Scope]
    prefixes: Sequence[str]
    """What is listed: all entries of `scopes`, and perhaps others."""
    started: float
    """`Clock.elapsed` when the first began."""
    answers: Sequence[Future[list[tuple[str, Entry]]]]
    """For each prefix (prefix of the scope, entry)."""

    def entries(self) -> dict[str, list[Entry]]:
        """Return the entries of each scope, by its prefix, when all are listed.

        Raises:
            StorageError: the store failed.
        """
        listed: dict[str, list[Entry]] = {scope.entries: [] for scope in self.scopes}
        for answer in self.answers:
            for folder, entry in answer.result():
                if folder in listed:
                    listed[folder].append(entry)
        return listed


class SharedState:
    """Reads and writes the state of scopes; safe to use from many threads."""

    def __init__(self, environment: Environment, stamper: Stamper) -> None:
        self._env = environment
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

    def listing(self, scopes: Sequence[Scope]) -> Listing:
        """Begin to list the entries of `scopes`, always whole: late ones may sort anywhere."""
        return self._list(scopes, [scope.entries for scope in scopes])

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

    def _list(self, scopes: Sequence[Scope], prefixes: Sequence[str]) -> Listing:
        started = self._env.clock.elapsed()
        near = self._env.store.near
        answers = [self._env.pool.start(partial(self._list_one, p), near=near) for p in prefixes]
        return Listing(scopes, prefixes, started, answers)

    def _list_one(self, prefix: str) -> list[tuple[str, Entry]]:
        return list(list_entries(self._env.store, prefix))

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
            listed = listing.entries()
            with suppress(NotFoundError):  # swept since it was listed: what covers it is there now
                folds = self._fold(listing.scopes, listed, listing.started)
                if self._env.is_young(listing.started):
                    for fold in folds.values():
                        self._keep(fold, listed[fold.scope.entries])
                    return folds
            self._env.metrics.add("retries")
            listing = self._list(listing.scopes, listing.prefixes)
        raise StorageError(
            f"entries changed faster than they could be read. prefixes={listing.prefixes}"
        )

    def _fold(
        self, scopes: Sequence[Scope], listed: Mapping[str, Sequence[Entry]], started: float
    ) -> dict[Scope, ScopeFold]:
        known = {scope: self._cache.get(scope) or ScopeFold(scope) for scope in scopes}
        missing = [
            entry.key
            for scope in scopes
            for entry in listed[scope.entries]
            if entry.key not in known[scope].read
        ]
        store = self._env.store
        bodies = self._env.pool.map(self._body_of, missing, near=store.near)
        fetched = {
            key: _decode(key, body) for key, body in zip(missing, bodies, strict=True) if body
        }
        folds = {}
        for scope in scopes:
            before, entries = known[scope], listed[scope.entries]
            new = [row for entry in entries for row in fetched.get(entry.key, ())]
            # What could not be read is tried again the next time.
            read = frozenset(e.key for e in entries if e.key in fetched or e.key in before.read)
            rows = latest([*before.rows.values(), *new]) if new else before.rows
            folds[scope] = ScopeFold(scope, rows, read, started)
        return folds

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
            fold = self.read([scope])[scope]
            if fold.rows:
                stamp = self._stamper.stamp([scope])
                body = state.encode(list(fold.rows.values()))
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
        created = {stored.key: stored.modified for stored in store.list(scope.entries)}
        listed = [entry for key in created if (entry := parse_entry(key)) is not None]
        oldest = created.get(ours, 0.0) - self._env.limits.grace
        old = [e for e in listed if e.is_fold and created.get(e.key, oldest + 1) <= oldest]
        if not old:
            return
        cover = old[-1]
        held = latest(self._rows_of(cover))
        for entry in listed:
            if entry.stamp >= cover.stamp:
                continue
            rows = self._rows_of(entry)
            if rows and all(row.key in held and held[row.key].stamp >= row.stamp for row in rows):
                store.delete(entry.key)

    def _rows_of(self, entry: Entry) -> list[StateRow]:
        """Return what an entry holds; nothing when another sweep has removed it."""
        try:
            return _decode(entry.key, self._env.store.get(entry.key))
        except NotFoundError:
            return []


def shared_rows(rows: Sequence[EventRow]) -> dict[Scope, list[StateRow]]:
    """Return what the commit with `rows` sets in shared scopes: for each the last row of a key."""
    if not rows or rows[0].stamp is None:
        return {}
    first = rows[0]
    merged: dict[Scope, dict[str, Any]] = {}
    for row in rows:
        if row.state_delta:
            _, user, app = split_scopes(delta_of(row))
            for scope, part in (
                (Scope(row.app_name, row.user_id), user),
                (Scope(row.app_name, None), app),
            ):
                if part:
                    merged.setdefault(scope, {}).update(part)
    return {
        scope: [_state_row(scope, key, value, first) for key, value in part.items()]
        for scope, part in merged.items()
    }


def _state_row(scope: Scope, key: str, value: object, source: EventRow) -> StateRow:
    assert source.stamp is not None
    return StateRow(
        app_name=scope.app_name,
        user_id=scope.user_id,
        key=key,
        value=to_json(value),
        stamp=source.stamp,
        session_id=source.session_id,
        source_user_id=source.user_id,
        version=source.version,
    )


def _decode(key: str, body: bytes) -> list[StateRow]:
    try:
        rows = state.decode(body)
        for row in rows:
            _check(key, row)
        return rows
    except FormatError:
        # One damaged entry must not take every session of its scope along; the commit that it
        # was made from still holds the truth.
        logger.exception("a state entry is damaged and was passed over. key=%r", key)
        return []


def _check(key: str, row: StateRow) -> None:
    """Refuse a row that is not its scope's, or that could not be folded."""
    if not key.startswith(Scope(row.app_name, row.user_id).entries):
        raise FormatError("a state row names another scope than its key")
    if not is_stamp(row.stamp):
        raise FormatError("a stamp is damaged")
    try:
        from_json(row.value)
    except (ValueError, RecursionError) as error:
        raise FormatError("a state value is no JSON") from error
