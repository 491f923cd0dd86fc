"""Rules of manifests, packs, runs and sweeps, removed one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

from lakestore.catalog.reading import Reading
from lakestore.history import folding, loading, sessions
from lakestore.history.archive import EVENTS, STATE, Archive
from lakestore.history.folding import Plan
from lakestore.history.loading import Loader
from lakestore.history.shared import SharedState
from lakestore.history.view import SessionView
from lakestore.jobs import changes, covered, departed, packing, run_files
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.sweep import _AppSweep
from lakestore.log import commits, manifests
from lakestore.log.commits import LogFiles
from lakestore.log.keys import app_manifests
from lakestore.log.manifests import Manifest
from lakestore.tables.state import StateRow
from tests.simulator.mutating import OddLimits, ageless_generator, set_, without

sweep: Any = import_module("lakestore.jobs.sweep")  # the package names its function so


@without("manifests are exclusive", "of two jobs with one number one has published")
def _exclusive(stack: ExitStack) -> None:
    original = commits.put_commit

    def put_commit(*args: Any, **named: Any) -> None:
        original(*args, **named)

    set_(stack, manifests, "put_commit", put_commit)


@without("manifests are confirmed", "a manifest that took long must be the newest one then")
def _confirmed(stack: ExitStack) -> None:
    original = manifests.publish

    def publish(*args: Any, **named: Any) -> None:
        original(*args, **{**named, "limits": OddLimits(float("inf"), float("inf"))})

    for module in (changes, sweep):
        set_(stack, module, "publish", publish)


@without("uploads are looked for", "nobody publishes a pack that a sweep has named")
def _uploads(stack: ExitStack) -> None:
    def check(_self: Publisher, newest: Manifest, *_: Any) -> Manifest:
        return newest

    set_(stack, Publisher, "_check_uploads", check)


@without("orphans are named first", "a manifest names what a later sweep deletes")
def _named(stack: ExitStack) -> None:
    def publish(self: Any, _newest: Any, _listed: Any, orphans: Any, _seen: float) -> bool:
        self._remover.remove("packs", orphans)
        return True

    set_(stack, _AppSweep, "_publish", publish)


@without("rebase over what is not in both", "the loser gives up what the winner has changed")
def _rebase(stack: ExitStack) -> None:
    original = Publisher._following

    def following(self: Publisher, newest: Manifest, made: Changes) -> Manifest | None:
        packed = self._archive.sessions_at(newest, made.sessions)
        sessions = {
            place: Change(packed[place].row if place in packed else None, change.after)
            for place, change in made.sessions.items()
        }
        return original(self, newest, replace(made, sessions=sessions))

    set_(stack, Publisher, "_following", following)


@without("nothing packed comes from logs", "at or below the packed version logs count no more")
def _above(stack: ExitStack) -> None:
    original = folding.plan_of

    def plan_of(log: str, files: LogFiles, packed: Any) -> Plan:
        plan, newest = original(log, files, packed), files.newest_rollup
        if newest is None or plan.rollup is not None or not packed or not packed.row.alive:
            return plan
        return replace(original(log, files, None), packed=packed)

    set_(stack, loading, "plan_of", plan_of)
    set_(stack, SessionView, "_above_packed", lambda _self, rows: rows)
    set_(stack, SessionView, "packed_version", property(lambda _self: 0))


@without("nothing packed comes from rollups", "... nor do rows of a rollup that goes on above it")
def _rolled(stack: ExitStack) -> None:
    set_(stack, SessionView, "_above_packed", lambda _self, rows: rows)


@without("grace of sweeping jobs", "only what an old manifest covers is swept")
def _grace(stack: ExitStack) -> None:
    set_(stack, sweep, "_grace", lambda *_args: 1e-9)


@without("jobs sweep by the store's time", "the age of a manifest is told by the store")
def _store_time(stack: ExitStack) -> None:
    original = sweep._now

    def now(lake: Any) -> Any:
        return replace(original(lake), read=lake.clock.wall())

    set_(stack, sweep, "_now", now)


@without("the newest manifest stays", "however old it is")
def _newest(stack: ExitStack) -> None:
    original = _AppSweep._sweep

    def sweeps(self: Any, orphans: Any) -> None:
        original(self, orphans)
        old = [one for one in self._manifests().values() if self._age.reaches(one)]
        self._remover.remove("manifests", old)

    set_(stack, _AppSweep, "_sweep", sweeps)


@without("compaction folds what it absorbs", "also where a commit's entries are missing")
def _folds(stack: ExitStack) -> None:
    set_(stack, packing, "shared_of", lambda _rows: iter(()))


@without("run and all entries", "no entry is passed over for a later stamp in the run")
def _all_entries(stack: ExitStack) -> None:
    original = SharedState._fold

    def fold(self: SharedState, listing: Any, listed: Mapping[str, Any]) -> Any:
        prefix = app_manifests(listing.scopes[0].app_name)
        packed = self._archive.state(self._archive.known(prefix), listing.scopes)
        for scope, rows in packed.items():
            mark = max((row.stamp for row in rows), default="")
            kept = [entry for entry in listed[scope.entries] if entry.stamp > mark]
            listed = {**listed, scope.entries: kept}
        return original(self, listing, listed)

    set_(stack, SharedState, "_fold", fold)


@without("jobs sweep entries by their keys", "an entry goes when each of its keys is held")
def _held(stack: ExitStack) -> None:
    def is_held(rows: Sequence[StateRow], held: Mapping[str, StateRow]) -> bool:
        mark = max((row.stamp for row in held.values()), default="")
        return bool(rows) and rows[0].stamp <= mark

    set_(stack, covered, "is_held", is_held)


@without("age of manifests", "a manifest that was found long ago is looked for again")
def _recent(stack: ExitStack) -> None:
    set_(stack, Archive, "is_recent", lambda self, prefix: prefix in self._manifests)


@without("logs before the manifest", "the catalog finds the manifest after it has listed")
def _order(stack: ExitStack) -> None:
    original = Reading._list

    def lists(self: Any, only: Any) -> Any:
        self._packs.follow()
        follow = self._packs.follow
        self._packs.follow = lambda: None
        try:
            return original(self, only)
        finally:
            self._packs.follow = follow

    set_(stack, Reading, "_list", lists)


@without("time limit of compaction", "what it has read for longer than the limit is read anew")
def _compaction_limit(stack: ExitStack) -> None:
    ageless_generator(stack, Loader, "load_fresh")


@without("rows of deleted sessions stay", "so that versions of a log are never used again")
def _rows_stay(stack: ExitStack) -> None:
    _dropped_from_runs(stack, EVENTS.name, lambda row: row.alive)


@without("pruned keys keep their stamp", "what was set before never comes back")
def _stamp_stays(stack: ExitStack) -> None:
    _dropped_from_runs(stack, STATE.name, lambda row: row.value is not None)


def _dropped_from_runs(stack: ExitStack, table: str, keep: Any) -> None:
    original = run_files._newest

    def newest(kind: Any, rows: Any, older: Any) -> Iterator[Any]:
        kept = (row for row in older if keep(row)) if kind.name == table else older
        return original(kind, rows, kept)

    set_(stack, run_files, "_newest", newest)


@without("a pruned key wins a tie", "of two rows with one stamp the one without a value counts")
def _tie(stack: ExitStack) -> None:
    set_(stack, StateRow, "precedes", lambda self, other: self.stamp < other.stamp)


@without("names wait for the grace", "what is named is deleted when that manifest is old")
def _names_wait(stack: ExitStack) -> None:
    original = _AppSweep._sweep_doomed

    def sweeps(self: Any, covering: Manifest, orphans: Any) -> None:
        original(self, replace(covering, number=1 << 60), orphans)

    set_(stack, _AppSweep, "_sweep_doomed", sweeps)


@without("rows go after empty logs", "a deleted session's row stays while its log has anything")
def _emptied(stack: ExitStack) -> None:
    set_(stack, departed.Departed, "_with_logs", lambda *_args: iter(()))


@without("rows outlive requests", "... and so long after that nothing of it can be under way")
def _outlive(stack: ExitStack) -> None:
    original = departed.Departed._changes

    def made(self: departed.Departed, newest: Manifest, now: int) -> Changes:
        with patch.object(departed, "KEPT", 0):
            return original(self, newest, now)

    set_(stack, departed.Departed, "_changes", made)


@without("rows that are built on stay", "who begins a session anew on one says so first")
def _revived(stack: ExitStack) -> None:
    set_(stack, sessions, "may_go", lambda _packed: False)
