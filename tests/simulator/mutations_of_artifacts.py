"""Rules of artifacts, removed one at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from lakestore.history.artifact_loading import _Listed
from lakestore.history.artifact_uploads import Upload
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.artifacts import Artifacts
from lakestore.history.logged import FILES
from lakestore.jobs.artifact_erasing import ArtifactEraser
from lakestore.jobs.artifact_sweep import ArtifactSweep
from lakestore.jobs.erasure import Keep
from lakestore.tables.artifacts import Commit
from tests.simulator.mutating import ageless, set_, without


@without("payloads are named first", "in their artifact's log, where a saver meets the name")
def _first(stack: ExitStack) -> None:
    def name(_self: Any, orphans: Any) -> Any:
        return [stored for each in orphans for stored in each.payloads]

    set_(stack, ArtifactSweep, "_name", name)


@without("a named payload is stored again", "under a new name, before it is committed")
def _again(stack: ExitStack) -> None:
    set_(stack, Upload, "_is_named", lambda *_args: False)
    set_(stack, Upload, "look", lambda *_args: None)


@without("a refused save decides anew", "what it was to refer to may not live any more")
def _anew(stack: ExitStack) -> None:
    original = Upload.place
    placed = WeakKeyDictionary[Upload, str]()

    def place(self: Upload, view: ArtifactView) -> str:
        if self not in placed:
            placed[self] = original(self, view)
        return placed[self]

    set_(stack, Upload, "place", place)


@without("named payloads wait", "until the commit that names them is old")
def _wait(stack: ExitStack) -> None:
    original = ArtifactSweep._named

    def named(self: ArtifactSweep, one: Any, view: Any, _covered: int) -> Any:
        return original(self, one, view, one.last)

    set_(stack, ArtifactSweep, "_named", named)


@without("saves are confirmed", "a commit that took long is found by a load")
def _confirmed(stack: ExitStack) -> None:
    original = Artifacts._confirm

    def confirm(self: Artifacts, key: Any, commit: Commit) -> ArtifactView:
        return self.load(key) if commit.kind == "save" else original(self, key, commit)

    set_(stack, Artifacts, "_confirm", confirm)


@without("saves know a young view", "what was read long ago is loaded before it is built on")
def _young(stack: ExitStack) -> None:
    ageless(stack, Artifacts, "save")


@without("nothing packed comes from logs of artifacts", "nor what lands there later")
def _packed(stack: ExitStack) -> None:
    def newest(self: _Listed) -> int | None:
        return self.files.commits[-1] if self.files.commits else None

    set_(stack, _Listed, "newest", property(newest))


@without("rows of deleted artifacts stay", "versions of their logs are never used again")
def _stay(stack: ExitStack) -> None:
    original, met = Keep.logged, set[tuple[str, int]]()

    def logged(self: Keep, kind: Any) -> Any:
        def kept(row: Any) -> Any:
            place = (kind.log(row), row.version)
            if not row.saves and place in met:
                return None
            met.add(place)
            return row

        return kept if kind is FILES else original(self, kind)

    set_(stack, Keep, "logged", logged)


@without("pruned versions do not live", "whatever of them is packed, or is packed later")
def _pruned(stack: ExitStack) -> None:
    original = ArtifactView.on_commit

    def on_commit(self: ArtifactView, commit: Commit) -> ArtifactView:
        return original(self, replace(commit, first=0) if commit.kind == "prune" else commit)

    set_(stack, ArtifactView, "on_commit", on_commit)


@without("commits below an old one go", "one that is young covers nothing")
def _below(stack: ExitStack) -> None:
    original = ArtifactSweep._sweep_commits
    last_old = ArtifactSweep._last_old

    def sweep(self: ArtifactSweep, *args: Any) -> None:
        set_(stack, ArtifactSweep, "_last_old", lambda _self, one: one.last)
        original(self, *args)
        set_(stack, ArtifactSweep, "_last_old", last_old)

    set_(stack, ArtifactSweep, "_sweep_commits", sweep)


@without("artifacts are erased", "by commits in their logs, with names for their payloads")
def _erased(stack: ExitStack) -> None:
    set_(stack, ArtifactEraser, "end", lambda _self: None)


@without("late payloads of the erased are named", "and the name goes with them")
def _late(stack: ExitStack) -> None:
    set_(stack, ArtifactSweep, "_orphans", lambda *_args: ())
