"""Rules of shared state and stamps, removed one at a time; see `tests.simulator.mutating`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakestore.history.entries import shared_rows
from lakestore.history.reading import Reader
from lakestore.history.scopes import Listing, ScopeFold
from lakestore.history.sessions import Sessions
from lakestore.history.shared import SharedState
from lakestore.log.keys import Scope
from lakestore.log.stamps import Stamper
from lakestore.tables import state
from tests.simulator.mutating import OddLimits, Within, ageless, set_, without


@without("commit and entries are one step", "entries stand before an append returns")
def _one_step(stack: ExitStack) -> None:
    original = SharedState.write

    def write(self: SharedState, rows: Any) -> None:
        self._env.upkeep(lambda: original(self, rows))

    set_(stack, SharedState, "write", write)


@without("completion on read", "whoever reads a last commit completes its entries")
def _completion(stack: ExitStack) -> None:
    def complete(_self: SharedState, _rows: Any, folds: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(folds)

    set_(stack, SharedState, "complete", complete)


def _without_completion_in(stack: ExitStack, method: str) -> None:
    """Leave completion out of one method of `Sessions`."""
    original, complete = getattr(Sessions, method), SharedState.complete
    within = Within()

    def around(self: Sessions, *args: Any, **named: Any) -> Any:
        with within.entered():
            return original(self, *args, **named)

    def completes(self: SharedState, rows: Any, folds: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(folds) if within.is_here else complete(self, rows, folds)

    set_(stack, Sessions, method, around)
    set_(stack, SharedState, "complete", completes)


@without("completion by a re-delivery", "a recognised re-delivery completes its entries")
def _redelivery(stack: ExitStack) -> None:
    _without_completion_in(stack, "_absorb")


@without("completion by a delete", "a delete completes what it is put upon")
def _delete(stack: ExitStack) -> None:
    _without_completion_in(stack, "delete")


@without("completion by a rollup", "a rollup completes what it is made of")
def _rollup(stack: ExitStack) -> None:
    _without_completion_in(stack, "roll_up")


@without("completion by a load", "a load completes the last commit")
def _load(stack: ExitStack) -> None:
    _without_completion_in(stack, "load")


@without("same stamp on completion", "entries that were missing get their commit's stamp")
def _same_stamp(stack: ExitStack) -> None:
    original = SharedState.complete

    def complete(self: SharedState, rows: Any, folds: Any) -> Any:
        if rows and rows[0].stamp:
            scopes = list(shared_rows(rows))
            stamp = self._stamper.stamp(scopes)
            rows = [replace(row, stamp=stamp) for row in rows]
        return original(self, rows, folds)

    set_(stack, SharedState, "complete", complete)


@without("time limit of entries", "entries read for longer than the limit are read anew")
def _entries_limit(stack: ExitStack) -> None:
    ageless(stack, SharedState, "fold")


@without("log before entries", "a read lists entries after it has read the log")
def _order(stack: ExitStack) -> None:
    original, fold, within = Reader._read, SharedState.fold, Within()

    def read(self: Reader, key: Any, wanted: Any) -> Any:
        scopes = (Scope(key.app_name, key.user_id), Scope(key.app_name, None))
        with within.entered(self.shared.read(scopes)):
            return original(self, key, wanted)

    def folded(self: SharedState, listing: Listing) -> Any:
        return within.value if within.is_here else fold(self, listing)

    set_(stack, Reader, "_read", read)
    set_(stack, SharedState, "fold", folded)


@without("commits are laid over entries", "what a warm read follows is laid over the entries")
def _overlay(stack: ExitStack) -> None:
    original = Reader._advance

    def advance(self: Reader, view: Any, look: Any) -> Any:
        found = original(self, view, look)
        return found and (found[0], found[1][-1:])

    set_(stack, Reader, "_advance", advance)


@without("entries are listed whole", "not only what lies after the newest stamp seen")
def _whole(stack: ExitStack) -> None:
    original = SharedState._fold

    def fold(self: SharedState, listing: Listing, listed: Any) -> Any:
        for scope in listing.scopes:
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
        return original(self, listing, listed)

    set_(stack, SharedState, "_fold", fold)


@without("stamps later than what was read", "a stamp is later than all its process has read")
def _stamps(stack: ExitStack) -> None:
    set_(stack, Stamper, "see", lambda *_args: None)


@without("stamps later than commits read", "... also when only their commits were read")
def _commit_stamps(stack: ExitStack) -> None:
    set_(stack, SharedState, "note_read", lambda *_args: None)


@without("folds keep stamps", "a fold keeps each key's own stamp")
def _fold_stamps(stack: ExitStack) -> None:
    original = state.encode

    def encode(rows: Sequence[Any]) -> bytes:
        newest = max(row.stamp for row in rows)
        return original([replace(row, stamp=newest) for row in rows])

    set_(stack, state, "encode", encode)


@without("sweeps of entries compare", "an entry goes when another holds as late stamps")
def _entry_sweep(stack: ExitStack) -> None:
    def sweep(self: SharedState, scope: Any, ours: str) -> None:
        for key in [stored.key for stored in self._env.store.list(scope.entries)]:
            if key < ours:
                self._env.store.delete(key)

    set_(stack, SharedState, "_sweep", sweep)


@without("grace of entries", "only what an old fold covers is swept")
def _entry_grace(stack: ExitStack) -> None:
    original = SharedState._sweep

    def sweep(self: SharedState, scope: Any, ours: str) -> None:
        limits = OddLimits(self._env.limits.view_age, -1.0)
        kept, self._env = self._env, replace(self._env, limits=limits)  # type: ignore[arg-type]
        try:
            original(self, scope, ours)
        finally:
            self._env = kept

    set_(stack, SharedState, "_sweep", sweep)
