"""Acknowledged means stored: what a folder syncs, in which order, proved by its system calls."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.tracing import SystemCall, Traced, run_traced

# Every append is between "begin" and "end", which stand in the trace as writes.
_SCRIPT = """
import json, sys
from lakestore import Lake
from lakestore.history.drafts import Draft
from lakestore.log.keys import SessionKey

lake = Lake.open(sys.argv[1])
key = SessionKey("app", "user", sys.argv[2])
delta = {"user:k": 1, "app:k": 2, "k": 3}
first, second = (Draft(name, json.dumps({"id": name}), delta) for name in ("e1", "e2"))
print("begin create", flush=True)
marker = lake.sessions.create(key, {}, generated=True).marker
print("end create", flush=True)
print("begin append", flush=True)
marker = lake.sessions.append(key, marker, [first]).marker
print("end append", flush=True)
print("begin second append", flush=True)
lake.sessions.append(key, marker, [second])
print("end second append", flush=True)
"""

_SYNCS = ("fsync", "fdatasync")


def place_of(traced: Traced, said: str) -> int:
    """Return where in the trace the script says something."""
    return next(i for i, call in enumerate(traced.calls) if re.search(f'"{said}(.n)?"', call.text))


def between(traced: Traced, what: str) -> list[SystemCall]:
    """Return the calls of one part of the script."""
    return traced.calls[place_of(traced, f"begin {what}") + 1 : place_of(traced, f"end {what}")]


def links(calls: list[SystemCall]) -> list[tuple[int, str, str]]:
    """Return place, old and new name of every link."""
    return [
        (place, call.paths[0], call.paths[-1])
        for place, call in enumerate(calls)
        if call.name in ("link", "linkat")
    ]


def made(traced: Traced, folder: Path) -> int | None:
    """Return where in the trace a folder is made, None if it is not."""
    return next(
        (
            place
            for place, call in enumerate(traced.calls)
            if call.name == "mkdir" and str(folder) in call.paths
        ),
        None,
    )


def is_synced(calls: list[SystemCall], path: str) -> bool:
    """Tell whether a file or folder is synced in `calls`."""
    return any(call.name in _SYNCS and path in call.paths for call in calls)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Traced, Traced]:
    """A new lake, traced as one process makes it and as a second one adds a session to it."""
    folder = tmp_path_factory.mktemp("traced")
    root = folder / "new" / "lake"
    traced = [run_traced(folder, _SCRIPT, root, session) for session in ("s1", "s2")]
    assert [each.status for each in traced] == [0, 0]
    return root, traced[0], traced[1]


def test_an_object_is_synced_before_it_has_its_name(lake: tuple[Path, Traced, Traced]) -> None:
    """The bytes are on the disk before the link makes them an object."""
    for traced in lake[1:]:
        for what, number in (("create", 1), ("append", 3), ("second append", 3)):
            calls = between(traced, what)
            linked = links(calls)
            assert len(linked) == number
            for place, aside, _ in linked:
                assert is_synced(calls[:place], aside)


def test_the_folder_is_synced_before_the_append_returns(
    lake: tuple[Path, Traced, Traced],
) -> None:
    """The new name is on the disk too before the caller hears that it is stored."""
    for traced in lake[1:]:
        for what in ("create", "append", "second append"):
            calls = between(traced, what)
            for place, _, path in links(calls):
                assert is_synced(calls[place:], os.path.dirname(path))


def test_a_commit_stands_before_its_entries(lake: tuple[Path, Traced, Traced]) -> None:
    """The commit is the truth, so it is durable first; an entry never stands without one."""
    for traced in lake[1:]:
        calls = between(traced, "append")
        linked = links(calls)
        tables = [Path(path).relative_to(lake[0]).parts[0] for _, _, path in linked]
        assert tables == ["events", "state", "state"]
        (place, _, commit), (next_place, _, _) = linked[:2]
        assert is_synced(calls[place:next_place], os.path.dirname(commit))


def test_every_folder_below_the_root_is_durable(lake: tuple[Path, Traced, Traced]) -> None:
    """A process syncs the folders above its object up to the root, whoever made them."""
    root = lake[0]
    for traced in lake[1:]:
        for what in ("create", "append"):
            end = place_of(traced, f"end {what}")
            for _, _, path in links(between(traced, what)):
                for folder in Path(path).relative_to(root).parents:
                    since = made(traced, root / folder) or 0
                    above = str((root / folder).parent)
                    assert is_synced(traced.calls[since:end], above), folder


def test_the_root_is_durable(lake: tuple[Path, Traced, Traced]) -> None:
    """So are the folder of the lake and those above it that had to be made."""
    root, first, _ = lake
    for folder in (root, root.parent):
        since = made(first, folder)
        assert since is not None
        before = first.calls[since : place_of(first, "begin create")]
        assert is_synced(before, str(folder.parent)), f"the entry of {folder.name} is not synced"


def test_a_known_folder_is_not_made_again(lake: tuple[Path, Traced, Traced]) -> None:
    """An append to a folder that is known costs two syncs an object: its bytes and its name."""
    for traced in lake[1:]:
        calls = between(traced, "second append")
        assert sum(call.name in _SYNCS for call in calls) == 2 * len(links(calls))
        assert not [call for call in calls if call.name == "mkdir"]


def test_nothing_is_written_under_its_name(lake: tuple[Path, Traced, Traced]) -> None:
    """No object's file is ever opened for writing, renamed or replaced."""
    root = str(lake[0])
    for traced in lake[1:]:
        names = {path for _, _, path in links(traced.calls)}
        assert names
        for call in traced.calls:
            assert not call.name.startswith("rename"), call.text
            if call.name == "openat" and ("O_WRONLY" in call.text or "O_RDWR" in call.text):
                assert names.isdisjoint(call.paths), call.text
                inside = [path for path in call.paths if path.startswith(root + "/")]
                assert all(path.startswith(root + "/.tmp/") for path in inside), call.text
                if inside:
                    assert "O_CREAT|O_EXCL" in call.text


def test_nothing_is_left_aside(lake: tuple[Path, Traced, Traced]) -> None:
    """What was written aside is gone when all has its name."""
    assert os.listdir(lake[0] / ".tmp") == []
