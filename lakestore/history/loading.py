"""Loading sessions from their logs, one or many. Owns what a listing means and when it counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.rollup import Rollup
from lakestore.history.view import SessionView
from lakestore.log.commits import LogFiles, list_log, list_logs
from lakestore.log.keys import SessionKey, commit_key, rollup_key
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

    @property
    def keys(self) -> list[str]:
        rollup = [] if self.rollup is None else [rollup_key(self.log, self.rollup)]
        return rollup + [commit_key(self.log, version) for version in self.commits]


def _plan(log: str, files: LogFiles) -> _Plan:
    rollup = files.newest_rollup
    commits, gap = files.above(rollup or 0)
    return _Plan(log, rollup, commits, gap)


class Loader:
    """Reads logs into views; a view is returned only if all it took was read while it was young."""

    def __init__(self, environment: Environment, cache: ByteCache[str, SessionView]) -> None:
        self._env = environment
        self._cache = cache

    def load(self, key: SessionKey) -> SessionView:
        """Return the session as it is now, by listing its log; version 0 when there is none.

        Raises:
            FormatError: one of its objects is damaged.
            StorageError: the store failed, or the log never held still.
        """
        before: LogFiles | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._env.metrics.add("retries")
            started = self._env.clock.elapsed()
            files = list_log(self._env.store, key.log)
            plan = _plan(key.log, files)
            # A gap that is still there is no sweep's doing: what stands above it was refused.
            if plan.gap and files != before:
                before = files
                continue
            try:
                view = self._read([plan], started)[0]
            except NotFoundError:  # swept since it was listed
                continue
            if isinstance(view, FormatError):
                raise view
            if self._env.is_young(started):
                return view or SessionView(key, started)
        raise StorageError(f"a log changed faster than it could be read. log={key.log!r}")

    def load_all(self, prefix: str) -> Iterator[SessionView]:
        """Yield every session whose log is under `prefix`, deleted ones too, by one listing.

        A damaged session is passed over with a logged error; it must not hide the others.

        Raises:
            StorageError: the store failed.
        """
        started = self._env.clock.elapsed()
        listed = list(list_logs(self._env.store, prefix))
        for first in range(0, len(listed), _LOGS_AT_ONCE):
            if not self._env.is_young(started):
                started = self._env.clock.elapsed()
                later = {log for log, _ in listed[first:]}
                listed[first:] = [
                    pair for pair in list_logs(self._env.store, prefix) if pair[0] in later
                ]
            yield from self._load_some(listed[first : first + _LOGS_AT_ONCE], started)

    def _load_some(
        self, listed: Sequence[tuple[str, LogFiles]], started: float
    ) -> Iterator[SessionView]:
        plans = [_plan(log, files) for log, files in listed]
        known = [self._current(plan) for plan in plans]
        wanted = [plan for plan, view in zip(plans, known, strict=True) if view is None]
        try:
            fetched = iter(self._read(wanted, started))
        except NotFoundError:  # some log was swept meanwhile: each by itself, then
            fetched = iter([None] * len(wanted))
        in_time = self._env.is_young(started)
        for plan, view in zip(plans, known, strict=True):
            found = view or next(fetched)
            if isinstance(found, FormatError):
                logger.error("a session is damaged and was passed over: %s", found)
            elif found is not None and not plan.gap and in_time:
                yield found
            else:
                again = self._again(plan)
                if again is not None and again.version:
                    yield again

    def _again(self, plan: _Plan) -> SessionView | None:
        """Load one session of a listing by itself, told its ids by any of its rows."""
        try:
            for object_key in plan.keys:
                row = events.decode(self._env.store.get(object_key))[0]
                return self.load(SessionKey(row.app_name, row.user_id, row.session_id))
        except NotFoundError:
            return None
        except FormatError as error:
            logger.error("a session is damaged and was passed over: %s", error)
        return None

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
        store = self._env.store
        keys = [key for plan in plans for key in plan.keys]
        bodies = iter(self._env.pool.map(store.get, keys, near=store.near))
        return [_fold(plan, [next(bodies) for _ in plan.keys], started) for plan in plans]


def _fold(plan: _Plan, bodies: list[bytes], started: float) -> SessionView | FormatError | None:
    view: SessionView | None = None
    object_keys = plan.keys
    try:
        if plan.rollup is not None:
            rollup = Rollup(bodies[0])
            key = check_place(plan.log, plan.rollup, [rollup.checkpoint])
            view = SessionView(key, started).on_rollup(rollup)
        for version, body in zip(
            plan.commits, bodies[len(bodies) - len(plan.commits) :], strict=True
        ):
            rows = events.decode(body)
            key = check_place(plan.log, version, rows)
            view = (view or SessionView(key, started)).follow(rows)
    except FormatError as error:
        at = (view.version + 1) if view else (plan.rollup or 1)
        where = next((k for k in object_keys if f"{at:020}" in k), plan.log)
        return FormatError(f"{error}. key={where!r}")
    return view


def check_place(log: str, version: int, rows: Sequence[EventRow]) -> SessionKey:
    """Return the session that `rows` name, sure that it is the one whose log they were read from.

    Raises:
        FormatError: the rows belong to another session or version.
    """
    first = rows[0]
    key = SessionKey(first.app_name, first.user_id, first.session_id)
    if key.log != log or first.version != version:
        raise FormatError("an object's rows name another session or version than its key")
    return key
