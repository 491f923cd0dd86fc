"""The commands that run jobs, as a user reads them and as a script does."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakestore import Lake
from lakestore.cli import main
from lakestore.jobs import compact, sweep
from lakestore.log.keys import SessionKey, commit_key
from lakestore.log.marker import Limits
from lakestore.storage import LocalStore
from tests.support.clocks import ManualClock
from tests.support.measured import measured, put
from tests.support.sites import APP, Work


def run(*arguments: str | Path, answer: str | None = None) -> Result:
    """Run a command as the shell would, 100 columns wide."""
    runner = CliRunner(env={"COLUMNS": "100"})
    return runner.invoke(main, [str(argument) for argument in arguments], input=answer)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with some work in it."""
    folder = str(tmp_path / "lake")
    with Lake.open(folder) as lake:
        Work(lake).some(40)
    return folder


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
    assert f"compaction is due: lakestore compact {url}" in shown
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


@pytest.fixture
def old_url(tmp_path: Path) -> str:
    """A lake of which all is years old."""
    store = LocalStore(tmp_path / "old")
    with Lake(store, clock=ManualClock()) as lake:
        Work(lake).some(40)
        put(lake, measured(app_name=APP))
    return str(tmp_path / "old")


def living(url: str, user: str | None = None) -> list[SessionKey]:
    """Return which sessions there are."""
    with Lake.open(url, read_only=True) as lake:
        return sorted(view.key for view in lake.sessions.read_all(APP, user))


def test_prune_tells_first_and_needs_a_yes(old_url: str) -> None:
    """Without --yes and a terminal nothing goes, and what would go is told."""
    before = living(old_url)
    refused = run("prune", "sessions", old_url, "--idle-days", "30")
    assert refused.exit_code == 1
    assert f"would prune {len(before)} sessions, " in refused.output
    assert living(old_url) == before


def test_prune_does_what_was_asked(old_url: str) -> None:
    """With --yes it is done at once, in the scope that was given, as the dry run has told."""
    arguments = ("prune", "sessions", old_url, "--idle-days", "9", "--app", APP, "--user", "ana")
    told = json.loads(run(*arguments, "--dry-run", "--json").output)
    done = json.loads(run(*arguments, "--yes", "--json").output)
    assert done["deleted_count"] == told["deleted_count"] > 0
    assert done["deleted_bytes"] == told["deleted_bytes"]
    assert living(old_url, "ana") == []
    assert living(old_url) != []


@pytest.mark.parametrize(
    ("what", "measure"),
    [
        ("events", "--older-than-days"),
        ("user-state", "--idle-days"),
        ("telemetry", "--older-than-days"),
    ],
)
def test_prune_of_what_is_within(old_url: str, what: str, measure: str) -> None:
    """Events and users' keys go, sessions stay, and a second time there is nothing to prune."""
    before = living(old_url)
    told = json.loads(run("prune", what, old_url, measure, "9", "--dry-run", "--json").output)
    done = json.loads(run("prune", what, old_url, measure, "9", "--yes", "--json").output)
    assert done["deleted_count"] == told["deleted_count"] > 0
    assert living(old_url) == before
    again = run("prune", what, old_url, measure, "9", "--yes")
    assert again.output.startswith("pruned 0 ")


def test_prune_needs_the_right_measure(old_url: str) -> None:
    """Events have an age, sessions and user state have been idle; neither has a default."""
    before = living(old_url)
    for arguments in ([], ["--idle-days", "3"], ["--older-than-days", "0"]):
        assert run("prune", "events", old_url, *arguments, "--yes").exit_code == 2
    assert run("prune", "sessions", old_url, "--older-than-days", "3", "--yes").exit_code == 2
    assert living(old_url) == before


def test_erase_prints_a_receipt(tmp_path: Path) -> None:
    """The receipt says what went, what is pending, and what a lake cannot see."""
    url = str(tmp_path / "lake")
    with Lake.open(url, limits=Limits(view_age=0.5, grace=600.0)) as lake:
        Work(lake).some(40)
    scope = ("--app", APP, "--user", "ana")
    before = living(url)
    assert run("erase", url, *scope).exit_code == 1
    assert living(url) == before
    erased = run("erase", url, *scope, "--yes")
    assert erased.exit_code == 0
    assert re.match(
        r"erased \d+ sessions; \d+ objects deleted; pending\npending: what .* may still land;"
        r" from 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d UTC on the same command looks once more\n",
        erased.output,
    )
    assert "backups" in erased.output
    assert living(url, "ana") == []
    assert living(url) != []
    assert run("erase", url, "--user", "ana").exit_code == 2
    assert run("erase", url, "--app", APP, "--user", "").exit_code == 2


def test_erase_of_a_user_who_is_not_known_waits_for_nothing(url: str) -> None:
    """It is said, and the command is done at once, though others would take ten minutes."""
    erased = run("erase", url, "--app", APP, "--user", "nobody", "--yes", "--wait")
    assert erased.exit_code == 3
    assert erased.output.startswith("nothing of this user is there: no session, no state; done\n")
    unknown = run("erase", url, "--app", "nothing", "--user", "ana", "--yes")
    assert unknown.exit_code == 1
    assert "there is no app 'nothing' in this lake" in unknown.output


def asked(answer: bytes, *arguments: str) -> tuple[int, str]:
    """Answer a command on its terminal; return its exit code, and what it said."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "lakestore", *arguments]
    with subprocess.Popen(
        command, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        said = ""
        while "?" not in said:
            said += process.stderr.read(1)
        if answer:
            os.write(leader, answer)
        else:
            time.sleep(0.5)  # a person is no quicker, and Python needs a moment to wait for a line
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    os.close(leader)
    os.close(follower)
    assert output == ""
    return process.returncode, said + errors


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_erase_asks_with_what_it_means(url: str) -> None:
    """Who is asked sees how many sessions go and how long it takes; Ctrl-C is an answer, too."""
    count = len(living(url, "ana"))
    scope = ("erase", url, "--app", APP, "--user")
    code, said = asked(b"n\n", *scope, "ana")
    assert code == 1
    assert re.search(rf": {count} living sessions?, takes 10 minutes\?", said)
    assert "no living session is known" in asked(b"n\n", *scope, "nobody")[1]
    code, said = asked(b"", *scope, "ana")
    assert code == 130
    assert said.splitlines()[-1] == "stopped: nothing was changed"
    assert len(living(url, "ana")) == count


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


def test_a_policy_is_applied_first(url: str, tmp_path: Path) -> None:
    """A policy needs a yes; what it prunes is told before what was packed."""
    policy = tmp_path / "keep.toml"
    policy.write_text("sessions_idle_days = 30\nuser_state_idle_days = 180\n")
    would = run("compact", url, "--policy", policy, "--dry-run")
    assert would.exit_code == 0
    words = [line.split("  ")[0].split(",")[0] for line in would.output.splitlines()]
    assert words == ["would prune 0 sessions", "would prune 0 keys"]
    assert run("compact", url, "--dry-run").exit_code == 2
    refused = run("compact", url, "--policy", policy)
    assert refused.exit_code == 1
    assert "say --yes" in refused.output
    done = run("compact", url, "--policy", policy, "--yes")
    assert done.exit_code == 0
    words = [line.split("  ")[0].split(",")[0] for line in done.output.splitlines()]
    assert words[:2] == ["pruned 0 sessions", "pruned 0 keys"]
    assert words[2].startswith("packed ")
    assert run("compact", url, "--policy", tmp_path / "none.toml", "--yes").exit_code == 2


@pytest.mark.slow  # it waits for a grace that a busy machine's pauses do not reach
def test_erase_stays_until_it_is_done(tmp_path: Path) -> None:
    """With --wait the receipt is done, and nothing of the lake is wrong."""
    url = str(tmp_path / "lake")
    with Lake.open(url, limits=Limits(view_age=2.0, grace=5.0)) as lake:
        Work(lake).some(20)
    erased = run("erase", url, "--app", APP, "--user", "ana", "--yes", "--wait", "--json")
    receipt = json.loads(erased.output)
    assert (receipt["status"], receipt["left"]) == ("done", [])
    assert receipt["sessions"]
    assert run("check", url).exit_code == 0
