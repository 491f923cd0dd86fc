"""Every command as a user reads it: what it prints, where, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.cli import main

ROOT = Path(__file__).resolve().parents[2]
NOON = 1_700_000_000.0 - 1_700_000_000.0 % 86_400 + 43_200  # 2023-11-14 12:00 UTC

CONVERSATION = """\
trip  app travel  user ana
5 events, 2 turns, 30 tokens

── turn 1 ── 2023-11-14 UTC ────────────────────────────────────────────────────────────────────────
12:00:00  user   How is the weather in Faro?
12:00:01  guide  → weather(city="Faro", days=2)
12:00:02  guide  ✗ weather: {"error": "no answer"}
                 state city = "Faro"
                 state user:home = null

── turn 2 ── 2023-11-14 UTC ────────────────────────────────────────────────────────────────────────
12:01:00  guide  First line, which goes on and on and on and on and on and on and on and on and on
                 and on and on and on.
                 Second line with �[31man escape.
12:01:01  guide  ✗ SAFETY: refused

── state now ───────────────────────────────────────────────────────────────────────────────────────
city       "Faro"
user:home  null
"""


def run(*arguments: str | Path | int) -> Result:
    """Run a command as the shell would, 100 columns wide."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, [str(argument) for argument in arguments])


def event(second: float, invocation: str, author: str, parts: list[Any], **more: Any) -> Event:
    """An event at noon and some seconds."""
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=parts) if parts else None
    return Event(
        author=author,
        invocation_id=invocation,
        timestamp=NOON + second,
        content=content,
        **more,
    )


def trip() -> list[Event]:
    """A short conversation with everything that `show` knows to print."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=20, candidates_token_count=10, total_token_count=30
    )
    call = types.Part.from_function_call(name="weather", args={"city": "Faro", "days": 2})
    answer = types.Part.from_function_response(name="weather", response={"error": "no answer"})
    state = EventActions(state_delta={"city": "Faro", "user:home": None})
    long_text = f"First line, which goes on{' and on' * 11}.\nSecond line with \x1b[31man escape."
    return [
        event(0, "i1", "user", [types.Part(text="How is the weather in Faro?")]),
        event(1, "i1", "guide", [call], usage_metadata=usage, model_version="m-1"),
        event(2, "i1", "guide", [answer], actions=state),
        event(60, "i2", "guide", [types.Part(text=long_text)]),
        event(61, "i2", "guide", [], error_code="SAFETY", error_message="refused"),
    ]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with a trip of ana's, and a session of one id for two users."""
    folder = str(tmp_path / "my lake")
    with Lake.open(folder) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name="travel", user_id="ana", session_id="trip")
        for stored in trip():
            service.append_event(session, stored)
        for user in ("ana", "o'neil"):
            service.create_session(app_name="travel", user_id=user, session_id="twice")
    return folder


def test_show_prints_a_conversation(url: str) -> None:
    """A session is printed turn by turn: who, when, text, tools, state and errors."""
    shown = run("show", url, "trip")
    assert shown.exit_code == 0
    assert shown.output == CONVERSATION


def test_show_shortens_what_tools_say_unless_asked(url: str) -> None:
    """A long answer of a tool is cut with a mark, and whole with `--full`."""
    part = types.Part.from_function_response(name="weather", response={"days": "rain " * 100})
    with Lake.open(url) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name="travel", user_id="ana", session_id="long")
        service.append_event(session, event(0, "i1", "guide", [part]))
    short, full = run("show", url, "long").output, run("show", url, "long", "--full").output
    assert short.count("rain") < 50
    assert "…" in short
    assert full.count("rain") == 100


def test_show_asks_which_of_several(url: str) -> None:
    """When sessions of several users have the id, each is named as the options to choose it."""
    asked = run("show", url, "twice")
    assert asked.exit_code == 1
    assert asked.stdout == ""
    assert asked.stderr == (
        "Error: 2 sessions have the id 'twice'; say which:\n"
        "  --app travel --user ana\n"
        "  --app travel --user 'o'\"'\"'neil'\n"
    )
    chosen = run("show", url, "twice", "--app", "travel", "--user", "o'neil")
    assert chosen.output == "twice  app travel  user o'neil\n0 events, 0 turns, 0 tokens\n"


def test_show_says_that_there_is_no_such_session(url: str) -> None:
    """An unknown id is one line on stderr and exit code 1."""
    missing = run("show", url, "nowhere")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.startswith("Error: no such session. session_id='nowhere'; to see which")
    assert missing.stderr.endswith('"select session_id from sessions"\n')


def test_errors_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """Ids and values that an error has to show come out as signs, on their lines."""
    url = str(tmp_path / "lake")
    with Lake.open(url) as lake:
        sessions = LakeSessionService(lake).sync
        for user in ("ana\x1b[31m", "ben\x9b31m"):
            sessions.create_session(app_name="a\x1b[2J", user_id=user, session_id="s")
    for result in (
        run("show", url, "s"),
        run("show", url, "t\x1b[31m"),
        run("sql", url, "select user_id::int from sessions"),
    ):
        assert result.exit_code == 1
        assert not any(sign in result.stderr for sign in ("\x1b", "\x9b"))
    assert "ana�[31m" in run("show", url, "s").stderr
    assert len(run("show", url, "s").stderr.splitlines()) == 3


def test_sql_prints_a_table(url: str) -> None:
    """The default is a table for people."""
    query = "select author, count(*) as events, sum(total_tokens) as tokens from events group by 1"
    answer = run("sql", url, f"{query} order by 1 desc")
    assert answer.exit_code == 0
    assert answer.output == (
        "author  events  tokens\n──────  ──────  ──────\nuser         1\nguide        4      30\n"
    )


def test_sql_binds_values(url: str) -> None:
    """What `--param` gives is a value, whatever is in it, never a piece of the query."""
    query = "select session_id from sessions where user_id = ? and app_name = ?"
    answer = run("sql", url, query, "--param", "o'neil", "--param", "travel", "--format", "json")
    assert json.loads(answer.output) == [{"session_id": "twice"}]
    evil = run("sql", url, query, "--param", "' or 1=1 --", "--param", "travel", "--format", "json")
    assert json.loads(evil.output) == []


def test_sql_for_programs(url: str) -> None:
    """JSON and CSV give times with their zone, lists, and nothing but the rows."""
    query = "select event_time, tool_names from events where model_version = 'm-1'"
    assert json.loads(run("sql", url, query, "--format", "json").output) == [
        {"event_time": "2023-11-14T12:00:01+00:00", "tool_names": ["weather"]}
    ]
    assert run("sql", url, query, "--format", "csv").output == (
        'event_time,tool_names\n2023-11-14T12:00:01+00:00,"[""weather""]"\n'
    )
    assert run("sql", url, query, "--format", "markdown").output == (
        "| event_time | tool_names |\n| --- | --- |\n| 2023-11-14 12:00:01Z | weather |\n"
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selec 1", "syntax error"),
        ("select * from evnts", "evnts"),
        ("select text from events where user_id = ?", "parameter"),
        ("select 1/0::bigint + 'x'::int", "x"),
    ],
)
def test_sql_says_what_is_wrong_with_the_query(url: str, query: str, said: str) -> None:
    """A query that does not run is DuckDB's message on stderr and exit code 1, no traceback."""
    answer = run("sql", url, query)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("Error: ")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_sql_writes_nothing(url: str) -> None:
    """A lake is opened for reading: no object is made, not even a marker."""
    before = sorted(Path(url).rglob("*"))
    run("sql", url, "select count(*) from events")
    run("show", url, "trip")
    assert sorted(Path(url).rglob("*")) == before


@pytest.mark.parametrize("command", [("sql", "select 1"), ("show", "s1")])
def test_a_lake_that_is_not_there(command: tuple[str, str], tmp_path: Path) -> None:
    """Reading a folder in which no lake is says so, and makes none."""
    name, argument = command
    answer = run(name, tmp_path / "nowhere", argument)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("Error: ")
    assert "nowhere" in answer.stderr
    assert not (tmp_path / "nowhere").exists()


def test_secrets_in_a_url_are_not_printed() -> None:
    """A URL that can't be opened is named in the error without what it holds of secrets."""
    answer = run("sql", "nope://key:s3cr3t@bucket/lake?token=t0k3n", "select 1")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("Error: ")
    assert "s3cr3t" not in answer.output + answer.stderr
    assert "t0k3n" not in answer.output + answer.stderr


def test_demo_tells_its_story(tmp_path: Path) -> None:
    """The demo names its sessions, what landed where, three answers, and what to do next."""
    told = run("demo", tmp_path / "lake", "--history", 12)
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
    for expected in (
        "12 sessions that might have happened.",
        "  ana-1      5 turns  16 events  scripted-large-1",
        "├─ events/log/",
        "── Tokens per day and model ",
        "── Which tool is called most, and which one fails ",
        "── What one user said, across all sessions ",
    ):
        assert any(line.startswith(expected) for line in lines), (expected, told.output)
    assert any(line.startswith("refund_order ") for line in lines)
    assert told.stderr == ""


def test_demo_runs_again_on_its_lake(tmp_path: Path) -> None:
    """A second run on the same folder adds as many talks; what it says to try next works."""
    lake = tmp_path / "lake"
    query = "select count(*) as n from sessions"
    counts = []
    for _ in range(2):
        assert run("demo", lake, "--history", 3).exit_code == 0
        counts.append(json.loads(run("sql", lake, query, "--format", "json").output)[0]["n"])
    assert counts == [12, 21]
    assert "refund_order" in run("show", lake, "ana-1").output


def test_demo_in_memory(tmp_path: Path) -> None:
    """A lake in memory tells the same story, without commands that would find nothing."""
    told = run("demo", f"memory://{tmp_path.name}", "--history", 1)
    assert told.exit_code == 0, told.output
    assert "── Which tool is called most, and which one fails " in told.output
    assert "── Next " not in told.output


def test_help_lists_the_commands() -> None:
    """`--help` names every command with a sentence."""
    text = run("--help").output
    for command in ("demo", "init", "report", "show", "sql"):
        assert f"\n  {command} " in text
        assert run(command, "--help").exit_code == 0


def lakestore(*arguments: str) -> list[str]:
    """The command as another process runs it."""
    return [sys.executable, "-m", "lakestore.cli", *arguments]


def environment() -> dict[str, str]:
    """What another process gets: this package on the path, wherever it was installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}


def test_a_process_prints_the_same(url: str) -> None:
    """Run as a program, `show` prints the conversation and nothing on stderr."""
    shown = subprocess.run(
        lakestore("show", url, "trip"), env=environment(), capture_output=True, check=True
    )
    assert shown.stdout.decode() == CONVERSATION
    assert shown.stderr == b""


def test_a_terminal_without_unicode(url: str) -> None:
    """Where a letter cannot be written its number is, and the command goes on."""
    shown = subprocess.run(
        lakestore("show", url, "trip"),
        env={**environment(), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert b"\\u2192 weather" in shown.stdout


def test_a_reader_that_leaves_is_no_error(url: str) -> None:
    """When the pipe is closed in the middle of an answer nothing is printed on stderr."""
    query = "select repeat('x', 1000) as x from range(2000)"
    process = subprocess.Popen(
        lakestore("sql", url, query, "--format", "csv"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"x\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(60)
