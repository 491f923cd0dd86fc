"""Rules of logs, views and the catalog, removed one at a time; see `tests.simulator.mutating`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakestore.adk.locks import KeyedLocks
from lakestore.catalog import plan as catalog_plan
from lakestore.catalog import reading as catalog_reading
from lakestore.errors import ConflictError, StorageError, UnknownOutcomeError
from lakestore.history import committing, upkeep
from lakestore.history.committing import Commits
from lakestore.history.drafts import Landed
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_commit
from lakestore.history.loading import Loader
from lakestore.history.reading import Reader
from lakestore.history.sessions import Sessions
from lakestore.history.view import SessionView
from lakestore.log import commits
from lakestore.log.commits import LogFiles, Marker
from lakestore.log.keys import commit_key, rollup_key
from tests.simulator.mutating import OddLimits, Within, ageless, ageless_generator, set_, without
from tests.simulator.processes import VirtualClock


@without("token in the marker", "a commit is known by its version and its token")
def _token(stack: ExitStack) -> None:
    def holds(self: SessionView, version: int, token: str) -> bool:
        return version == self.version or any(row.version == version for row in self.rows())

    set_(stack, SessionView, "holds", holds)


@without("read back after a refusal", "a refusal is believed only after reading the object back")
def _read_back(stack: ExitStack) -> None:
    original = commits.put_commit

    def put_commit(*args: Any, **named: Any) -> bytes | None:
        return original(*args, **{**named, "is_ours": lambda _body: False})

    set_(stack, committing, "put_commit", put_commit)


@without("a refusal is one", "a name that is taken is another commit's")
def _refusal(stack: ExitStack) -> None:
    original = commits._send

    def send(*args: Any, **named: Any) -> Any:
        outcome = original(*args, **named)
        return "created" if outcome == "refused" else outcome

    set_(stack, commits, "_send", send)


@without("confirmation after a stall", "a commit that took long is confirmed by a load")
def _confirmation(stack: ExitStack) -> None:
    set_(stack, Commits, "confirm", lambda *_args: None)


@without("confirmation of marker 0", "'nothing there yet' is confirmed like any other marker")
def _marker_0(stack: ExitStack) -> None:
    original = Commits.confirm

    def confirm(self: Commits, key: Any, commit: Any) -> None:
        if commit.version > 1:
            original(self, key, commit)

    set_(stack, Commits, "confirm", confirm)


@without("old markers are confirmed before", "nothing is decided on an old marker")
def _before(stack: ExitStack) -> None:
    set_(stack, Sessions, "_catch_up", lambda _self, _key, marker: (marker, None))


@without("stalls are seen", "elapsed time counts in which the process stood still")
def _stalls(stack: ExitStack) -> None:
    original = VirtualClock.elapsed
    set_(stack, VirtualClock, "elapsed", lambda self: original(self) - self.life.frozen_for)


@without("unknown is not acknowledged", "what may have landed is not acknowledged")
def _unknown(stack: ExitStack) -> None:
    original = commits.put_commit

    def put_commit(*args: Any, **named: Any) -> bytes | None:
        try:
            return original(*args, **named)
        except UnknownOutcomeError:
            return None

    set_(stack, committing, "put_commit", put_commit)


@without("the session advances last", "the marker advances when commit and entries stand")
def _advance(stack: ExitStack) -> None:
    original = Commits.put

    def put(self: Commits, key: Any, marker: Marker, rows: Any) -> Any:
        try:
            return original(self, key, marker, rows)
        except StorageError:
            body = commits.probe(self._env.store, key.log, rows[0].version)
            if body is not None and decode_commit(key.log, rows[0].version, body) == rows:
                return None
            raise

    set_(stack, Commits, "put", put)


@without("one append at a time", "two tasks of one session are put in order")
def _locks(stack: ExitStack) -> None:
    number = iter(range(1 << 60))
    original = KeyedLocks.run

    def run(self: KeyedLocks, key: Any, submit: Any, work: Any) -> Any:
        return original(self, (key, next(number)), submit, work)

    set_(stack, KeyedLocks, "run", run)


@without("density", "what stands above a gap is no part of a log")
def _density(stack: ExitStack) -> None:
    def above(self: LogFiles, version: int) -> tuple[list[int], bool]:
        return [commit for commit in self.commits if commit > version], False

    set_(stack, LogFiles, "above", above)


@without("rollups beside their commit", "a rollup counts only beside its commit")
def _beside(stack: ExitStack) -> None:
    newest = property(lambda self: self.rollups[-1] if self.rollups else None)
    set_(stack, LogFiles, "newest_rollup", newest)


@without("sweeps keep the rollup's commit", "the commit under a rollup's version stays")
def _keeps(stack: ExitStack) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        modified = {it.key: it.modified for it in environment.store.list(log)}
        oldest = modified.get(ours, 0.0) - environment.limits.grace
        rollups = commits.list_log(environment.store, log).rollups
        old = [v for v in rollups if modified.get(rollup_key(log, v), oldest + 1) <= oldest]
        original(environment, log, ours)
        if old:
            environment.store.delete(commit_key(log, max(old)))

    set_(stack, upkeep, "_sweep", sweep)


@without("nothing below a rollup", "what stands below the newest rollup counts for nobody")
def _below(stack: ExitStack) -> None:
    original = LogFiles.newest_rollup.fget  # type: ignore[attr-defined]

    def newest(self: LogFiles) -> int | None:
        whole = self.commits == [*range(1, len(self.commits) + 1)]
        return None if whole else original(self)

    set_(stack, LogFiles, "newest_rollup", property(newest))


@without("grace of sweeps", "only what an old rollup covers is swept")
def _grace(stack: ExitStack) -> None:
    _swept_with(stack, lambda environment: -1.0)


@without("sweeps by the store's time", "the age of a rollup is told by the store")
def _store_time(stack: ExitStack) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        stored = {it.key: it.modified for it in environment.store.list(log)}
        ahead = environment.clock.wall() - stored.get(ours, 0.0)
        limits = OddLimits(environment.limits.view_age, environment.limits.grace - ahead)
        original(replace(environment, limits=limits), log, ours)  # type: ignore[arg-type]

    set_(stack, upkeep, "_sweep", sweep)


def _swept_with(stack: ExitStack, grace: Callable[[Environment], float]) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        limits = OddLimits(environment.limits.view_age, grace(environment))
        original(replace(environment, limits=limits), log, ours)  # type: ignore[arg-type]

    set_(stack, upkeep, "_sweep", sweep)


@without("time limit of loads", "what was read for longer than the limit is read anew")
def _load_limit(stack: ExitStack) -> None:
    ageless(stack, Loader, "_load_log")


@without("time limit of lists", "a list that took longer than the limit is read anew")
def _list_limit(stack: ExitStack) -> None:
    ageless_generator(stack, Loader, "_load_some")


@without("time limit of refreshes", "a view older than the limit is loaded anew")
def _refresh_limit(stack: ExitStack) -> None:
    ageless(stack, Reader, "_young")
    ageless(stack, Reader, "_advance")


@without("probes of young views", "that nothing is found counts only while the view is young")
def _probe(stack: ExitStack) -> None:
    ageless(stack, Reader, "_advance")


@without("reading confirms nothing", "a commit that is read does not make a view young again")
def _reading(stack: ExitStack) -> None:
    original, follow, within = Reader._advance, SessionView.follow, Within()

    def advance(self: Reader, view: Any, look: Any) -> Any:
        with within.entered(self._env.clock):
            return original(self, view, look)

    def follows(self: SessionView, rows: Any) -> SessionView:
        view = follow(self, rows)
        return view.confirmed(within.value.elapsed()) if within.is_here else view

    set_(stack, Reader, "_advance", advance)
    set_(stack, SessionView, "follow", follows)


@without("the next commit only", "a re-delivery is looked for in the next commit only")
def _next_only(stack: ExitStack) -> None:
    original = Sessions.append

    def append(self: Sessions, key: Any, marker: Marker, drafts: Any) -> Landed:
        try:
            return original(self, key, marker, drafts)
        except ConflictError:
            view = self.load(key)
            if any(draft.stands_in_any(view.events()) for draft in drafts):
                return Landed(view.marker, ())
            raise

    set_(stack, Sessions, "append", append)


@without("a commit is taken whole", "all events of a recognised commit are the caller's")
def _whole_commit(stack: ExitStack) -> None:
    original = Sessions.append

    def append(self: Sessions, key: Any, marker: Marker, drafts: Any) -> Landed:
        landed = original(self, key, marker, drafts)
        return Landed(
            landed.marker,
            tuple(row for row in landed.found if any(d.stands_in(row) for d in drafts)),
        )

    # Known by the cached view too, when it stands in the last commit.
    set_(stack, Sessions, "_delivered_last", lambda *_args: [])
    set_(stack, Sessions, "append", append)


@without("rollups in the catalog", "the catalog takes rollups for what they hold")
def _catalog_rollups(stack: ExitStack) -> None:
    def tail_of(log: str, files: LogFiles, known: int) -> Any:
        return catalog_plan.tail_of(log, LogFiles(files.commits, []), known)

    set_(stack, catalog_reading, "tail_of", tail_of)


@without("time limit of the catalog", "a refresh that took longer than the limit goes on anew")
def _catalog_limit(stack: ExitStack) -> None:
    original = catalog_reading.Reading.__init__

    def init(self: Any, source: Any, packs: Any, known: Any, take: Any) -> None:
        limits = OddLimits(float("inf"), float("inf"))
        original(self, replace(source, limits=limits), packs, known, take)

    set_(stack, catalog_reading.Reading, "__init__", init)
