"""The commands that pack, sweep, check and count, as a user reads them and as a script does."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.jobs import compact, sweep
from lakestore.log.keys import commit_key
from lakestore.storage import LocalStore
from tests.cli.running import run
from tests.support.payloads import PayloadLake, image
from tests.support.sites import APP, Work


def swept(url: str) -> None:
    """Pack all and sweep it."""
    with Lake.open(url) as lake:
        compact(lake)
        sweep(lake, grace=0)


def break_a_commit(url: str) -> str:
    """Cut a commit of a living session short; return its key."""
    with Lake.open(url) as lake:
        work = Work(lake, seed=9)
        work.some(1)
        (key,) = work.markers
    path = Path(url) / commit_key(key.log, 1)
    path.write_bytes(path.read_bytes()[:50])
    return commit_key(key.log, 1)


def test_compact_tells_what_it_packed(url: str) -> None:
    """One line says how much was packed; a second time there is nothing."""
    done = run("compact", url)
    assert done.exit_code == 0
    assert re.match(r"packed [1-9]\d* rows of ", done.output)
    assert run("compact", url).output.startswith("packed 0 rows of 0 sessions into 0 B")
    assert json.loads(run("compact", url, "--json").output)["events"] == 0


def test_sweep_asks_before_it_shortens_the_grace(url: str) -> None:
    """Without a terminal to ask on, a shorter grace needs --yes; a dry run does not."""
    run("compact", url)
    refused = run("sweep", url, "--grace", "0")
    assert refused.exit_code == 1
    assert "say --yes" in refused.output
    told = run("sweep", url, "--grace", "0", "--dry-run")
    assert told.output.startswith("would delete:\nkind ")
    done = run("sweep", url, "--grace", "0s", "--yes")
    assert done.exit_code == 0
    assert done.output.splitlines()[3:-1] == told.output.splitlines()[3:-1]
    assert run("sweep", url).output.startswith("deleted nothing: ")


def test_sweep_prints_json(url: str) -> None:
    """Programs get one object with the names of the report."""
    run("compact", url)
    report = json.loads(run("sweep", url, "--grace", "0", "--yes", "--json").output)
    assert set(report["deleted"]) >= {"commits", "entries"}
    assert report["failures"] == 0
    assert report["dry_run"] is False


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_sweep_ends_with_1_when_something_stays(url: str) -> None:
    """What could not be deleted is named, and a script notices."""
    swept_before = run("compact", url)
    assert swept_before.exit_code == 0
    folder = next((Path(url) / "events").rglob("session=*"))
    folder.chmod(0o500)
    try:
        done = run("sweep", url, "--grace", "0", "--yes")
    finally:
        folder.chmod(0o700)
    assert done.exit_code == 1
    assert "could not" in done.output


def test_check_of_a_whole_lake(url: str) -> None:
    """A lake that is whole is told so, on its last line, with exit code 0."""
    swept(url)
    checked = run("check", url)
    assert checked.exit_code == 0
    assert checked.output.splitlines()[-1] == "nothing is wrong"
    assert re.search(r"sessions, \d+ rows\n", checked.output)  # of events, and of creations


def test_check_tells_what_is_wrong(url: str) -> None:
    """Each finding has its key whole, what it costs and how to mend it; the exit code is 1."""
    swept(url)
    key = break_a_commit(url)
    checked = run("check", url)
    assert checked.exit_code == 1
    assert checked.output.startswith(f"LOST  damaged commit\n  {key}\n  what  not a Parquet file.")
    assert "\n  cost  the session cannot be read; no other one suffers\n" in checked.output
    assert checked.output.splitlines()[-1] == "1 lost"
    assert all(len(line) <= 100 for line in checked.output.splitlines() if key not in line)
    report = json.loads(run("check", url, "--json").output)
    assert report["counts"] == {"lost": 1}
    assert report["findings"][0]["key"] == key


def test_what_is_damaged_leads_to_a_check(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A command that meets a damaged run names it, and which command tells more."""
    swept(url)
    for run_file in (Path(url) / "runs").rglob("*.parquet"):
        run_file.write_bytes(run_file.read_bytes()[:-50] + b"x" * 50)
    failed = run("prune", "sessions", url, "--idle-days", "30", "--dry-run")
    assert failed.exit_code == 1
    what, then = failed.stderr.splitlines()[-2:]
    assert re.search(r"[^.]\. key='runs/", what)
    assert then.startswith("`lakestore check` with the same URL tells ")
    told = run("stats", url)
    assert told.exit_code == 1
    assert "cannot be counted" in told.output
    shown = run("sql", url, "select count(*) from sessions")
    assert shown.exit_code == 0  # of other apps all is shown
    assert re.search(r"see `lakestore check`: .*key='runs/", caplog.text)


def test_check_passes_over_strays(url: str) -> None:
    """What is not ours is a note, and no reason to fail."""
    (Path(url) / "README").write_text("mine")
    checked = run("check", url)
    assert checked.exit_code == 0
    assert checked.output.splitlines()[-1] == "1 note"


def test_check_repairs_when_told(url: str) -> None:
    """With --repair missing entries are put, and the lake is healthy then."""
    for entry in (Path(url) / "state").rglob("*.parquet"):
        entry.unlink()
    repaired = run("check", url, "--repair")
    assert repaired.exit_code == 0
    assert "repaired" in repaired.output.splitlines()[-1]
    assert "user:" not in repaired.output
    assert run("check", url).output.splitlines()[-1] == "nothing is wrong"


def test_stats_are_shown(url: str) -> None:
    """What a lake has fits 100 columns, and says when compaction is due."""
    shown = run("stats", url).output
    assert shown.startswith("travel  ")
    (due,) = (line for line in shown.splitlines() if "compaction is due, " in line)
    assert due.endswith(f" would do: lakestore compact {url}")
    assert "user  sessions" in shown
    assert max(len(line) for line in shown.splitlines() if url not in line) <= 100
    assert "packed events  fresh commits" in shown
    assert "and 2 users more" in run("stats", url, "--users", "1").output
    run("compact", url)
    assert "due" not in run("stats", url).output
    swept(url)
    assert "due" not in run("stats", url).output
    (app,) = json.loads(run("stats", url, "--json").output)["apps"]
    assert app["app_name"] == APP


@pytest.mark.parametrize("command", ["compact", "sweep", "check", "stats"])
def test_a_lake_that_is_not_there_is_not_made(command: str, tmp_path: Path) -> None:
    """A URL with a mistake in it is an error, and no new lake."""
    missing = run(command, tmp_path / "none")
    assert missing.exit_code == 1
    assert "there is no lake here" in missing.output
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", ["compact", "sweep", "check", "stats"])
def test_an_app_that_is_not_there(command: str, url: str) -> None:
    """A name with a mistake in it is an error, and nothing is done."""
    missing = run(command, url, "--app", "none such")
    assert missing.exit_code == 1
    assert missing.stdout == ""
    assert missing.stderr == "Error: there is no app 'none such' in this lake\n"


def test_prune_of_whom_nobody_knows(url: str) -> None:
    """A mistyped app or user is an error; a user without an app is no argument at all."""
    prune = ("prune", "sessions", url, "--idle-days", "9", "--yes")
    assert "no app 'none'" in run(*prune, "--app", "none").stderr
    missing = run(*prune, "--app", APP, "--user", "anna")
    assert missing.exit_code == 1
    assert missing.stderr == f"Error: there is no user 'anna' of the app {APP!r} in this lake\n"
    assert run(*prune, "--app", APP, "--user", "ana").exit_code == 0
    alone = run(*prune, "--user", "ana")
    assert alone.exit_code == 2
    assert "give its --app, too" in alone.stderr


def test_options_in_a_bare_url() -> None:
    """The refusal names the form that takes them, and shows none of their values."""
    refused = run("compact", "s3://bucket/agents?region=eu-1")
    assert refused.exit_code == 1
    assert "lakestore+s3://bucket/agents?region=…" in refused.stderr


def test_times_are_written_for_people(url: str) -> None:
    """A grace is 90, 45m, 2h or 1d; all else is told how to write it."""
    for grace in ("7200", "90m", "2h", "1.5d"):
        assert run("sweep", url, "--grace", grace, "--dry-run").exit_code == 0
    wrong = run("sweep", url, "--grace", "soon")
    assert wrong.exit_code == 2
    assert "45m" in wrong.output


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_on_a_terminal_it_asks(url: str) -> None:
    """Someone at a terminal is asked, and no is no."""
    run("compact", url)
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "lakestore.cli", "sweep", url, "--grace", "0"]
    with subprocess.Popen(
        command, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.write(leader, b"n\n")
        output, errors = process.communicate(timeout=60)
    os.close(leader)
    os.close(follower)
    assert process.returncode == 1
    assert "Does nobody else have" in errors
    assert output == ""


def test_bytes_beside_events_are_counted_and_checked(tmp_path: Path) -> None:
    """`stats` has a line for them where there are any, and `check --deep` reads them."""
    lake = PayloadLake(LocalStore(tmp_path / "lake"))
    lake.show(lake.create(), image(1))
    url, (key,) = str(tmp_path / "lake"), lake.objects
    assert "  payloads  1 object, 500 B, of artifacts and events" in run("stats", url).output
    path = tmp_path / "lake" / key
    path.write_bytes(path.read_bytes()[::-1])
    assert run("check", url).exit_code == 0
    told = run("check", url, "--deep")
    assert told.exit_code == 1
    assert "damaged payload" in told.output
