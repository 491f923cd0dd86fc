"""Loading sessions from their logs, one or many. Owns when what was read counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice

from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.history.archive import Archive, Packed, Place
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.folding import DamagedRollupError, Plan, decode_commit, fold, plan_of
from lakestore.history.listed import Done, Listed, named, paired
from lakestore.history.portions import Portions
from lakestore.history.view import SessionView
from lakestore.log.commits import LogFiles, first_log, list_log, list_logs
from lakestore.log.folders import folders
from lakestore.log.ids import decode_id, encode_id
from lakestore.log.keys import (
    EVENT_LOGS,
    MANIFESTS,
    SessionKey,
    app_logs,
    app_manifests,
    commit_key,
    manifests_beside,
    parse_log,
    rollup_key,
    user_logs,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables.runs import SessionRow

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LOGS_AT_ONCE = 256
_BYTES_AT_ONCE = 64 * 2**20


class Watcher:
    """Is told how far a load has come, so that what it leads to is asked for meanwhile.

    A load that begins again tells everything again.
    """

    def listed(self, look: Future[Manifest]) -> None:
        """Take note that objects were listed; `look` has the newest manifest, now or soon."""

    def packed(self, manifest: Manifest) -> None:
        """Take note that this is the manifest; what is packed of the session is read next."""

    def found(self, packed: Packed) -> None:
        """Take note of what is packed of the session; what is not is read next."""


class Loader:
    """Reads logs into views; a view is returned only if all it took was read while it was young."""

    def __init__(
        self, environment: Environment, archive: Archive, cache: ByteCache[str, SessionView]
    ) -> None:
        self._env = environment
        self._archive = archive
        self._cache = cache
        self._reported: set[str] = set()

    def load(self, key: SessionKey, watcher: Watcher | None = None) -> SessionView:
        """Return the session as it is now, by listing its log; version 0 when there is none.

        Args:
            key: Names it.
            watcher: Is told how far it has come.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed, or the log never held still.
        """
        view, started = self._load_log(key.log, key, watcher or Watcher())
        return view or SessionView(key, started)

    def _load_log(
        self,
        log: str,
        key: SessionKey | None = None,
        watcher: Watcher | None = None,
        before: LogFiles | None = None,
    ) -> tuple[SessionView | None, float]:
        """Return what a log folds to, None when nothing is in it, and when its listing began.

        Args:
            log: Its prefix.
            key: The session, if it is known.
            watcher: Is told how far it has come.
            before: What was listed of it a moment ago, if that had a gap.
        """
        damaged: set[int] = set()
        manifests = manifests_beside(log)
        ask = self._archive.recent if before is None else self._archive.look
        for _ in self._attempts():
            started = self._env.clock.elapsed()
            look, ask = ask(manifests), self._archive.look
            files = list_log(self._env.store, log)
            try:
                packed = self._packed(log, key, files, look, watcher or Watcher())
                plan = plan_of(log, files.without_rollups(damaged), packed)
                # A gap that is still there is no sweep's doing: what stands above it was refused.
                if plan.gap and files != before:
                    before = files
                    continue
                view = self._read_one(plan, started)
            except NotFoundError:  # swept since it was listed
                continue
            except DamagedRollupError as error:
                if plan.has_more_below:
                    logger.error("a rollup is damaged and was passed over: %s", error)
                    damaged.add(error.version)
                    continue
                raise
            if self._env.is_young(started) and self._archive.is_recent(manifests):
                return view, started
        raise StorageError(f"a log changed faster than it could be read. {log=}")

    def _packed(
        self,
        log: str,
        key: SessionKey | None,
        files: LogFiles,
        look: Future[Manifest],
        watcher: Watcher,
    ) -> Packed | None:
        """Return what is packed of a log."""
        if files.commits:
            watcher.listed(look)
        manifest = look.result()
        if not manifest.number:
            return None
        if not files.commits:
            watcher.listed(look)
        watcher.packed(manifest)
        key = key or self._key_of(log, files)
        if key is not None:
            packed = self._archive.session(manifest, key)
        else:
            packed = self._archive.erased_log(manifest, log)
        if packed is not None:
            watcher.found(packed)
        return packed

    def _key_of(self, log: str, files: LogFiles) -> SessionKey | None:
        """Return whose log it is; None when only a digest tells, and nothing is listed."""
        key = parse_log(log)
        if key is not None or not files.commits:
            return key
        # Of an id that was too long for a name only a digest is left in it.
        body = self._env.store.get(commit_key(log, files.commits[-1]))
        row = decode_commit(log, files.commits[-1], body)[0]
        return SessionKey(row.app_name, row.user_id, row.session_id)

    def _attempts(self) -> Iterator[None]:
        yield
        for _ in range(1, _ATTEMPTS):
            self._env.metrics.add("retries")
            yield

    def bodies_above(self, log: str, version: int) -> list[bytes] | None:
        """Return the commits that follow `version`, by one listing; None if a sweep came between.

        Raises:
            StorageError: the store failed.
        """
        commits, gap = list_log(self._env.store, log, above=version).above(version)
        if gap:
            return None
        try:
            return self._fetch([commit_key(log, commit) for commit in commits])
        except NotFoundError:
            return None

    def _fetch(self, keys: Sequence[str]) -> list[bytes]:
        store = self._env.store
        return self._env.pool.map(store.get, keys, near=store.near)

    def _read_one(self, plan: Plan, started: float) -> SessionView | None:
        try:
            view = self._read([plan], started)[0]
        except UnreadableError as error:
            rollup = plan.rollup or 0
            if plan.has_more_below and rollup_key(plan.log, rollup) in error.keys:
                raise DamagedRollupError(str(error), rollup) from error
            raise
        if isinstance(view, FormatError):
            raise view
        return view

    def apps(self) -> list[str]:
        """Return the names of all apps that have sessions, by a few requests for each.

        An app of so long a name that only what is damaged tells it is passed over, with an error
        that is logged.

        Raises:
            StorageError: the store failed.
        """
        store = self._env.store
        manifests = set(folders(store, MANIFESTS))
        found = []
        for part in sorted({*folders(store, EVENT_LOGS), *manifests}):
            log = None if part in manifests else first_log(store, f"{EVENT_LOGS}{part}/")
            if part in manifests or log is not None:  # something of ours is in it
                found.append(decode_id(part.removeprefix("app=")) or self._name_of(part, log))
        return [name for name in found if name is not None]

    def _name_of(self, part: str, log: str | None) -> str | None:
        """Return the name of an app of which only a digest is in keys."""
        try:
            if log is None:
                return self._archive.newest(f"{MANIFESTS}{part}/").app_name
            view, _ = self._load_log(log)
            return view.key.app_name if view else None
        except (FormatError, UnreadableError) as error:
            self._report(part, error)
            return None

    def owners(self, app_name: str, session_id: str) -> list[SessionKey]:
        """Return the living sessions of an app that have that id, whoever's they are.

        Raises:
            StorageError: the store failed.
        """
        ending = f"/session={encode_id(session_id)}/"
        look = self._archive.look(app_manifests(app_name))
        listed = (log for log, _ in list_logs(self._env.store, app_logs(app_name)))
        logs = {log: parse_log(log) for log in listed if log.endswith(ending)}
        packed = (each.key for each in self._archive.sessions(look.result()))
        logs.update({key.log: key for key in packed if key.session_id == session_id})
        views = (self._load_log(log, key)[0] for log, key in sorted(logs.items()))
        return [view.key for view in views if view is not None and view.alive]

    def load_all(self, app_name: str, user_id: str | None) -> Iterator[SessionView]:
        """Yield every session of an app or of one user, deleted ones too, by two listings.

        A damaged or unreadable session is passed over, with an error that is logged once; it must
        not hide the others.

        Raises:
            StorageError: the store failed.
        """
        done = Done()
        for attempt, _ in enumerate(self._attempts()):
            if attempt:
                self._archive.newest(app_manifests(app_name))
            with suppress(NotFoundError):  # what was packed was packed again, and swept
                while not done.all:
                    yield from self._load_listed(app_name, user_id, done)
                return
        raise StorageError(f"packs changed faster than they could be read. {app_name=}")

    def _load_listed(self, app_name: str, user_id: str | None, done: Done) -> Iterator[SessionView]:
        """Yield what is not done yet, as long as one listing counts."""
        started = self._env.clock.elapsed()
        look = self._archive.recent(app_manifests(app_name))
        prefix = app_logs(app_name) if user_id is None else user_logs(app_name, user_id)
        logs = {log: f for log, f in list_logs(self._env.store, prefix) if log not in done.logs}
        packed = self._archive.sessions(look.result(), user_id, done.packed)
        pairs = paired(self._archive, look.result(), logs, packed)
        while batch := list(islice(pairs, _LOGS_AT_ONCE)):
            yield from self._load_some(app_name, batch, started)
            done.note(batch)
            if not self._is_young(started, app_name):
                return
        done.all = True

    def load_fresh(
        self, app_name: str, first: str, last: str
    ) -> Iterator[tuple[SessionView, SessionRow | None]]:
        """See `Sessions.fresh`."""
        started = self._env.clock.elapsed()
        manifests = app_manifests(app_name)
        look = self._archive.look(manifests)
        logs = dict(list_logs(self._env.store, app_logs(app_name), first, last))
        listed = sorted(self._fresh(logs), key=lambda each: each[0])
        for begin in range(0, len(listed), _LOGS_AT_ONCE):
            manifest = self._archive.newest(manifests) if begin else look.result()
            batch = self._unpacked(manifests, manifest, listed[begin : begin + _LOGS_AT_ONCE])
            packed = {log: it.row if it else None for log, _, it in batch}
            for view in self._load_some(app_name, batch, started):
                # One that was loaded by itself may have met a newer manifest.
                before = view.packed.row if view.packed else packed[view.key.log]
                # All of one that ended may have been packed, or erased, meanwhile.
                has_own = bool(view.newest or view.rollup)
                if has_own and view.version > (before.version if before else 0):
                    yield view, before

    def _fresh(self, logs: Mapping[str, LogFiles]) -> Iterator[tuple[Place, str, LogFiles]]:
        """Yield the places of logs, but of those that cannot be read."""
        for log, files in logs.items():
            if not files.commits:
                continue
            try:
                key = self._key_of(log, files)
            except NotFoundError:  # swept since it was listed: by now it is packed
                view, _ = self._load_log(log)
                key = view.key if view else None
            except (FormatError, UnreadableError) as error:
                self._report(log, error)
                continue
            if key is not None:
                yield (key.user_id, key.session_id), log, files

    def _unpacked(
        self, manifests: str, manifest: Manifest, fresh: Sequence[tuple[Place, str, LogFiles]]
    ) -> list[Listed]:
        """Return those that have more than what is packed of them by now, with that."""
        for _ in self._attempts():
            with suppress(NotFoundError):  # a run was merged, and swept
                packed = self._archive.sessions_at(manifest, [place for place, _, _ in fresh])
                listed = ((log, files, packed.get(place)) for place, log, files in fresh)
                return [
                    (log, files, it)
                    for log, files, it in listed
                    if it is None or files.commits[-1] > it.row.version
                ]
            manifest = self._archive.newest(manifests)
        raise StorageError(f"runs changed faster than they could be read. {manifests=}")

    def _is_young(self, started: float, app_name: str) -> bool:
        return self._env.is_young(started) and self._archive.is_recent(app_manifests(app_name))

    def _load_some(
        self, app_name: str, listed: Sequence[Listed], started: float
    ) -> Iterator[SessionView]:
        portions = Portions(listed, _BYTES_AT_ONCE)
        for portion in portions:
            for view in self._load_together(app_name, portion, started):
                portions.note(view.nbytes)
                yield view

    def _load_together(
        self, app_name: str, listed: Sequence[Listed], started: float
    ) -> Iterator[SessionView]:
        plans = [plan_of(log, files or LogFiles(), packed) for log, files, packed in listed]
        known = [self._current(plan) for plan in plans]
        wanted = [plan for plan, view in zip(plans, known, strict=True) if view is None]
        try:
            fetched = iter(self._read(wanted, started))
        except (NotFoundError, UnreadableError):  # of some log: each by itself, then
            fetched = iter([None] * len(wanted))
        in_time = self._is_young(started, app_name)
        for plan, view, (_, files, _) in zip(plans, known, listed, strict=True):
            found = view or next(fetched)
            try:
                if isinstance(found, FormatError) and not isinstance(found, DamagedRollupError):
                    raise found
                if isinstance(found, FormatError) or found is None or plan.gap or not in_time:
                    before = files if plan.gap else None
                    found, _ = self._load_log(plan.log, named(plan.packed), before=before)
            except (FormatError, UnreadableError) as error:
                self._report(plan.log, error)
                continue
            self._reported.discard(plan.log)
            if found is not None:
                yield found

    def _report(self, log: str, error: LakeError) -> None:
        """Log, once until it is mended, why a session is passed over."""
        level = logging.DEBUG if log in self._reported else logging.ERROR
        self._reported.add(log)
        logger.log(level, "what cannot be read was passed over: %s", error)

    def _current(self, plan: Plan) -> SessionView | None:
        """Return the cached view if the listing shows nothing newer."""
        view = self._cache.get(plan.log)
        if view is None or view.version != plan.newest or not self._env.is_young(view.seen):
            return None
        if view.packed != (plan.packed if view.packed_version or view.alive else None):
            return None
        self._env.metrics.add("cache_hits")
        return view

    def _read(
        self, plans: Sequence[Plan], started: float
    ) -> list[SessionView | FormatError | None]:
        """Return the view that each plan's objects fold to, None where it has none.

        Raises:
            NotFoundError: an object was swept.
        """
        bodies = iter(self._fetch([key for plan in plans for key in plan.keys]))
        # Each takes all its bodies, also after one that is damaged.
        shares = [[next(bodies) for _ in plan.keys] for plan in plans]
        # Most of it is decoding Parquet, during which other threads run.
        pairs = list(zip(plans, shares, strict=True))
        return self._env.pool.map(lambda it: fold(it[0], iter(it[1]), started), pairs, near=True)
