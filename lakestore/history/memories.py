"""What agents remember: indexes that follow entries and runs, and how memories are stored.

Owns which rows of a scope count. What they are found by is `lakestore.search`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from lakestore.errors import NotFoundError, StorageError
from lakestore.history.archive import ERASED, FOLDED, MEMORY, Archive
from lakestore.history.cache import ByteCache
from lakestore.history.entries import decoded
from lakestore.history.environment import Environment
from lakestore.history.erased import origin_digest
from lakestore.history.memory_folds import Held, MemoryFolds, holding
from lakestore.log.entries import is_fold, list_entries, name_of, put_entry
from lakestore.log.keys import Scope, app_manifests, entry_key
from lakestore.log.manifests import Manifest
from lakestore.log.stamps import Stamper, stamp_text
from lakestore.search.index import Index, Ranking
from lakestore.storage import UnreadableError
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow, place_of

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LAST_COUNT = 999_999
_NAME_BYTES = 200
"""About what the key of an entry, or a stamp, takes in a set."""

Basis = tuple[tuple[str, ...], ...]
"""The runs, of memory and of what says which rows count, that an index was made of."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The index of one scope, and what it holds."""

    index: Index
    basis: Basis
    packed: frozenset[str]
    """The names of the entries that those runs hold, of all scopes of the app, which share it."""
    read: frozenset[str]
    """The keys of the entries that the index has besides."""
    folds: Held = field(default_factory=dict)
    """What the folds among them hold."""
    nbytes: int = 0
    """About how many bytes of memory it takes."""

    def sized(self) -> Followed:
        """Return it with its size as it is now."""
        names = len(self.read) + sum(len(fold.stamps) for fold in self.folds.values())
        return replace(self, nbytes=self.index.nbytes + _NAME_BYTES * names)


class Memories:
    """The memories of users and apps, by one ranking; safe to use from many threads."""

    def __init__(self, environment: Environment, archive: Archive, ranking: Ranking) -> None:
        self.ranking = ranking
        self._env = environment
        self._archive = archive
        self._stamper = Stamper(environment.clock, environment.new_token)
        self._folds = MemoryFolds(environment, archive, self._stamper)
        self._cache: ByteCache[Scope, Followed] = ByteCache(
            environment.cache_bytes, keeps_larger=True
        )
        self._reported: set[str] = set()

    def indexes(self, scopes: Sequence[Scope]) -> list[Index]:
        """Return the index of each scope as it is now: warm one LIST each, side by side.

        Args:
            scopes: Of one app.

        Raises:
            FormatError: the app's newest manifest, or a run of its memories, is damaged.
            StorageError: the store failed, or the entries never held still.
        """
        manifests = app_manifests(scopes[0].app_name)
        look: Future[Manifest] | None = None
        for _ in range(_ATTEMPTS):
            started = self._env.clock.elapsed()
            answers = [
                self._env.pool.start(partial(self._list, scope), near=self._env.store.near)
                for scope in scopes
            ]
            # After the listings are begun: what is swept between the two is packed by then.
            look = look or self._archive.recent(manifests)
            listed = [answer.result() for answer in answers]
            try:
                manifest = replace(look.result(), app_name=scopes[0].app_name)
                found = list(map(partial(self._follow, manifest), scopes, listed))
            except NotFoundError:  # swept since: what covers it is named by now
                look = self._archive.look(manifests)
            else:
                if self._env.is_young(started):
                    for scope, keys, followed in zip(scopes, listed, found, strict=True):
                        fresh = (key for key in keys if name_of(key) not in followed.packed)
                        self._folds.consider(scope, fresh, followed.folds)
                    return [followed.index for followed in found]
                look = None
            self._env.metrics.add("retries")
        raise StorageError(f"memories changed faster than they could be read. prefix={manifests!r}")

    def _list(self, scope: Scope) -> list[str]:
        prefix = scope.entries_in(MEMORY.entries)
        return [entry.key for _, entry in list_entries(self._env.store, prefix)]

    def _follow(self, manifest: Manifest, scope: Scope, listed: Sequence[str]) -> Followed:
        """Bring the index of a scope up to what is packed and `listed`.

        Raises:
            NotFoundError: something of it was swept.
        """
        known = before = self._cache.get(scope)
        if known is None or known.basis != _basis(manifest):
            # Anew, also where little has changed: rows may have been pruned, erased or swapped.
            known = self._packed(manifest, scope)
        missing = [
            key for key in listed if key not in known.read and name_of(key) not in known.packed
        ]
        if missing:
            bodies = self._env.pool.map(self._body_of, missing, near=self._env.store.near)
            read = [key for key, body in zip(missing, bodies, strict=True) if body is not None]
            entries = _decoded(missing, bodies)
            rows = list(self._counting(manifest, chain(*entries.values()), known.packed))
            if rows:
                known.index.add(memory.to_table(rows))
            folds = {key: holding(found) for key, found in entries.items() if is_fold(key)}
            known = replace(known, read=known.read.union(read), folds={**known.folds, **folds})
        if known.index.rows.latest:  # later stamps of the scope sort after all that was read
            self._stamper.see(scope, known.index.rows.latest)
        if known is not before:
            self._keep(scope, known)
        return known

    def _packed(self, manifest: Manifest, scope: Scope) -> Followed:
        tables = self._archive.ask_tables(MEMORY, manifest, scope.user_id)
        packed = self._archive.folded(manifest)
        index = self.ranking.index()
        for table in tables():
            index.add(table)
        return Followed(index, _basis(manifest), packed, frozenset())

    def _body_of(self, key: str) -> bytes | None:
        """Return an entry; None, with an error that is logged once, when it cannot be read."""
        try:
            return self._env.store.get(key)
        except UnreadableError as error:
            level = logging.DEBUG if key in self._reported else logging.ERROR
            self._reported.add(key)
            logger.log(level, "memories cannot be read and were passed over: %s", error)
            return None

    def _note_erased(self, manifest: Manifest, scope: Scope, user_id: str | None) -> None:
        """Let later stamps of the scope sort after what was erased of a user."""
        gone = self._archive.erased(manifest).get(origin_digest(scope.app_name, user_id, ""))
        if gone is not None:
            self._stamper.see(scope, stamp_text(gone.version, _LAST_COUNT, ""))

    def _counting(
        self, manifest: Manifest, rows: Iterable[MemoryRow], packed: Collection[str]
    ) -> Iterator[MemoryRow]:
        """Yield the rows of entries, but what was erased, and what a fold has of packed ones."""
        for row in rows:
            is_packed = MEMORY.name_of(row) in packed
            if not is_packed and not self._archive.has_erased(manifest, row):
                yield row

    def _keep(self, scope: Scope, followed: Followed) -> None:
        self._cache.put(scope, followed.sized())

    def put(self, scope: Scope, rows: Iterable[MemoryRow]) -> None:
        """Store rows as one entry of their scope, which `indexes` has just read; all or none.

        They get its stamp, the number of each among them, the time, and, where they have none,
        a place. Rows of app-wide memory get a stamp that is later than what was erased of the
        users that they are from, too. Of a session that was erased nothing is stored.

        Raises:
            StorageError: they may not be there; putting them again is safe.
        """
        given = list(rows)
        if not given:
            return
        manifest = self._archive.known(app_manifests(scope.app_name))
        for user in {row.source_user_id for row in given}:
            self._note_erased(manifest, scope, user)
        stamp = self._stamper.stamp([scope])
        now = max(0, int(self._env.clock.wall() * 1_000_000))
        stamped = [
            replace(
                row,
                stamp=stamp,
                ordinal=number,
                place=row.place or place_of(stamp, number),
                inserted_at=now,
            )
            for number, row in enumerate(given)
        ]
        counting = [row for row in stamped if not self._archive.has_erased(manifest, row)]
        if counting:
            self._put(scope, stamp, counting)

    def _put(self, scope: Scope, stamp: str, rows: Sequence[MemoryRow]) -> None:
        env, prefix = self._env, scope.entries_in(MEMORY.entries)
        table = memory.to_table(rows)
        put_entry(
            env.store,
            prefix,
            stamp,
            memory.encode_table(table),
            fold=False,
            clock=env.clock,
            metrics=env.metrics,
        )
        known = self._cache.get(scope)
        if known is not None:
            known.index.add(table)
            key = entry_key(prefix, stamp, fold=False)
            self._keep(scope, replace(known, read=known.read | {key}))

    def rows(self, scope: Scope) -> list[MemoryRow]:
        """Return all rows of a scope that count, forgets among them, in the order of their places.

        One LIST, one GET for each entry that is not packed, and what the runs take.

        Raises:
            FormatError, StorageError: see `indexes`.
        """
        for _ in range(_ATTEMPTS):
            keys = self._list(scope)
            manifest = self._archive.newest(app_manifests(scope.app_name))
            manifest = replace(manifest, app_name=scope.app_name)
            try:
                return self._rows(manifest, scope, keys)
            except NotFoundError:
                self._env.metrics.add("retries")
        raise StorageError(f"memories changed faster than they could be read. scope={scope!r}")

    def _rows(self, manifest: Manifest, scope: Scope, keys: Sequence[str]) -> list[MemoryRow]:
        tables = self._archive.ask_tables(MEMORY, manifest, scope.user_id)
        packed = self._archive.folded(manifest)
        fresh = [key for key in keys if name_of(key) not in packed]
        bodies = self._env.pool.map(self._body_of, fresh, near=self._env.store.near)
        read = chain(*_decoded(fresh, bodies).values())
        entries = self._counting(manifest, read, packed)
        found: dict[str, MemoryRow] = {}
        for row in chain(*map(memory.from_table, tables()), entries):
            known = found.get(row.key)
            found[row.key] = row if known is None else memory.merge(known, row)
        counting = (row for row in found.values() if row.ending not in found)
        return sorted(counting, key=lambda row: row.first_place)


def _decoded(keys: Iterable[str], bodies: Iterable[bytes | None]) -> dict[str, list[MemoryRow]]:
    """Return the rows of entries, of those that could be read."""
    return {
        key: decoded(MEMORY.read, key, body)
        for key, body in zip(keys, bodies, strict=True)
        if body is not None
    }


def _basis(manifest: Manifest) -> Basis:
    """Return what an index depends on besides entries."""
    return tuple(
        tuple(file.id for file in manifest.table(name).runs)
        for name in (MEMORY.name, FOLDED.name, ERASED.name)
    )
