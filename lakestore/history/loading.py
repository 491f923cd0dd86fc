"""Loading sessions from their logs, one or many. Owns what a listing means and when it counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.rollup import Rollup
from lakestore.history.view import SessionView
from lakestore.log.commits import LogFiles, list_log, list_logs
from lakestore.log.keys import SessionKey, commit_key, encode_id, is_stamp, rollup_key
from lakestore.storage import UnreadableError
from lakestore.tables import events
from lakestore.tables.events import EventRow

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_LOGS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which objects of a log a load needs."""

    log: str
    rollup: int | None
    commits: list[int]
    gap: bool
    """Whether objects stand above the last commit that follows without one."""
    has_more_below: bool
    """Whether what the rollup was made of, or an older one, is still there."""

    @property
    def keys(self) -> list[str]:
        rollup = [] if self.rollup is None else [rollup_key(self.log, self.rollup)]
        return rollup + [commit_key(self.log, version) for version in self.commits]


def _plan(log: str, files: LogFiles) -> _Plan:
    rollup = files.newest_rollup
    commits, gap = files.above(rollup or 0)
    more = bool((files.commits and files.commits[0] == 1) or len(files.rollups) > 1)
    return _Plan(log, rollup, commits, gap, more)


class DamagedRollupError(FormatError):
    """A rollup that cannot be read, though its log may be."""

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text)
        self.version = version


def _nothing() -> None:
    pass


class Loader:
    """Reads logs into views; a view is returned only if all it took was read while it was young."""

    def __init__(self, environment: Environment, cache: ByteCache[str, SessionView]) -> None:
        self._env = environment
        self._cache = cache
        self._reported: set[str] = set()

    def load(self, key: SessionKey, listed: Callable[[], object] = _nothing) -> SessionView:
        """Return the session as it is now, by listing its log; version 0 when there is none.

        Args:
            key: Names it.
            listed: Called each time that objects were listed, before they are read.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed, or the log never held still.
        """
        view, started = self._load_log(key.log, listed)
        return view or SessionView(key, started)

    def _load_log(
        self, log: str, listed: Callable[[], object] = _nothing
    ) -> tuple[SessionView | None, float]:
        """Return what a log folds to, None when nothing is in it, and when its listing began."""
        before: LogFiles | None = None
        damaged: set[int] = set()
        for _ in self._attempts():
            started = self._env.clock.elapsed()
            files = list_log(self._env.store, log)
            if files.commits:
                listed()
            plan = _plan(log, files.without_rollups(damaged))
            # A gap that is still there is no sweep's doing: what stands above it was refused.
            if plan.gap and files != before:
                before = files
                continue
            try:
                view = self._read_one(plan, started)
            except NotFoundError:  # swept since it was listed
                continue
            except DamagedRollupError as error:
                if plan.has_more_below:
                    logger.error("a rollup is damaged and was passed over: %s", error)
                    damaged.add(error.version)
                    continue
                raise
            if self._env.is_young(started):
                return view, started
        raise StorageError(f"a log changed faster than it could be read. {log=}")

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

    def _read_one(self, plan: _Plan, started: float) -> SessionView | None:
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

    def owners(self, prefix: str, session_id: str) -> list[SessionKey]:
        """Return the sessions under `prefix` that have that id, by one listing and few reads.

        Raises:
            StorageError: the store failed.
        """
        ending = f"/session={encode_id(session_id)}/"
        logs = [log for log, _ in list_logs(self._env.store, prefix) if log.endswith(ending)]
        views = (self._load_log(log)[0] for log in logs)
        return [view.key for view in views if view is not None and view.alive]

    def load_all(self, prefix: str) -> Iterator[SessionView]:
        """Yield every session whose log is under `prefix`, deleted ones too, by one listing.

        A damaged or unreadable session is passed over, with an error that is logged once; it must
        not hide the others.

        Raises:
            StorageError: the store failed.
        """
        started = self._env.clock.elapsed()
        listed = list(list_logs(self._env.store, prefix))
        for first in range(0, len(listed), _LOGS_AT_ONCE):
            if not self._env.is_young(started):
                started = self._env.clock.elapsed()
                later = {log for log, _ in listed[first:]}
                again = list_logs(self._env.store, prefix)
                listed[first:] = [(log, files) for log, files in again if log in later]
            yield from self._load_some(listed[first : first + _LOGS_AT_ONCE], started)

    def _load_some(
        self, listed: Sequence[tuple[str, LogFiles]], started: float
    ) -> Iterator[SessionView]:
        plans = [_plan(log, files) for log, files in listed]
        known = [self._current(plan) for plan in plans]
        wanted = [plan for plan, view in zip(plans, known, strict=True) if view is None]
        try:
            fetched = iter(self._read(wanted, started))
        except (NotFoundError, UnreadableError):  # of some log: each by itself, then
            fetched = iter([None] * len(wanted))
        in_time = self._env.is_young(started)
        for plan, view in zip(plans, known, strict=True):
            found = view or next(fetched)
            try:
                if isinstance(found, FormatError) and not isinstance(found, DamagedRollupError):
                    raise found
                if isinstance(found, FormatError) or found is None or plan.gap or not in_time:
                    found, _ = self._load_log(plan.log)
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
        logger.log(level, "a session cannot be read and was passed over: %s", error)

    def _current(self, plan: _Plan) -> SessionView | None:
        """Return the cached view if the listing shows nothing newer."""
        view = self._cache.get(plan.log)
        newest = plan.commits[-1] if plan.commits else plan.rollup
        if view is None or view.version != newest or not self._env.is_young(view.seen):
            return None
        self._env.metrics.add("cache_hits")
        return view

    def _read(
        self, plans: Sequence[_Plan], started: float
    ) -> list[SessionView | FormatError | None]:
        """Return the view that each plan's objects fold to, None where it has none.

        Raises:
            NotFoundError: an object was swept.
        """
        bodies = iter(self._fetch([key for plan in plans for key in plan.keys]))
        # Each takes all its bodies, also after one that is damaged.
        shares = [[next(bodies) for _ in plan.keys] for plan in plans]
        return [
            _fold(plan, iter(share), started) for plan, share in zip(plans, shares, strict=True)
        ]


def _fold(plan: _Plan, bodies: Iterator[bytes], started: float) -> SessionView | FormatError | None:
    view: SessionView | None = None
    try:
        if plan.rollup is not None:
            view = _begin(plan.log, plan.rollup, next(bodies), started)
        for version in plan.commits:
            rows = decode_commit(plan.log, version, next(bodies))
            view = (view or SessionView(_owner(rows[0]), started)).follow(rows)
    except FormatError as error:
        return error
    return view


def _begin(log: str, version: int, body: bytes, started: float) -> SessionView:
    """Return the view of a rollup."""
    try:
        rollup = Rollup(body)
        _check_place(log, version, rollup.checkpoint)
    except FormatError as error:
        raise DamagedRollupError(f"{error}. key={rollup_key(log, version)!r}", version) from error
    return SessionView(_owner(rollup.checkpoint), started).on_rollup(rollup)


def decode_commit(log: str, version: int, body: bytes) -> list[EventRow]:
    """Return the rows of a commit, sure that they belong where they were read.

    Raises:
        FormatError: the bytes are damaged, or name another session or version than their key.
    """
    try:
        rows = events.decode(body)
        _check_commit(log, version, rows)
    except FormatError as error:
        raise FormatError(f"{error}. key={commit_key(log, version)!r}") from error
    return rows


def _check_commit(log: str, version: int, rows: Sequence[EventRow]) -> None:
    first = rows[0]
    for ordinal, row in enumerate(rows):
        _check_place(log, version, row)
        if row.ordinal != ordinal or (row.kind, row.token) != (first.kind, first.token):
            raise FormatError("the rows are not those of one commit")
    if first.kind == "checkpoint" or (first.kind != "event" and len(rows) > 1):
        raise FormatError("a commit of this kind has one row, and none is a checkpoint")
    if first.stamp is not None and not is_stamp(first.stamp):
        raise FormatError("a stamp is damaged")


def _owner(row: EventRow) -> SessionKey:
    return SessionKey(row.app_name, row.user_id, row.session_id)


def _check_place(log: str, version: int, row: EventRow) -> None:
    if _owner(row).log != log or row.version != version:
        raise FormatError("the rows name another session or version than their key")
