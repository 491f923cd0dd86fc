"""Rules of pruning and erasing, removed one at a time; see `tests.simulator.mutating`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from lakestore.history import archive, erased
from lakestore.history.archive import Archive
from lakestore.history.sessions import Sessions
from lakestore.history.view import SessionView
from lakestore.jobs import cutting, erasure, pruning, traces
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.erase import EraseReceipt
from lakestore.jobs.erasing import Eraser
from lakestore.jobs.erasure import Keep
from lakestore.jobs.packing import row_of
from lakestore.jobs.traces import Traces
from lakestore.lake import Lake
from lakestore.log.keys import SessionKey, log_digest
from tests.simulator.mutating import Within, set_, without

prune: Any = import_module("lakestore.jobs.prune")


@without("pruned by a delete commit", "a session is pruned in its log, not in a manifest")
def _by_commit(stack: ExitStack) -> None:
    within = _prunes(stack)
    end = Sessions.end

    def ends(self: Sessions, view: SessionView) -> bool:
        if not within.is_here:
            return end(self, view)
        before = view.packed.row if view.packed else None
        row = replace(row_of(view, before), alive=False, state=None, segments=(), events=0)
        made = Changes()
        made.add(Change(before, row))
        Publisher(within.value.environment, self.archive, row.app_name).publish(made)
        return True

    set_(stack, Sessions, "end", ends)


@without("pruned at the version judged", "a session that was added to meanwhile stays")
def _judged(stack: ExitStack) -> None:
    within = _prunes(stack)
    end = Sessions.end

    def ends(self: Sessions, view: SessionView) -> bool:
        ended = end(self, view)
        if within.is_here and not ended:
            self.delete(view.key)
        return ended or within.is_here

    set_(stack, Sessions, "end", ends)


def _prunes(stack: ExitStack) -> Within:
    """Tell who prunes sessions, and of which lake."""
    original, within = prune.idle_sessions, Within()

    def idle(lake: Lake, *args: Any, **named: Any) -> Any:
        with within.entered(lake):
            return original(lake, *args, **named)

    set_(stack, prune, "idle_sessions", idle)
    return within


@without("whole turns are pruned", "events of one invocation go together, or stay")
def _turns(stack: ExitStack) -> None:
    original = cutting._look

    def look(events: Any) -> Any:
        seen = original(events)
        for place, one in enumerate(seen):
            one.group = place
        return seen

    set_(stack, cutting, "_look", look)


@without("only what is old is pruned", "an event goes when its turn is old")
def _old(stack: ExitStack) -> None:
    original = cutting.cut
    set_(stack, pruning, "cut", lambda rows, _before, version: original(rows, 1 << 60, version))


@without("erased by delete commits", "each session ends in its log before it is erased")
def _ended(stack: ExitStack) -> None:
    original, end, load, within = Eraser.end, Sessions.end, Sessions.load, Within()

    def ends(self: Eraser) -> None:
        with within.entered():
            original(self)

    def loads(self: Sessions, key: SessionKey) -> SessionView:
        view = load(self, key)
        return replace(view, alive=False) if within.is_here else view

    set_(stack, Eraser, "end", ends)
    set_(stack, Sessions, "load", loads)
    set_(stack, Sessions, "end", lambda self, view: within.is_here or end(self, view))


@without("an erase waits", "until nobody decides any more on what was read before")
def _waits(stack: ExitStack) -> None:
    set_(stack, Eraser, "wait", lambda _self: None)


@without("an erase looks again", "after the grace, for what has landed since")
def _again(stack: ExitStack) -> None:
    set_(stack, EraseReceipt, "finish", lambda self, *_args: replace(self, status="done"))


@without("erased versions are not read", "whenever a commit of one lands")
def _versions(stack: ExitStack) -> None:
    set_(stack, Archive, "_erased_session", lambda *_args: None)
    set_(stack, Archive, "erased_log", lambda *_args: None)


@without("what was erased sets nothing", "whenever an entry of it lands")
def _sets(stack: ExitStack) -> None:
    set_(stack, Archive, "has_erased", lambda *_args: False)


@without("erased by commit, not by time", "what a slow clock's user begins afterwards counts")
def _by_time(stack: ExitStack) -> None:
    def is_erased(gone: Any, row: Any) -> bool:
        micros = int(row.stamp.split("-")[0])
        return row.user_id is not None and any(it.erased_at >= micros for it in gone.values())

    for module in (archive, erasure, traces):
        set_(stack, module, "is_erased", is_erased)


@without("what follows an erase counts", "only versions up to the erased one are")
def _follows(stack: ExitStack) -> None:
    original = erased.is_erased

    def is_erased(gone: Any, row: Any) -> bool:
        return original(gone, replace(row, version=0))

    def session(self: Keep, row: Any) -> Any:
        key = SessionKey(row.app_name, row.user_id, row.session_id)
        return None if log_digest(key.log) in self.erased else row

    for module in (archive, erasure, traces):
        set_(stack, module, "is_erased", is_erased)
    set_(stack, Keep, "session", session)


@without("the app's state outlives an erase", "without a word of who has set it")
def _app_state(stack: ExitStack) -> None:
    original = Keep.keyed

    def keyed(self: Keep, kind: Any) -> Any:
        kept = original(self, kind)
        return kept and (lambda row: row if kept(row) == row else None)

    set_(stack, Keep, "keyed", keyed)


@without("dead rows are erased too", "packs are looked through, whatever runs refer to")
def _dead_rows(stack: ExitStack) -> None:
    set_(stack, Traces, "packs", lambda _self, besides=(): iter(()))
