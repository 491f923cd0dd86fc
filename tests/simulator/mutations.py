"""The product with one of its rules removed, a rule at a time: what the simulator must find.

Each is a patch of private names, which is right here and nowhere else in these tests: a rule is
removed where it stands, and the simulator shows what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from lakestore.adk.locks import KeyedLocks
from lakestore.catalog import plan as catalog_plan
from lakestore.catalog import reading as catalog_reading
from lakestore.errors import ConflictError, StorageError, UnknownOutcomeError
from lakestore.history import loading, sessions, shared, upkeep
from lakestore.history.environment import Environment
from lakestore.history.loading import Loader
from lakestore.history.sessions import Landed, Sessions
from lakestore.history.shared import ScopeFold, SharedState
from lakestore.history.view import SessionView
from lakestore.log import commits
from lakestore.log.commits import LogFiles, Marker
from lakestore.log.stamps import Stamper
from lakestore.tables import state

Patches = Callable[[ExitStack], None]


@dataclass(frozen=True)
class Mutation:
    """A rule that is not kept."""

    name: str
    rule: str
    """What the product does, and the mutation does not."""
    put: Patches


MUTATIONS: dict[str, Mutation] = {}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run what is inside without one of the rules."""
    with ExitStack() as stack:
        MUTATIONS[name].put(stack)
        yield


def _without(name: str, rule: str) -> Callable[[Patches], Patches]:
    def register(put: Patches) -> Patches:
        MUTATIONS[name] = Mutation(name, rule, put)
        return put

    return register


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.enter_context(patch.object(owner, name, value))


@_without("token in the marker", "a commit is known by its version and its token")
def _token(stack: ExitStack) -> None:
    def holds(self: SessionView, version: int, token: str) -> bool:
        return version == self.version or any(row.version == version for row in self.rows())

    _set(stack, SessionView, "holds", holds)


@_without("read back after a refusal", "a refusal is believed only after reading the object back")
def _read_back(stack: ExitStack) -> None:
    original = sessions.put_commit

    def put_commit(*args: Any, **named: Any) -> bytes | None:
        return original(*args, **{**named, "is_ours": lambda _body: False})

    _set(stack, sessions, "put_commit", put_commit)


@_without("a refusal is one", "a name that is taken is another commit's")
def _refusal(stack: ExitStack) -> None:
    original = commits._send

    def send(*args: Any, **named: Any) -> Any:
        outcome = original(*args, **named)
        return "created" if outcome == "refused" else outcome

    _set(stack, commits, "_send", send)


@_without("confirmation after a stall", "a commit that took long is confirmed by a load")
def _confirmation(stack: ExitStack) -> None:
    _set(stack, Sessions, "_confirm", lambda *_args: None)


@_without("confirmation of marker 0", "'nothing there yet' is confirmed like any other marker")
def _marker_0(stack: ExitStack) -> None:
    original = Sessions._confirm

    def confirm(self: Sessions, key: Any, commit: Any) -> None:
        if commit.version > 1:
            original(self, key, commit)

    _set(stack, Sessions, "_confirm", confirm)


@_without("old markers are confirmed before", "nothing is decided on an old marker")
def _before(stack: ExitStack) -> None:
    _set(stack, Sessions, "_catch_up", lambda _self, _key, marker: (marker, None))


@_without("unknown is not acknowledged", "what may have landed is not acknowledged")
def _unknown(stack: ExitStack) -> None:
    original = sessions.put_commit

    def put_commit(*args: Any, **named: Any) -> bytes | None:
        try:
            return original(*args, **named)
        except UnknownOutcomeError:
            return None

    _set(stack, sessions, "put_commit", put_commit)


@_without("commit and entries are one step", "entries stand before an append returns")
def _one_step(stack: ExitStack) -> None:
    original = SharedState.write

    def write(self: SharedState, rows: Any) -> None:
        self._env.upkeep(lambda: original(self, rows))

    _set(stack, SharedState, "write", write)


@_without("the session advances last", "the marker advances when commit and entries stand")
def _advance(stack: ExitStack) -> None:
    original = Sessions._commit

    def commit(self: Sessions, key: Any, marker: Marker, rows: Any) -> Any:
        try:
            return original(self, key, marker, rows)
        except StorageError:
            view = self._cache.get(key.log)
            body = commits.probe(self._env.store, key.log, rows[0].version)
            if body is not None and loading.decode_commit(key.log, rows[0].version, body) == rows:
                del view
                return None
            raise

    _set(stack, Sessions, "_commit", commit)


@_without("one append at a time", "two tasks of one session are put in order")
def _locks(stack: ExitStack) -> None:
    number = iter(range(1 << 60))
    original = KeyedLocks.run

    def run(self: KeyedLocks, key: Any, submit: Any, work: Any) -> Any:
        return original(self, (key, next(number)), submit, work)

    _set(stack, KeyedLocks, "run", run)


@_without("completion on read", "whoever reads a last commit completes its entries")
def _completion(stack: ExitStack) -> None:
    def complete(_self: SharedState, _rows: Any, folds: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(folds)

    _set(stack, SharedState, "complete", complete)


def _without_completion_in(stack: ExitStack, method: str) -> None:
    """Leave completion out of one method of `Sessions`."""
    original, complete = getattr(Sessions, method), SharedState.complete
    within = _Within()

    def around(self: Sessions, *args: Any, **named: Any) -> Any:
        with within.entered():
            return original(self, *args, **named)

    def completes(self: SharedState, rows: Any, folds: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(folds) if within.is_here else complete(self, rows, folds)

    _set(stack, Sessions, method, around)
    _set(stack, SharedState, "complete", completes)


class _Within:
    """Which fibers are in a part of the product; others go on while they stand still in it."""

    def __init__(self) -> None:
        self._fibers: dict[greenlet, list[Any]] = {}

    @property
    def is_here(self) -> bool:
        return bool(self._fibers.get(getcurrent()))

    @property
    def value(self) -> Any:
        return self._fibers[getcurrent()][-1]

    @contextmanager
    def entered(self, value: Any = None) -> Iterator[None]:
        self._fibers.setdefault(getcurrent(), []).append(value)
        try:
            yield
        finally:
            self._fibers[getcurrent()].pop()


@_without("completion by a re-delivery", "a recognised re-delivery completes its entries")
def _redelivery(stack: ExitStack) -> None:
    _without_completion_in(stack, "_absorb")


@_without("completion by a delete", "a delete completes what it is put upon")
def _delete(stack: ExitStack) -> None:
    _without_completion_in(stack, "delete")


@_without("completion by a rollup", "a rollup completes what it is made of")
def _rollup(stack: ExitStack) -> None:
    _without_completion_in(stack, "roll_up")


@_without("completion by a load", "a load completes the last commit")
def _load(stack: ExitStack) -> None:
    _without_completion_in(stack, "load")


@_without("same stamp on completion", "entries that were missing get their commit's stamp")
def _same_stamp(stack: ExitStack) -> None:
    original = SharedState.complete

    def complete(self: SharedState, rows: Any, folds: Any) -> Any:
        if rows and rows[0].stamp:
            scopes = list(shared.shared_rows(rows))
            stamp = self._stamper.stamp(scopes)
            rows = [replace(row, stamp=stamp) for row in rows]
        return original(self, rows, folds)

    _set(stack, SharedState, "complete", complete)


@_without("density", "what stands above a gap is no part of a log")
def _density(stack: ExitStack) -> None:
    def above(self: LogFiles, version: int) -> tuple[list[int], bool]:
        return [commit for commit in self.commits if commit > version], False

    _set(stack, LogFiles, "above", above)


@_without("rollups beside their commit", "a rollup counts only beside its commit")
def _beside(stack: ExitStack) -> None:
    newest = property(lambda self: self.rollups[-1] if self.rollups else None)
    _set(stack, LogFiles, "newest_rollup", newest)


@_without("sweeps keep the rollup's commit", "the commit under a rollup's version stays")
def _keeps(stack: ExitStack) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        before = commits.list_log(environment.store, log)
        original(environment, log, ours)
        after = commits.list_log(environment.store, log)
        if len(after.commits) < len(before.commits):
            environment.store.delete(commits.commit_key(log, min(after.commits)))

    _set(stack, upkeep, "_sweep", sweep)


@_without("nothing below a rollup", "what stands below the newest rollup counts for nobody")
def _below(stack: ExitStack) -> None:
    original = LogFiles.newest_rollup.fget  # type: ignore[attr-defined]

    def newest(self: LogFiles) -> int | None:
        whole = self.commits == [*range(1, len(self.commits) + 1)]
        return None if whole else original(self)

    _set(stack, LogFiles, "newest_rollup", property(newest))


@_without("grace of sweeps", "only what an old rollup covers is swept")
def _grace(stack: ExitStack) -> None:
    _swept_with(stack, lambda environment: -1.0)


@_without("sweeps by the store's time", "the age of a rollup is told by the store")
def _store_time(stack: ExitStack) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        stored = {it.key: it.modified for it in environment.store.list(log)}
        ahead = environment.clock.wall() - stored.get(ours, 0.0)
        limits = _Limits(environment.limits.view_age, environment.limits.grace - ahead)
        original(replace(environment, limits=limits), log, ours)  # type: ignore[arg-type]

    _set(stack, upkeep, "_sweep", sweep)


@dataclass(frozen=True)
class _Limits:
    """Limits that the product would refuse."""

    view_age: float
    grace: float


def _swept_with(stack: ExitStack, grace: Callable[[Environment], float]) -> None:
    original = upkeep._sweep

    def sweep(environment: Environment, log: str, ours: str) -> None:
        limits = _Limits(environment.limits.view_age, grace(environment))
        original(replace(environment, limits=limits), log, ours)  # type: ignore[arg-type]

    _set(stack, upkeep, "_sweep", sweep)


def _ageless(stack: ExitStack, owner: type, method: str) -> None:
    """Let one method take no notice of time."""
    original, is_young, within = getattr(owner, method), Environment.is_young, _Within()

    def around(self: Any, *args: Any, **named: Any) -> Any:
        with within.entered():
            return original(self, *args, **named)

    def young(self: Environment, seen: float | None) -> bool:
        return within.is_here or is_young(self, seen)

    _set(stack, owner, method, around)
    _set(stack, Environment, "is_young", young)


@_without("time limit of loads", "what was read for longer than the limit is read anew")
def _load_limit(stack: ExitStack) -> None:
    _ageless(stack, Loader, "_load_log")


@_without("time limit of lists", "a list that took longer than the limit is read anew")
def _list_limit(stack: ExitStack) -> None:
    _ageless_generator(stack, Loader, "_load_some")


def _ageless_generator(stack: ExitStack, owner: type, method: str) -> None:
    """The same for a method that yields."""
    original, is_young, within = getattr(owner, method), Environment.is_young, _Within()

    def around(self: Any, *args: Any, **named: Any) -> Iterator[Any]:
        with within.entered():
            found = [*original(self, *args, **named)]
        yield from found

    def young(self: Environment, seen: float | None) -> bool:
        return within.is_here or is_young(self, seen)

    _set(stack, owner, method, around)
    _set(stack, Environment, "is_young", young)


@_without("time limit of entries", "entries read for longer than the limit are read anew")
def _entries_limit(stack: ExitStack) -> None:
    _ageless(stack, SharedState, "fold")


@_without("time limit of refreshes", "a view older than the limit is loaded anew")
def _refresh_limit(stack: ExitStack) -> None:
    _ageless(stack, Sessions, "_young")
    _ageless(stack, Sessions, "_advance")


@_without("probes of young views", "that nothing is found counts only while the view is young")
def _probe(stack: ExitStack) -> None:
    _ageless(stack, Sessions, "_advance")


@_without("reading confirms nothing", "a commit that is read does not make a view young again")
def _reading(stack: ExitStack) -> None:
    original, follow, within = Sessions._advance, SessionView.follow, _Within()

    def advance(self: Sessions, view: Any, look: Any) -> Any:
        with within.entered(self._env.clock):
            return original(self, view, look)

    def follows(self: SessionView, rows: Any) -> SessionView:
        view = follow(self, rows)
        return view.confirmed(within.value.elapsed()) if within.is_here else view

    _set(stack, Sessions, "_advance", advance)
    _set(stack, SessionView, "follow", follows)


@_without("log before entries", "a read lists entries after it has read the log")
def _order(stack: ExitStack) -> None:
    original = Sessions.read

    def read(self: Sessions, key: Any) -> Any:
        scopes = (shared.Scope(key.app_name, key.user_id), shared.Scope(key.app_name, None))
        folds = self.shared.read(scopes)
        found = original(self, key)
        return found and (found[0], self.shared.complete(found[0].newest, folds))

    _set(stack, Sessions, "read", read)


@_without("commits are laid over entries", "what a warm read follows is laid over the entries")
def _overlay(stack: ExitStack) -> None:
    original = Sessions._advance

    def advance(self: Sessions, view: Any, look: Any) -> Any:
        found = original(self, view, look)
        return found and (found[0], found[1][-1:])

    _set(stack, Sessions, "_advance", advance)


@_without("entries are listed whole", "not only what lies after the newest stamp seen")
def _whole(stack: ExitStack) -> None:
    original = SharedState._fold

    def fold(self: SharedState, scopes: Any, listed: Any, started: float) -> Any:
        for scope in scopes:
            known = self._cache.get(scope) or ScopeFold(scope)
            newest = max((row.stamp for row in known.rows.values()), default="")
            listed = {
                **listed,
                scope.entries: [
                    entry
                    for entry in listed[scope.entries]
                    if entry.stamp > newest or entry.key in known.read
                ],
            }
        return original(self, scopes, listed, started)

    _set(stack, SharedState, "_fold", fold)


@_without("stamps later than what was read", "a stamp is later than all its process has read")
def _stamps(stack: ExitStack) -> None:
    _set(stack, Stamper, "see", lambda *_args: None)


@_without("stamps later than commits read", "... also when only their commits were read")
def _commit_stamps(stack: ExitStack) -> None:
    _set(stack, SharedState, "note_read", lambda *_args: None)


@_without("folds keep stamps", "a fold keeps each key's own stamp")
def _fold_stamps(stack: ExitStack) -> None:
    original = state.encode

    def encode(rows: Sequence[Any]) -> bytes:
        newest = max(row.stamp for row in rows)
        return original([replace(row, stamp=newest) for row in rows])

    _set(stack, state, "encode", encode)


@_without("sweeps of entries compare", "an entry goes when another holds as late stamps")
def _entry_sweep(stack: ExitStack) -> None:
    def sweep(self: SharedState, scope: Any, ours: str) -> None:
        for key in [stored.key for stored in self._env.store.list(scope.entries)]:
            if key < ours:
                self._env.store.delete(key)

    _set(stack, SharedState, "_sweep", sweep)


@_without("grace of entries", "only what an old fold covers is swept")
def _entry_grace(stack: ExitStack) -> None:
    original = SharedState._sweep

    def sweep(self: SharedState, scope: Any, ours: str) -> None:
        limits = _Limits(self._env.limits.view_age, -1.0)
        kept, self._env = self._env, replace(self._env, limits=limits)  # type: ignore[arg-type]
        try:
            original(self, scope, ours)
        finally:
            self._env = kept

    _set(stack, SharedState, "_sweep", sweep)


@_without("the next commit only", "a re-delivery is looked for in the next commit only")
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

    _set(stack, Sessions, "append", append)


@_without("a commit is taken whole", "all events of a recognised commit are the caller's")
def _whole_commit(stack: ExitStack) -> None:
    original = Sessions.append

    def append(self: Sessions, key: Any, marker: Marker, drafts: Any) -> Landed:
        landed = original(self, key, marker, drafts)
        return Landed(
            landed.marker,
            tuple(row for row in landed.found if any(d.stands_in(row) for d in drafts)),
        )

    _set(stack, Sessions, "append", append)


@_without("rollups in the catalog", "the catalog takes rollups for what they hold")
def _catalog_rollups(stack: ExitStack) -> None:
    def tail_of(log: str, files: LogFiles, known: int) -> Any:
        return catalog_plan.tail_of(log, LogFiles(files.commits, []), known)

    _set(stack, catalog_reading, "tail_of", tail_of)


@_without("time limit of the catalog", "a refresh that took longer than the limit goes on anew")
def _catalog_limit(stack: ExitStack) -> None:
    original = catalog_reading.Reading.__init__

    def init(self: Any, source: Any, known: Any, take: Any) -> None:
        limits = _Limits(float("inf"), float("inf"))
        original(self, replace(source, limits=limits), known, take)

    _set(stack, catalog_reading.Reading, "__init__", init)


