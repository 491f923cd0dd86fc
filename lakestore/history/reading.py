"""Reading a session with its shared state and its events. Owns what is asked for side by side.

A cached view is brought up to date by asking for the next version; what is not cached is loaded.
Entries that are listed after the log was hold what it shows of acknowledged commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from typing_extensions import override

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.archive import Archive, Packed
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_commit
from lakestore.history.loading import Loader, Watcher
from lakestore.history.ranges import Answer
from lakestore.history.scopes import Listing, ScopeFold
from lakestore.history.shared import SharedState
from lakestore.history.view import SessionView
from lakestore.log.commits import probe
from lakestore.log.keys import Scope, SessionKey, app_manifests
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow

_ATTEMPTS = 8

Folds = Mapping[Scope, ScopeFold]
_Look = tuple[float, bytes | None]
"""When a commit was asked for, and its bytes, None where there is none."""
_Advanced = tuple[SessionView, list[list[EventRow]]]
"""A view as it is now, and the commits that it has more than before."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events of a session are wanted."""

    last: int | None = None
    """Only as many, the last ones; None for all."""
    after: float | None = None
    """Those before this time may be left out, in seconds since 1970 UTC."""

    def of(self, rows: list[EventRow]) -> list[EventRow]:
        """Return those of `rows`, the events of a session, that are the last ones."""
        return rows if self.last is None else rows[max(0, len(rows) - self.last) :]

    def needs_packed(self, view: SessionView) -> bool:
        """Tell whether some may be among what is packed of the session."""
        if view.packed is None:
            return False
        return self.last is None or len(view.events(self.last)) < self.last


ALL = Wanted()


@dataclass(frozen=True, slots=True)
class Found:
    """A session that was read."""

    view: SessionView
    folds: Folds
    """The shared state of its user and app."""
    rows: list[EventRow]
    """The events that were wanted, in commit order."""


class _Ahead(Watcher):
    """Asks for shared state and packed events while the log is being read."""

    def __init__(self, reader: Reader, scopes: Sequence[Scope], wanted: Wanted) -> None:
        self._reader = reader
        self.scopes = scopes
        self.wanted = wanted
        self.listing: Listing | None = None
        self.asked: tuple[Packed, Answer[list[list[EventRow]]]] | None = None

    @override
    def listed(self, look: Future[Manifest]) -> None:
        self.listing = self._reader.shared.listing(self.scopes, look)

    @override
    def packed(self, manifest: Manifest) -> None:
        if self.listing is not None:
            self.listing = self._reader.shared.ask_packed(self.listing)

    @override
    def found(self, packed: Packed) -> None:
        if packed.row.alive and self.wanted.last != 0:
            self.ask(packed)

    def ask(self, packed: Packed) -> None:
        """Begin to read packed events."""
        wanted = self.wanted
        self.asked = packed, self._reader.archive.ask_rows([packed], wanted.last, wanted.after)


class Reader:
    """Reads sessions; safe to use from many threads."""

    def __init__(
        self,
        environment: Environment,
        loader: Loader,
        archive: Archive,
        shared: SharedState,
        cache: ByteCache[str, SessionView],
    ) -> None:
        self._env = environment
        self._loader = loader
        self.archive = archive
        self.shared = shared
        self._cache = cache

    def load(self, key: SessionKey, watcher: Watcher | None = None) -> SessionView:
        """Return the session as it is now, whatever is cached; see `Loader.load`."""
        view = self._loader.load(key, watcher)
        self.shared.note_read(key, view.stamps())
        return view

    def refresh(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, from the cached view if there is one."""
        cached = self._young(key)
        advanced = cached and self._advance(cached, self._look(cached))
        return advanced[0] if advanced else self.load(key)

    def read(self, key: SessionKey, wanted: Wanted) -> Found | None:
        """See `Sessions.read_events`."""
        for _ in range(_ATTEMPTS):
            try:
                return self._read(key, wanted)
            except NotFoundError:
                self._forget(key)
        raise StorageError(f"packs changed faster than they could be read. log={key.log!r}")

    def _read(self, key: SessionKey, wanted: Wanted) -> Found | None:
        scopes = (Scope(key.app_name, key.user_id), Scope(key.app_name, None))
        ahead = _Ahead(self, scopes, wanted)
        advanced = self._read_warm(key, ahead)
        view, followed = advanced or (self.load(key, ahead), [])
        if not view.alive:
            return None
        folds: Folds = self.shared.fold(ahead.listing or self.shared.listing(scopes))
        for rows in followed[:-1]:
            folds = self.shared.overlay(rows, folds)
        folds = self.shared.complete(view.newest, folds)
        self._cache.put(key.log, view)
        return Found(view, folds, self._rows(view, wanted, ahead))

    def _read_warm(self, key: SessionKey, ahead: _Ahead) -> _Advanced | None:
        """Return what the cached view and the commits after it say, None if that is not enough."""
        cached = self._young(key)
        if cached is None:
            return None
        store = self._env.store
        look = self._env.pool.start(lambda: self._look(cached), near=store.near)
        ahead.listing = self.shared.listing(ahead.scopes)
        if cached.packed is not None and ahead.wanted.needs_packed(cached):
            ahead.ask(cached.packed)
        return self._advance(cached, look.result())

    def _rows(self, view: SessionView, wanted: Wanted, ahead: _Ahead) -> list[EventRow]:
        fresh = view.events(wanted.last)
        if view.packed is None or not wanted.needs_packed(view):
            return wanted.of(fresh)
        if ahead.asked is not None and ahead.asked[0] == view.packed:
            (packed,) = ahead.asked[1]()
        else:
            (packed,) = self.archive.rows_of([view.packed], wanted.last, wanted.after)
        return wanted.of([*(row for row in packed if row.kind == "event"), *fresh])

    def _young(self, key: SessionKey) -> SessionView | None:
        view = self._cache.get(key.log)
        young = view is not None and self._env.is_young(view.seen)
        self._env.metrics.add("cache_hits" if young else "cache_misses")
        return view if young else None

    def _look(self, view: SessionView) -> _Look:
        """Ask for the commit after `view`."""
        started = self._env.clock.elapsed()
        return started, probe(self._env.store, view.key.log, view.version + 1)

    def _advance(self, view: SessionView, look: _Look) -> _Advanced | None:
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

    def events(
        self, views: Sequence[SessionView], wanted: Wanted
    ) -> list[list[EventRow] | FormatError | UnreadableError]:
        """See `Sessions.events`."""
        deep = [view.packed for view in views if view.packed and wanted.needs_packed(view)]
        try:
            packed = iter(self.archive.rows_of(deep, wanted.last, wanted.after))
        except (NotFoundError, FormatError, UnreadableError):  # of some session: each by itself
            return [self._events_of(view, wanted) for view in views]
        found: list[list[EventRow] | FormatError | UnreadableError] = []
        for view in views:
            below = next(packed) if view.packed and wanted.needs_packed(view) else []
            events = [row for row in below if row.kind == "event"]
            found.append(wanted.of([*events, *view.events(wanted.last)]))
        return found

    def _forget(self, key: SessionKey) -> None:
        """Begin again with the newest manifest: what was packed was packed again, and swept."""
        self._cache.drop(key.log)
        self.archive.newest(app_manifests(key.app_name))

    def _events_of(
        self, view: SessionView, wanted: Wanted
    ) -> list[EventRow] | FormatError | UnreadableError:
        for _ in range(_ATTEMPTS):
            try:
                return self._rows(view, wanted, _Ahead(self, (), wanted))
            except NotFoundError:
                self._forget(view.key)
                view = self.load(view.key)
            except (FormatError, UnreadableError) as error:
                return error
        raise StorageError(f"packs changed faster than they could be read. log={view.key.log!r}")
