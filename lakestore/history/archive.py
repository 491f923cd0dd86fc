"""What jobs have packed: the newest manifest of an app, and what the runs and packs of it hold.

An object that a manifest names may be swept once that manifest is superseded and old: reading it
then raises `NotFoundError`, and the reader begins again with a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.environment import Environment
from lakestore.history.erased import Sourced, is_erased, stand_in
from lakestore.history.keyed import KEYED, MEMORY, PREVIOUS, STATE, TELEMETRY, Keyed
from lakestore.history.packs import Packed, Packs, rows_in
from lakestore.history.ranges import Answer
from lakestore.history.runs import ARTIFACTS, ERASED, EVENTS, FIRST, FOLDED, LAST, Kind, Place, Runs
from lakestore.log.entries import name_of
from lakestore.log.keys import Scope, SessionKey, log_digest, parse_log, user_in
from lakestore.log.manifests import Manifest, StoredFile, newest_manifest
from lakestore.storage import UnreadableError
from lakestore.tables import events, state
from lakestore.tables.erased import ErasedRow
from lakestore.tables.events import EventRow
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow

__all__ = [
    "ARTIFACTS",
    "ERASED",
    "EVENTS",
    "FIRST",
    "FOLDED",
    "KEYED",
    "LAST",
    "MEMORY",
    "PREVIOUS",
    "STATE",
    "TELEMETRY",
    "Archive",
    "Keyed",
    "Kind",
    "Packed",
    "Place",
]

R = TypeVar("R")

_NAMES_KEPT = 65_536


class Archive:
    """Reads what jobs have packed; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        # By the prefix of the app's manifests, with the time at which the newest was asked for.
        self._manifests: dict[str, tuple[Manifest, float]] = {}
        # By app, as of the runs that are named with it.
        self._erased: dict[str, tuple[tuple[StoredFile, ...], dict[str, ErasedRow]]] = {}
        # The same of what runs name as packed, unless it is much.
        self._folded: dict[str, tuple[tuple[StoredFile, ...], frozenset[str]]] = {}
        self._packs = Packs(environment, events.COMMIT_SCHEMA, environment.cache_bytes)

    def look(self, manifests: str) -> Future[Manifest]:
        """Begin to ask for the newest manifest of an app: 1 LIST, and 1 GET when it is a new one.

        Args:
            manifests: The prefix of the app's manifests.

        Returns:
            The manifest; its number is 0 when no job has worked on the app.
        """
        return self._env.pool.start(lambda: self.newest(manifests), near=self._env.store.near)

    def newest(self, manifests: str) -> Manifest:
        """Return the newest manifest of an app, see `look`.

        Raises:
            FormatError: it is damaged.
            StorageError: the store failed.
        """
        known, _ = self._manifests.get(manifests, (None, 0.0))
        started = self._env.clock.elapsed()
        found = newest_manifest(self._env.store, manifests, known)
        self._manifests[manifests] = (found, started)
        return found

    def recent(self, manifests: str) -> Future[Manifest]:
        """As `look`, without a request if the process has looked within the view age limit.

        What a newer manifest has packed meanwhile is still where it was: nothing is swept so soon.
        """
        if not self.is_recent(manifests):
            return self.look(manifests)
        answer: Future[Manifest] = Future()
        answer.set_result(self._manifests[manifests][0])
        return answer

    def seen(self, manifests: str) -> float:
        """Return `Clock.elapsed` when the newest manifest was last asked for; it was before."""
        return self._manifests[manifests][1]

    def is_recent(self, manifests: str) -> bool:
        """Tell whether the newest manifest was asked for within the view age limit."""
        return manifests in self._manifests and self._env.is_young(self.seen(manifests))

    def known(self, manifests: str) -> Manifest:
        """Return the manifest that `newest` returned last; number 0 if it was never called."""
        return self._manifests.get(manifests, (Manifest("", 0), 0.0))[0]

    def erased(self, manifest: Manifest) -> Mapping[str, ErasedRow]:
        """Return the sessions that were erased, by the digests of their logs.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        files = manifest.table(ERASED.name).runs
        if not files:
            return {}
        known = self._erased.get(manifest.app_name)
        if known is None or known[0] != files:
            rows = self.rows_in(ERASED, manifest.app_name, files)
            known = self._erased[manifest.app_name] = (files, {row.digest: row for row in rows})
        return known[1]

    def folded(self, manifest: Manifest) -> frozenset[str]:
        """Return the names of entries that are packed, as far as they are noted.

        What cannot be read counts for nothing: it only saves work.

        Raises:
            StorageError: the store failed.
        """
        app, files = manifest.app_name, manifest.table(FOLDED.name).runs
        known = self._folded.get(app)
        if known is not None and known[0] == files:
            return known[1]
        try:
            names = frozenset(self.rows_in(FOLDED, app, files))
        except (NotFoundError, FormatError, UnreadableError):
            return frozenset()
        if len(names) <= _NAMES_KEPT:
            self._folded[app] = (files, names)
        return names

    def has_folded(self, manifest: Manifest, entry: str) -> bool:
        """Tell whether runs are known to hold each key of the entry under a key, or a later value.

        That can be told of a damaged one, too. Where sessions were erased, it is not known of
        users' entries: what is packed of those may be gone.

        Raises:
            StorageError: the store failed.
        """
        if manifest.table(ERASED.name).runs and user_in(entry):
            return False
        return name_of(entry) in self.folded(manifest)

    def has_erased(self, manifest: Manifest, row: Sourced) -> bool:
        """Tell whether what set `row` was erased, so that it counts for nobody.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        erased = self.erased(manifest)
        return bool(erased) and is_erased(erased, row)

    def erased_log(self, manifest: Manifest, log: str) -> Packed | None:
        """Return what stands for the session whose log has the prefix `log` if it was erased.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        row = self.erased(manifest).get(log_digest(log))
        if row is None:
            return None
        key = parse_log(log) or SessionKey(manifest.app_name, "", "")
        return Packed(stand_in(key, row), manifest, erased=True)

    def _erased_session(self, manifest: Manifest, key: SessionKey) -> Packed | None:
        row = self.erased(manifest).get(log_digest(key.log))
        return None if row is None else Packed(stand_in(key, row), manifest, erased=True)

    def session(self, manifest: Manifest, key: SessionKey) -> Packed | None:
        """Return what is packed of one session, None when nothing is.

        Raises:
            NotFoundError: an object was swept: begin with a newer manifest.
            FormatError: an object is damaged.
            StorageError: the store failed.
        """
        place = (key.user_id, key.session_id)
        row = self._sessions(manifest).at([place]).get(place)
        return Packed(row, manifest) if row is not None else self._erased_session(manifest, key)

    def sessions_at(self, manifest: Manifest, places: Iterable[Place]) -> dict[Place, Packed]:
        """Return what is packed of some sessions, each row group of a run read once.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        if not manifest.number:
            return {}
        wanted = set(places)
        rows = self._sessions(manifest).at(wanted)
        found = {place: Packed(row, manifest) for place, row in rows.items()}
        for place in wanted.difference(found) if self.erased(manifest) else ():
            gone = self._erased_session(manifest, SessionKey(manifest.app_name, *place))
            if gone is not None:
                found[place] = gone
        return found

    def sessions(
        self, manifest: Manifest, user_id: str | None = None, after: Place | None = None
    ) -> Iterator[Packed]:
        """Yield what is packed of all sessions, or of those of one user, by user and session.

        Args:
            manifest: Says what is packed.
            user_id: The user, None for all.
            after: Only sessions after this one, a user and a session.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        low = FIRST if user_id is None else (user_id, "")
        if after is not None:
            low = max(low, (after[0], after[1] + "\0"))
        high = (LAST[0] if user_id is None else user_id, LAST[1])
        return (Packed(row, manifest) for row in self._sessions(manifest).rows(low, high))

    def _sessions(self, manifest: Manifest) -> Runs[SessionRow]:
        files = manifest.table(EVENTS.name).runs
        return Runs(self._env, EVENTS, manifest.app_name, files)

    def rows_in(
        self,
        kind: Kind[R],
        app_name: str,
        files: Sequence[StoredFile],
        low: Place = FIRST,
        high: Place = LAST,
    ) -> Iterator[R]:
        """Yield the rows of some runs from `low` to `high`, ascending, one a place.

        Args:
            kind: What the runs hold.
            app_name: The app.
            files: The runs, newest first: what a newer one says replaces what older ones say.
            low: The first place.
            high: The last place.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        return Runs(self._env, kind, app_name, files).rows(low, high)

    def state(self, manifest: Manifest, scopes: Sequence[Scope]) -> dict[Scope, list[StateRow]]:
        """Return what is packed of the state of some scopes, of each key the latest row.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        return self.ask_state(manifest, scopes)()

    def ask_state(
        self, manifest: Manifest, scopes: Sequence[Scope]
    ) -> Answer[dict[Scope, list[StateRow]]]:
        """Begin to read what `state` returns."""
        app, files = manifest.app_name, manifest.table(STATE.name).runs
        users = {scope.user_id or "" for scope in scopes}
        answer = Runs(self._env, STATE, app, files).ask_between(
            [((user, ""), (user, LAST[1])) for user in users]
        )

        def found() -> dict[Scope, list[StateRow]]:
            rows: dict[Scope, list[StateRow]] = {scope: [] for scope in scopes}
            for row in answer():
                rows[Scope(app, row.user_id)].append(row)
            return {scope: list(state.latest(each).values()) for scope, each in rows.items()}

        return found

    def ask_tables(
        self, kind: Kind[R], manifest: Manifest, user_id: str | None
    ) -> Answer[list[pa.Table]]:
        """Begin to read what is packed of a user (None: of the app itself), run by run.

        The answer raises as `session` does.
        """
        runs = Runs(self._env, kind, manifest.app_name, manifest.table(kind.name).runs)
        user = user_id or ""
        return runs.ask_tables((user, ""), (user, LAST[1]))

    def rows_at(self, kind: Kind[R], manifest: Manifest, places: Iterable[Place]) -> dict[Place, R]:
        """Return what is packed at some places of a table.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        if not manifest.number:
            return {}
        files = manifest.table(kind.name).runs
        return Runs(self._env, kind, manifest.app_name, files).at(places)

    def rows_between(
        self, kind: Kind[R], manifest: Manifest, spans: Sequence[tuple[Place, Place]]
    ) -> dict[Place, R]:
        """Return what is packed in any of `spans` (first and last place) of a table.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        runs = Runs(self._env, kind, manifest.app_name, manifest.table(kind.name).runs)
        found: dict[Place, R] = {}
        for row in runs.ask_between(spans)():  # of newer runs first
            found.setdefault(kind.place(row), row)
        return found

    def rows(self, packed: Packed, last: int | None = None) -> list[EventRow]:
        """Return the packed rows of a session in commit order, its `create` row included.

        Args:
            packed: The session.
            last: Only as many, the last ones.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        (found,) = self.rows_of([packed], last)
        return found

    def rows_of(
        self, packed: Sequence[Packed], last: int | None = None, after: float | None = None
    ) -> list[list[EventRow]]:
        """Return the packed rows of many sessions; see `rows`.

        What lies side by side in a pack is read together. Where all events of a segment are before
        `after`, in seconds since 1970 UTC, it is not read.
        """
        return self.ask_rows(packed, last, after)()

    def ask_rows(
        self, packed: Sequence[Packed], last: int | None = None, after: float | None = None
    ) -> Answer[list[list[EventRow]]]:
        """Begin to read what `rows_of` returns."""
        answer = self._packs.ask(packed, last, after)
        return lambda: [rows_in(table) for table in answer()]
