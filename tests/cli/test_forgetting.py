"""The commands that forget: prune, erase, and compact by a policy."""

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

from lakestore import Lake
from lakestore.log.keys import SessionKey
from lakestore.log.marker import Limits
from lakestore.storage import LocalStore
from tests.cli.running import run
from tests.support.clocks import ManualClock
from tests.support.measured import measured, put
from tests.support.sites import APP, Work


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
    ("what", "measure"), [("events", "--older-than-days"), ("user-state", "--idle-days")]
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
    refused = run("prune", "sessions", old_url, "--older-than-days", "3", "--yes")
    assert refused.exit_code == 2
    assert "goes by --idle-days, not by --older-than-days" in refused.output
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
        r"erased \d+ sessions and \d+ artifacts, deleted ones too; \d+ objects deleted; pending\n"
        r"pending: what .* may still land;"
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
    nothing = "nothing of this user is there: no session, file, state or memory; done\n"
    assert erased.output.startswith(nothing)
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
