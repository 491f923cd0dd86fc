"""What the commands tell of artifacts, and how they are pruned."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from google.genai import types

from lakestore import Lake
from lakestore.jobs import check, compact, stats, sweep
from lakestore.log.keys import SessionKey
from lakestore.storage import LocalStore
from tests.cli.running import run
from tests.support.artifacts import APP, OTHER, REPORT, SHARED, payloads, save
from tests.support.clocks import ManualClock
from tests.support.payloads import PayloadLake, image


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with a session, and files of three years ago."""
    with Lake(LocalStore(tmp_path / "old"), clock=ManualClock()) as lake:
        lake.sessions.create(SessionKey(APP, "ana", "s1"), {}, generated=True)
        for body in (b"1", b"22"):
            save(lake, body, mime_type="application/pdf")
        save(lake, b"x", SHARED)
    return str(tmp_path / "old")


def test_show_names_them(url: str) -> None:
    """A session is printed with the artifacts that it can load."""
    shown = run("show", url, "s1").output
    assert "report.pdf      2 versions, 2 B, application/pdf\n" in shown
    assert "user:notes.txt  1 version, 1 B\n" in shown


def test_show_says_what_is_not_there(url: str) -> None:
    """A payload that is lost or cut, and a file that a rewind has taken away."""
    store = LocalStore(url)
    with Lake.open(url) as lake:
        gone, cut = save(lake, b"3").payload or "", save(lake, b"4", SHARED).payload or ""
        save(lake, b"", OTHER, mime_type="application/octet-stream")
    store.delete(gone)
    store.delete(cut)
    store.put_if_absent(cut, b"four")
    shown = run("show", url, "s1").output
    assert "report.pdf      3 versions, 1 B, lost\n" in shown
    assert "user:notes.txt  2 versions, 1 B, damaged\n" in shown
    taken = "1 version, 0 B, application/octet-stream, taken away by a rewind, or empty"
    assert f"other.txt       {taken}\n" in shown


def test_show_tells_of_inline_bytes(tmp_path: Path) -> None:
    """How many they are, also in what a tool answered, beside the event or in it; or are lost."""
    lake = PayloadLake(LocalStore(tmp_path / "lake"))
    session = lake.create()
    part = types.FunctionResponsePart(
        inline_data=types.FunctionResponseBlob(mime_type="image/gif", data=b"x" * 7)
    )
    answer = types.FunctionResponse(name="draw", response={}, parts=[part])
    lake.show(session, image(1), image(2, 8), types.Part(function_response=answer))
    for lost in ("", ", lost"):
        shown = run("show", str(tmp_path / "lake"), session.id).output
        assert f"[image/png, 500 B{lost}]" in shown
        assert "[image/png, 8 B]" in shown
        assert "[image/gif, 7 B]" in shown
        for key in lake.objects:
            lake.store.delete(key)


def test_stats_count_them(url: str) -> None:
    """Artifacts, and bytes of payloads, of all and of each user; packed or not."""
    for fresh in (2, 0):
        shown = run("stats", url).output
        assert "files     2 artifacts\n" in shown
        assert "payloads  3 objects, 4 B, of artifacts and events" in shown
        assert ("commits of 2 artifacts" in shown) == bool(fresh)
        with Lake.open(url, read_only=True) as lake:
            (app,) = stats(lake).apps
        assert (app.fresh_artifacts, app.total.artifacts) == (fresh, 2)
        assert (app.users["ana"].payloads, app.users["ana"].payload_bytes) == (3, 4)
        assert app.objects == len([it for it in Path(url).rglob("*.*") if it.is_file()]) - 1
        assert run("compact", url).exit_code == 0


@pytest.mark.parametrize("packs", [False, True])
def test_figures_are_of_what_lives(url: str, packs: bool) -> None:
    """What was deleted or dropped is counted as what a sweep takes; `check` counts alike."""
    with Lake.open(url) as lake:
        if packs:
            compact(lake)
        lake.artifacts.delete(SHARED)
        view = lake.artifacts.load(REPORT)
        lake.artifacts.prune(view, view.saves[1:])
        if packs:
            compact(lake)
        for _ in range(3):
            (app,) = stats(lake).apps
            total = app.total
            assert (total.artifacts, total.payloads, total.payload_bytes) == (1, 1, 2)
            assert (app.users["ana"].artifacts, app.users["ana"].payloads) == (1, 1)
            assert check(lake).artifacts == 1
            # The names of payloads that go are commits, of which older ones go in turn.
            assert sweep(lake, grace=timedelta(0)).objects == total.covered_objects
        assert total.covered_objects == 0


def test_prune(url: str) -> None:
    """Old versions go as they are asked to; what only others take is refused."""
    before = ("prune", "artifacts", url, "--older-than-days", "9", "--app", APP, "--user", "ana")
    assert "would prune 1 version of artifacts" in run(*before, "--dry-run").output
    report = json.loads(run(*before, "--yes", "--json").output)
    assert (report["table"], report["deleted_count"]) == ("artifacts", 1)
    assert run(*before, "--keep-last", "0").exit_code == 2
    assert run(*before, "--scope", "app").exit_code == 2
    assert "give one" in run(*before, "--latest", "--keep-last", "2").output
    assert run("prune", "sessions", url, "--idle-days", "9", "--latest").exit_code == 2
    with Lake.open(url) as lake:
        assert payloads(lake, REPORT) == {1: b"22"}
        assert "pruned 2 versions of artifacts" in run(*before, "--latest", "--yes").output
        assert lake.sql("select count(*) from artifacts").fetchall() == [(0,)]


def test_a_user_with_files_alone(url: str) -> None:
    """One who has nothing but artifacts is known to commands, packed and swept or not."""
    with Lake.open(url) as lake:
        lake.sessions.delete(SessionKey(APP, "ana", "s1"))
        save(lake, b"x", type(REPORT)(APP, "Bo", None, "user:x"))
    for _ in range(2):
        erased = run("prune", "artifacts", url, "--older-than-days", "9", "--app", APP,
                     "--user", "Bo", "--dry-run")  # fmt: skip
        assert erased.exit_code == 0, erased.output
        run("compact", url)
        run("sweep", url, "--grace", "0s", "--yes")
    assert run("prune", "artifacts", url, "--older-than-days", "9", "--app", APP,
               "--user", "nobody", "--dry-run").exit_code == 1  # fmt: skip
