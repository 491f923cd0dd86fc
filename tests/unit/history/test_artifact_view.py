"""An artifact is what its newest commit and what is packed say, whatever was packed when."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.history.artifact_view import ArtifactView, UnpackedError
from lakestore.log.keys import ArtifactKey
from lakestore.tables.artifacts import ArtifactRow, Commit, Saved

KEY = ArtifactKey("a", "u", "s", "f.txt")


@dataclass
class Log:
    """A log, what is packed of it, and what lives of it as told in the plainest way."""

    commits: list[Commit] = field(default_factory=list)
    packed: list[ArtifactRow] = field(default_factory=list)
    lives: dict[int, int] = field(default_factory=dict)
    """By artifact version the log version that saved it."""

    def view(self, packed: ArtifactRow | None) -> ArtifactView:
        """Return what a reader sees who knows that row of runs, and lists the log."""
        view = ArtifactView(KEY, 0.0)
        if packed is not None:
            view = view.on_packed(packed)
        return view.on_commit(self.commits[-1]) if len(self.commits) > view.version else view

    def do(self, step: str, count: int) -> None:
        """Take one step, with the newest row of runs or none of what was packed known."""
        view = self.view(self.packed[-1] if self.packed else None)
        version = view.version + 1
        if step == "pack":
            self.packed.append(view.row())
        elif step == "save":
            saved = Saved(version, "t", version, view.next_version, "{}")
            self.lives[view.next_version] = version
            self.commits.append(view.commit("save", "t", version, saved=saved))
        elif step == "delete":
            self.lives.clear()
            self.commits.append(view.commit("delete", "t", version, kept=()))
        elif step == "prune" and view.alive:
            kept = view.saves[-count:]
            self.lives = {it.artifact_version: it.version for it in kept}
            self.commits.append(view.commit("prune", "t", version, kept=kept))
        elif step == "name":
            self.commits.append(view.commit("name", "t", version, payloads=[f"p{version}"]))


_steps = st.tuples(
    st.sampled_from(["save", "save", "pack", "delete", "prune", "name"]), st.integers(1, 3)
)


@given(st.lists(_steps, max_size=25))
def test_view_is_what_was_done(steps: list[tuple[str, int]]) -> None:
    """With each row of runs that a commit may be read with, the same versions live."""
    log = Log()
    for step, count in steps:
        log.do(step, count)
        for packed in [None, *log.packed]:
            try:
                view = log.view(packed) if log.commits else None
            except UnpackedError:
                assert packed is not log.packed[-1]
                continue
            if view is not None:
                assert {it.artifact_version: it.version for it in view.saves} == log.lives
                assert view.version == len(log.commits)
                assert view.next_version == max(log.lives, default=-1) + 1


@given(st.lists(_steps, max_size=25))
def test_what_was_named_is_known_until_more_is(steps: list[tuple[str, int]]) -> None:
    """The payloads named last are known from the newest commit, or from what is packed."""
    log = Log()
    for step, count in steps:
        log.do(step, count)
    view = log.view(log.packed[-1] if log.packed else None) if log.commits else None
    names = [commit.version for commit in log.commits if commit.kind == "name"]
    if view is not None:
        assert (view.named.payloads if view.named else ()) == tuple(f"p{n}" for n in names[-1:])


def test_other_artifact_is_refused() -> None:
    """A commit that lies in the log of another artifact is not taken for its own."""
    other = ArtifactView(ArtifactKey("a", "u", None, "user:f.txt"), 0.0)
    with pytest.raises(FormatError):
        ArtifactView(KEY, 0.0).on_commit(other.commit("delete", "t", 1, kept=()))
