"""The commands that rebuild, restore and prune memory, as a user reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakestore import Lake, LakeMemoryService, LakeSessionService
from tests.cli.running import run
from tests.support.aging import APP, USER, AgingLake
from tests.support.rebuilding import memories_of

EXTRACTOR = "tests.support.rebuilding:summary"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A folder with a session that is remembered."""
    place = str(tmp_path / "lake")
    with Lake.open(place) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name=APP, user_id=USER, session_id="s")
        events = AgingLake(lake.environment.store)
        service.append_events(session, [events.event("green tea"), events.event("tea again")])
        memories_of(lake).add_session_to_memory(session)
    return place


def found(url: str) -> int:
    """Return how many memories of tea there are."""
    with Lake.open(url, read_only=True) as lake:
        answer = memories_of(lake).search_memory(app_name=APP, user_id=USER, query="tea")
        return len(answer.memories)


def test_rebuild_and_restore(url: str) -> None:
    """Each tells in a line what became of how many memories."""
    done = run("rebuild-memory", url, "--app", APP)
    assert done.exit_code == 0
    assert done.output.startswith("made 2 memories of 2 events in 1 session, in place of 2  (")
    assert "  2 as before, 0 changed, 0 appeared, 0 vanished\n" in done.output

    told = run("rebuild-memory", url, "--app", APP, "--extractor", EXTRACTOR, "--dry-run")
    assert told.output.startswith("would make 1 memory of 2 events")
    assert found(url) == 2
    run("rebuild-memory", url, "--app", APP, "--user", USER, "--extractor", EXTRACTOR)
    assert found(url) == 1
    assert run("restore-memory", url, "--app", APP).output == (
        "brought back 2 memories in place of 1\n"
    )
    assert found(url) == 2
    again = run("restore-memory", url, "--app", APP)
    assert (again.exit_code, "no rebuild has put memories aside" in again.output) == (1, True)


def test_a_rebuild_with_failures_ends_with_one(url: str, tmp_path: Path) -> None:
    """It names the sessions that failed, and what was raised."""
    (tmp_path / "mine.py").write_text("def broken(history):\n    raise ValueError('no luck')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = run("rebuild-memory", url, "--app", APP, "--extractor", "mine:broken")
        of_user = ("--extractor", "mine:broken", "--per", "user")
        assert "1 user failed" in run("rebuild-memory", url, "--app", APP, *of_user).output
    assert done.exit_code == 1
    assert "1 session failed, and kept the memories there were:\n" in done.output
    assert f"  {USER}/s: ValueError: no luck\n" in done.output
    assert found(url) == 2


def test_vectors_come_from_an_embedder(url: str, tmp_path: Path) -> None:
    """What the command makes is near to a question in other words, if it is given a function."""
    (tmp_path / "vectors.py").write_text("def embed(texts):\n    return [[1.0] for _ in texts]\n")

    def near() -> int:
        with Lake.open(url) as lake:
            memories = LakeMemoryService(
                lake, ranking="hybrid", embedder=lambda texts: [[1.0] for _ in texts]
            )
            found = memories.sync.search_memory(app_name=APP, user_id=USER, query="xyzzy")
            return len(found.memories)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        how = ("--embedder", "vectors:embed", "--thoughts", "--tools")
        run("rebuild-memory", url, "--app", APP)
        assert near() == 0
        run("rebuild-memory", url, "--app", APP, *how)
        assert near() > 0


@pytest.mark.parametrize("wrong", ["def f(:", "x = unknown"])
def test_a_module_that_cannot_be_imported(url: str, tmp_path: Path, wrong: str) -> None:
    """What it raised is told in a line, and no traceback."""
    name = f"broken_{len(wrong)}"
    (tmp_path / f"{name}.py").write_text(wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        refused = run("rebuild-memory", url, "--app", APP, "--extractor", f"{name}:f")
    assert refused.exit_code == 2
    assert f"importing {name} raised " in refused.output


def test_json_tells_all(url: str) -> None:
    """One object, with the comparison in it."""
    report = json.loads(run("rebuild-memory", url, "--app", APP, "--json").output)
    assert (report["events"], report["comparison"]["after"], report["failures"]) == (2, 2, [])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--extractor", "summary"], "written as package.module:name"),
        (["--extractor", "no.such:thing"], "there is no no.such:thing"),
        (["--extractor", "json:__doc__"], "is no function"),
        (["--batch-size", "2"], "--batch-size is for an --extractor"),
        (["--since", "monday"], "a time is written as"),
    ],
)
def test_wrong_arguments(url: str, options: list[str], says: str) -> None:
    """They end with 2, and say what is meant."""
    refused = run("rebuild-memory", url, "--app", APP, *options)
    assert (refused.exit_code, says in refused.output) == (2, True), refused.output


def test_an_app_that_is_not_there(url: str) -> None:
    """A name that was mistyped rebuilds nothing."""
    refused = run("rebuild-memory", url, "--app", "trevel")
    assert (refused.exit_code, "there is no app 'trevel'" in refused.output) == (1, True)


def test_prune_memory(url: str) -> None:
    """Memory is pruned as all else is, of a scope."""
    done = run("prune", "memory", url, "--older-than-days", "1", "--scope", "all", "--yes")
    assert done.output.startswith("pruned ")
    refused = run("prune", "events", url, "--older-than-days", "1", "--scope", "all", "--yes")
    assert (refused.exit_code, "--scope is of memory" in refused.output) == (2, True)
