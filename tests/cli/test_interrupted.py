"""Ctrl-C ends a job at any time, without harm: a real signal to a real process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.jobs import check
from lakestore.storage import open_store
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.servers import KEY, SECRET, Bucket
from tests.support.sites import APP, USERS, Work

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
_EVENTS = "select user_id, session_id, version, event_json from events order by all"
_SESSIONS = "select user_id, session_id, version, state from sessions order by all"
AT_ONCE = 30.0
"""On a machine that is busy with other tests; a client gives up on a request after a minute."""


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start a command as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "lakestore.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(*arguments: str) -> str:
    """Run a command to its end, which must be a good one; return what it printed."""
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return output


def interrupted(proxy: FaultProxy, request: int, *arguments: str) -> str:
    """Send a command SIGINT when it has sent that many requests; return its last words.

    That request is never answered, so the command cannot be done, and must not wait for it.
    """
    proxy.requests.clear()
    proxy.faults[:] = [Fault("drop", first=request)]
    with start(*arguments) as process:
        until = time.monotonic() + PATIENCE
        while proxy.count() < request:
            assert process.poll() is None, "it has ended before"
            assert time.monotonic() < until
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        output, errors = process.communicate(timeout=PATIENCE)
        took = time.monotonic() - sent
    proxy.faults.clear()
    assert process.returncode == 130, errors
    assert took < AT_ONCE, errors
    assert output == ""
    return errors


class Answered(NamedTuple):
    """What readers are told."""

    events: list[Any]
    sessions: list[Any]
    states: dict[str, Any]


class Shop:
    """A lake on a server, behind a proxy, of which all is years old."""

    def __init__(self, bucket: Bucket, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self._options = bucket.storage_options
        self._url = bucket.fresh()
        options = {"key": KEY, "secret": SECRET, "endpoint_url": proxy.url, "region": "us-east-1"}
        self.url = f"lakestore+{self._url}?{urlencode(options)}"
        """With all that a process needs to reach it."""
        store = open_store(self._url, self._options)
        with Lake(store, clock=ManualClock(), rollups=False) as lake:
            Work(lake).some(70)
        self.filled = self.answers()

    def answers(self) -> Answered:
        """Return what a process answers that has just opened it, of which nothing is wrong."""
        with Lake.open(self._url, storage_options=self._options, read_only=True) as lake:
            report = check(lake)
            assert report.healthy, report.findings
            states = {
                user: LakeSessionService(lake).sync.get_user_state(app_name=APP, user_id=user)
                for user in USERS
            }
            return Answered(lake.sql(_EVENTS).fetchall(), lake.sql(_SESSIONS).fetchall(), states)


@pytest.fixture
def shop(moto: Bucket) -> Iterator[Shop]:
    """A lake on moto."""
    with fault_proxy(moto.endpoint) as proxy:
        yield Shop(moto, proxy)


@pytest.mark.parametrize(
    ("where", "requests"), [("", (12, 60)), ("threads:2", (60,)), ("processes:2", (60,))]
)
def test_compact(where: str, requests: tuple[int, ...], shop: Shop) -> None:
    """What was packed stands, no answer has changed, and the next one does the rest."""
    command = ("compact", shop.url, *(("--executor", where) if where else ()))
    for request in requests:
        said = interrupted(shop.proxy, request, *command)
        assert said.startswith("stopped: what was packed stands, no answer has changed; the same ")
        assert said.count("\n") == 1
        assert shop.answers() == shop.filled
    finished(*command)
    assert "packed 0 rows" in finished("compact", shop.url)
    assert shop.answers() == shop.filled


def test_sweep_and_check(shop: Shop) -> None:
    """What is gone was needless; a check that is stopped has changed nothing."""
    finished("compact", shop.url)
    for request in (20, 80):
        arguments = ("sweep", shop.url, "--grace", "0", "--yes")
        said = interrupted(shop.proxy, request, *arguments)
        assert said.startswith("stopped: what was deleted was needless, no answer has changed; ")
        assert shop.answers() == shop.filled
    assert "nothing was changed" in interrupted(shop.proxy, 20, *arguments, "--dry-run")
    assert "a check changes nothing" in interrupted(shop.proxy, 20, "check", shop.url)
    finished("sweep", shop.url, "--grace", "0", "--yes")
    assert shop.answers() == shop.filled


@pytest.mark.parametrize(
    ("what", "measure", "requests"),
    [
        ("sessions", "--idle-days", (30,)),
        ("events", "--older-than-days", (30, 60)),
        ("user-state", "--idle-days", (60,)),
    ],
)
def test_prune(what: str, measure: str, requests: tuple[int, ...], shop: Shop) -> None:
    """What was pruned stays pruned, and with the rest it is what one pass prunes."""
    command = ("prune", what, shop.url, measure, "9", "--yes")
    for request in requests:
        said = interrupted(shop.proxy, request, *command)
        assert said == "stopped: what was pruned stays pruned; the same command does the rest\n"
    finished(*command)
    assert finished(*command).startswith("pruned 0 ")
    found = shop.answers()
    assert (found.sessions == []) == (what == "sessions")
    for state in found.states.values():
        assert (state == {}) == (what == "user-state")


def test_erase_while_it_waits(tmp_path: Path) -> None:
    """What is published is gone for readers, and the line says so; the wait is told meanwhile."""
    url = str(tmp_path / "lake")
    with Lake.open(url) as lake:
        Work(lake).some(30)
    command = ("erase", url, "--app", APP, "--user", USERS[0], "--yes")
    with start(*command) as process:
        assert process.stderr
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert re.match(r"\w+: waiting until readers have noticed, \d %, \d+ of 600 seconds, ", first)
    assert rest.startswith("stopped: nothing of the user is read any more, and some bytes are")
    with Lake.open(url, read_only=True) as lake:
        assert not list(lake.sessions.read_all(APP, USERS[0]))


@pytest.mark.parametrize("after", [0.05, 0.1, 0.2])
def test_while_modules_are_imported(after: float, tmp_path: Path) -> None:
    """However early Ctrl-C comes, it is a line and 130, and no trace of Python."""
    script = "import sys, lakestore.__main__ as entry\nprint('begun', flush=True)\nentry.main()\n"
    with subprocess.Popen(
        [sys.executable, "-c", script, "stats", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert errors == "stopped: nothing was changed\n"


_WAITS = """
import signal, threading, time, click
from lakestore.shell.ending import stops_with

@click.command()
@stops_with("all")
def command():
    def elsewhere():
        print("begun", flush=True)
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Thread(target=elsewhere, daemon=True).start()
    threading.Event().wait()

command()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals to threads")
def test_while_it_waits_for_a_thread() -> None:
    """A signal that wakes nobody, as one just before a wait, ends the wait all the same."""
    ended = subprocess.run(
        [sys.executable, "-c", _WAITS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (130, "stopped: all\n")
