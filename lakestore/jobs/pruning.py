"""How sessions, events, users' state, telemetry and memory are pruned. Owns what is idle or old.

Ages count from what writers recorded: `committed_at` of a commit, the time in a stamp, the start
of a call, the time of an event. What of it is asked for, and how it is told, is
`lakestore.jobs.prune`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappush, heappushpop
from typing import TypeVar

from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.history.archive import (
    EVENTS,
    FIRST,
    LAST,
    MEMORY,
    STATE,
    TELEMETRY,
    Keyed,
    Packed,
    Place,
)
from lakestore.history.keyed import KeyedRow
from lakestore.history.view import SessionView
from lakestore.jobs.batches import batches
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.compact import pack_fresh
from lakestore.jobs.cutting import Cut, cut, nbytes
from lakestore.jobs.fresh_rows import fresh_rows
from lakestore.jobs.packing import shared_of
from lakestore.jobs.progress import Watch, counted
from lakestore.jobs.rewriting import Rewriter
from lakestore.jobs.running import Running
from lakestore.lake import Lake
from lakestore.log.keys import app_logs, app_manifests, user_logs
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow, event_id, event_time
from lakestore.tables.memory import MemoryRow
from lakestore.tables.payloads import contents_of
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow
from lakestore.tables.telemetry import TelemetryRow

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=KeyedRow)

_ATTEMPTS = 8
_SESSIONS_AT_ONCE = 16
_AFTER_APP = "\0"
"""Before every user and after the app itself, in the order of runs of state."""


@dataclass(slots=True)
class Pruned:
    """What was pruned."""

    count: int = 0
    nbytes: int = 0

    def add(self, count: int, nbytes: int) -> None:
        """Count more of it."""
        self.count += count
        self.nbytes += nbytes


IsGone = Callable[[SessionView], bool]
"""Whether a session counts as deleted."""


def _is_there(_view: SessionView) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of what is to be pruned, and how."""

    app_name: str
    user_id: str | None
    """None for all users."""
    before: int
    """What was last touched then or earlier goes, in microseconds since 1970 UTC."""
    dry_run: bool
    is_gone: IsGone = _is_there
    """What a dry run of an earlier step would have deleted."""


def idle(lake: Lake, wanted: Wanted, keep_last: int, watch: Watch) -> IsGone:
    """Return what tells of living sessions whether nobody has added to them for long."""
    newest = _newest(lake, wanted, keep_last, watch) if keep_last else {}

    def is_idle(view: SessionView) -> bool:
        place = (_active_at(view), view.key.session_id)
        return place[0] <= wanted.before and place not in newest.get(view.key.user_id, ())

    return is_idle


def idle_sessions(lake: Lake, wanted: Wanted, keep_last: int, watch: Watch) -> Pruned:
    """Delete sessions that nobody has added to for long, each at the version that was judged."""
    done = Pruned()
    views = filter(idle(lake, wanted, keep_last, watch), _living(lake, wanted, watch))
    for batch in batches(views, _held, _SESSIONS_AT_ONCE):
        rows_of = lake.sessions.events(batch)
        for view, rows in zip(batch, rows_of, strict=True):
            if isinstance(rows, LakeError):
                # What was lost may be brought back from a copy, unless it is deleted.
                _report(rows)
                continue
            # A commit that came between was activity: the session is not idle, and stays.
            if wanted.dry_run or lake.sessions.end(view):
                done.add(1, sum(map(nbytes, rows)))
    return done


def _held(view: SessionView) -> tuple[Packed | None, int]:
    return view.packed, view.nbytes


def _living(lake: Lake, wanted: Wanted, watch: Watch) -> Iterator[SessionView]:
    views = lake.sessions.read_all(wanted.app_name, wanted.user_id)
    views = (view for view in views if not wanted.is_gone(view))
    return counted(views, watch, "looking through", wanted.app_name, "session")


def _newest(
    lake: Lake, wanted: Wanted, keep_last: int, watch: Watch
) -> dict[str, list[tuple[int, str]]]:
    """Return for each user the sessions that were last added to, with the time."""
    newest: dict[str, list[tuple[int, str]]] = {}
    for view in _living(lake, wanted, watch):
        heap = newest.setdefault(view.key.user_id, [])
        place = (_active_at(view), view.key.session_id)
        if len(heap) < keep_last:
            heappush(heap, place)
        else:
            heappushpop(heap, place)
    return newest


def _active_at(view: SessionView) -> int:
    """Return `committed_at` of the last commit of a living session."""
    fresh = view.newest or view.events(1)
    if fresh:
        return fresh[-1].committed_at
    return view.packed.row.active_at if view.packed else view.rows()[-1].committed_at


def old_events(lake: Lake, wanted: Wanted, running: Running) -> Pruned:
    """Cut old invocations out of living sessions, after packing what is not packed yet."""
    done = Pruned()
    if wanted.dry_run:
        for view, rows in _histories(lake, wanted, running.watch):
            found = cut(rows, wanted.before, view.version)
            if found is not None:
                done.add(found.events, found.nbytes)
        return done
    for _ in range(_ATTEMPTS):
        pack_fresh(lake, wanted.app_name, running)
        cutter = _Cutter(lake, wanted, done, running.watch)
        cutter.run()
        # What others changed meanwhile is looked at again, and what they have only begun to pack.
        if not cutter.refused and not cutter.left:
            return done
    if not cutter.refused:
        return done
    raise StorageError(f"other jobs keep changing what is to be pruned. app={wanted.app_name!r}")


def _histories(
    lake: Lake, wanted: Wanted, watch: Watch
) -> Iterator[tuple[SessionView, list[EventRow]]]:
    """Yield the living sessions that are old enough to have anything old, with all their rows.

    Those that cannot be read are passed over, with an error that is logged.
    """
    views = _living(lake, wanted, watch)
    old = (view for view in views if view.created_at <= wanted.before)
    for batch in batches(old, _held, _SESSIONS_AT_ONCE):
        try:
            yield from _with_rows(lake, batch)
        except (NotFoundError, FormatError, UnreadableError):  # of some session: each by itself
            for view in batch:
                try:
                    # What was packed may have been packed again, and swept.
                    yield from _with_rows(lake, [lake.sessions.load(view.key)])
                except (FormatError, UnreadableError) as error:
                    _report(error)


def _with_rows(
    lake: Lake, views: Sequence[SessionView]
) -> list[tuple[SessionView, list[EventRow]]]:
    """Return those of `views` that live, with all their rows."""
    rows_of = iter(lake.sessions.archive.rows_of([view.packed for view in views if view.packed]))
    found = ((view, next(rows_of) if view.packed else []) for view in views)
    return [(view, [*below, *view.rows()]) for view, below in found if view.alive]


def _report(error: LakeError) -> None:
    logger.error("a session cannot be read and was left as it is: %s", error)


class _Cutter:
    """One pass over an app that packs anew, without what goes, each session that has any of it."""

    def __init__(self, lake: Lake, wanted: Wanted, done: Pruned, watch: Watch) -> None:
        self._lake = lake
        self._wanted = wanted
        self._rewriter = Rewriter(lake, wanted.app_name)
        self._waiting: dict[Place, Cut] = {}
        self._done = done
        self._watch = watch
        self.refused = False
        """Whether another job has changed a session meanwhile."""
        self.left = False
        """Whether a session has old events that are not packed, of which none can be cut."""

    def run(self) -> None:
        """Prune, publishing each time that a pack is full."""
        before = self._wanted.before
        for view, rows in _histories(self._lake, self._wanted, self._watch):
            fresh = view.rows()
            self.left |= any(row.kind == "event" and row.committed_at <= before for row in fresh)
            if view.packed is None:
                continue
            found = cut(rows, before, view.packed.row.version)
            if found is not None:
                self._hold(view.packed.row, found, fresh=len(fresh))
            if self._rewriter.is_full:
                self._publish()
        self._publish()

    def _hold(self, before: SessionRow, found: Cut, fresh: int) -> None:
        stay = found.rows[: len(found.rows) - fresh]
        after = replace(
            before,
            last_event_time=event_time(stay[-1]),
            last_event_id=event_id(stay[-1]),
            events=sum(row.kind == "event" for row in stay),
            payloads=contents_of(payload for row in stay for payload in row.payloads),
        )
        self._rewriter.add(before, after, [stay])
        self._waiting[EVENTS.place(before)] = replace(found, rows=[])

    def _publish(self) -> None:
        published = self._rewriter.publish()
        for place in published:
            self._done.add(self._waiting[place].events, self._waiting[place].nbytes)
        self.refused |= len(published) < len(self._waiting)
        self._waiting = {}


def idle_state(lake: Lake, wanted: Wanted, running: Running) -> Pruned:
    """Forget the values of users' keys that nobody has set for long; their stamps stay."""
    if not wanted.dry_run:
        pack_fresh(lake, wanted.app_name, running)
    idle = [
        row
        for row in _users_state(lake, wanted)
        if row.value is not None and int(row.stamp.split("-")[0]) <= wanted.before
    ]
    places = {STATE.place(row): row for row in idle}
    if not wanted.dry_run:
        # A later write wins whenever it lands: its stamp is later than the one that stays.
        changes = Changes(keyed={STATE.name: [replace(row, value=None) for row in idle]})
        publisher = Publisher(lake.environment, lake.sessions.archive, wanted.app_name)
        publisher.publish(changes)
        places = {place: places[place] for place in publisher.published_rows[STATE.name]}
    nbytes = (len(row.key.encode()) + len((row.value or "").encode()) for row in places.values())
    return Pruned(len(places), sum(nbytes))


def old_telemetry(lake: Lake, wanted: Wanted, running: Running) -> Pruned:
    """Forget what was measured of calls and runs that began long ago."""

    def is_old(row: TelemetryRow) -> bool:
        return row.started_at <= wanted.before and wanted.user_id in (None, row.user_id)

    return _old_rows(lake, TELEMETRY, wanted, running, is_old)


def old_memory(lake: Lake, wanted: Wanted, running: Running, scope: str) -> Pruned:
    """Forget what was remembered of long ago, and also what a rebuild has put aside of it.

    That it was forgotten by name is remembered for ever.
    """

    def is_old(row: MemoryRow) -> bool:
        time = row.inserted_at if row.event_time is None else row.event_time
        return (
            row.kind == "add"
            and time <= wanted.before
            and scope in ("all", "app" if row.user_id is None else "user")
            and wanted.user_id in (None, row.user_id)
        )

    return _old_rows(lake, MEMORY, wanted, running, is_old)


def _old_rows(
    lake: Lake, kind: Keyed[K], wanted: Wanted, running: Running, is_old: Callable[[K], bool]
) -> Pruned:
    """Forget the old rows of a table whose entries are packed for good."""
    app, user, archive = wanted.app_name, wanted.user_id, lake.sessions.archive
    old: dict[Place, int] = {}
    if wanted.dry_run:
        fresh = fresh_rows(lake, kind, app, user)
        old = {kind.place(row): _row_bytes(kind, row) for row in fresh if is_old(row)}
    else:
        pack_fresh(lake, app, running)
    manifest, done = archive.newest(app_manifests(app)), Pruned()
    for row in archive.rows_in(kind, app, manifest.table(kind.name).runs, *span_of(user)):
        if is_old(row):
            old.pop(kind.place(row), None)
            done.add(1, _row_bytes(kind, row))
    if done.count and not wanted.dry_run:
        publisher = Publisher(lake.environment, archive, app)
        publisher.publish(Changes(pruned={kind.name: is_old}))
    done.add(len(old), sum(old.values()))
    return done


def span_of(user_id: str | None) -> tuple[Place, Place]:
    """Return the first and last place of a user's rows, or (None) of all."""
    return (FIRST, LAST) if user_id is None else ((user_id, ""), (user_id, LAST[1]))


def _row_bytes(kind: Keyed[K], row: K) -> int:
    values = (getattr(row, name) for name in kind.schema.names)
    return sum(len(it.encode()) if isinstance(it, str) else 8 for it in values if it is not None)


def _users_state(lake: Lake, wanted: Wanted) -> Iterator[StateRow]:
    """Yield the latest row of each key of users' state."""
    app, user = wanted.app_name, wanted.user_id
    fresh: dict[Place, StateRow] = {}
    for row in _fresh_state(lake, app, user):
        place = STATE.place(row)
        if row.user_id is not None and (place not in fresh or fresh[place].precedes(row)):
            fresh[place] = row
    manifest = lake.sessions.archive.newest(app_manifests(app))
    low, high = ((_AFTER_APP, ""), LAST) if user is None else ((user, ""), (user, LAST[1]))
    runs = manifest.table(STATE.name).runs
    for row in lake.sessions.archive.rows_in(STATE, app, runs, low, high):
        newer = fresh.pop(STATE.place(row), row)
        yield newer if row.precedes(newer) else row
    yield from fresh.values()


def _fresh_state(lake: Lake, app_name: str, user_id: str | None) -> Iterator[StateRow]:
    """Yield what is not packed of the state of an app's users, or of one; some of it twice."""
    logs = app_logs(app_name) if user_id is None else user_logs(app_name, user_id)
    yield from fresh_rows(lake, STATE, app_name, user_id)
    for view, _ in lake.sessions.fresh(app_name, logs, logs + "\x7f"):
        yield from shared_of(view.rows())
