"""ADK's own programs on a lake, started as `lakestore init` says to start them."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import pytest

from lakestore import Lake, LakeMemoryService, LakeSessionService
from tests.adk.artifact_requests import NAME, save_artifacts, show_artifacts
from tests.support.children import mortal

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
RUNNING = re.compile(r"Uvicorn running on (http://\S+)")

SHOP = """
from lakestore.demo.agent import build_agent

root_agent = build_agent()
"""

# Its tool calls the test and stays until the test hangs up, or the server gives up on it.
WAITER = """
import asyncio
import os

from google.adk.agents.llm_agent import LlmAgent

from lakestore.demo.scripted_model import Call, ScriptedModel


async def wait():
    "Waits."
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["GATE_PORT"]))
    try:
        await reader.read()
    finally:
        writer.close()
    return {"waited": True}


def script(turn):
    if "wait" in turn.text and not turn.results:
        return [Call("wait", {})]
    return f"after {turn.text}"


root_agent = LlmAgent(name="waiter", model=ScriptedModel(script=script), tools=[wait])
"""


class Agents:
    """A folder of agents on which `lakestore init` was run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, code in (("shop", SHOP), ("waiter", WAITER)):
            (folder / name).mkdir(parents=True)
            (folder / name / "agent.py").write_text(code)
        printed = subprocess.run(
            [sys.executable, "-m", "lakestore.cli", "init", str(folder)],
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        lines = [line.strip() for line in printed.splitlines()]
        self.commands = [shlex.split(line) for line in lines if line.startswith("adk ")]

    def command(self, program: str, target: Path | None = None) -> list[str]:
        """The command for `adk <program>` that `init` printed, run by this Python."""
        wanted = str(target or self.folder)
        (found,) = [line for line in self.commands if line[1] == program and line[-1] == wanted]
        *options, folder = found[1:]
        return [sys.executable, "-m", "google.adk.cli", *options, folder]

    def lake(self) -> Lake:
        return Lake.open(self.folder / ".lake", read_only=True)


class Server:
    """A started `adk web` or `adk api_server`, and what it printed."""

    def __init__(self, command: Sequence[str], **environ: str) -> None:
        self.process = subprocess.Popen(
            mortal([*command, "--port=0"]),
            env=environment(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.output: list[str] = []
        found = None
        for line in self.process.stdout:
            self.output.append(line)
            if found := RUNNING.search(line):
                break
        if found is None:
            raise AssertionError("the server did not start:\n" + "".join(self.output))
        # A full pipe would stop the server.
        self._reader = threading.Thread(target=self.output.extend, args=(self.process.stdout,))
        self._reader.start()
        self.http = httpx.Client(base_url=found[1], timeout=PATIENCE)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()
        self.process.terminate()
        self._ended()

    def kill(self) -> None:
        """End it as a crash of the machine would."""
        self.process.kill()
        self._ended()

    def _ended(self) -> None:
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def create(self, app: str, user: str, **body: Any) -> dict[str, Any]:
        created: dict[str, Any] = self._json(self.http.post(sessions(app, user), json=body))
        return created

    def get(self, app: str, user: str, session_id: str) -> dict[str, Any]:
        path = f"{sessions(app, user)}/{session_id}"
        session: dict[str, Any] = self._json(self.http.get(path))
        return session

    def run(self, app: str, user: str, session_id: str, text: str) -> list[dict[str, Any]]:
        body = run_body(app, user, session_id, text)
        events: list[dict[str, Any]] = self._json(self.http.post("/run", json=body))
        return events

    def _json(self, response: httpx.Response) -> Any:
        assert response.status_code == 200, response.text + "".join(self.output)
        return response.json()


class Gate:
    """Where the waiter's tool calls."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE)
        self.port = str(self._listening.getsockname()[1])

    def entered(self) -> socket.socket:
        """Wait until the tool runs; it ends when what is returned is closed."""
        connection, _ = self._listening.accept()
        connection.settimeout(PATIENCE)
        return connection

    def close(self) -> None:
        self._listening.close()


def environment(**more: str) -> dict[str, str]:
    """What a started program gets: this package on the path, wherever it was installed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def sessions(app: str, user: str) -> str:
    """The path of a user's sessions."""
    return f"/apps/{app}/users/{user}/sessions"


def run_body(app: str, user: str, session_id: str, text: str) -> dict[str, Any]:
    """What `/run` and `/run_sse` are sent."""
    message = {"role": "user", "parts": [{"text": text}]}
    return {"appName": app, "userId": user, "sessionId": session_id, "newMessage": message}


def texts(events: Sequence[dict[str, Any]]) -> list[str]:
    """Every text in `events`, in order."""
    parts = [part for e in events for part in e.get("content", {}).get("parts", [])]
    return [part["text"] for part in parts if "text" in part]


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    """Two agents in a folder whose name needs quoting."""
    return Agents(tmp_path / "my agents")


@pytest.fixture
def start(agents: Agents) -> Iterator[Callable[..., Server]]:
    """Start a server by the command that `init` printed; it is stopped at the end."""
    with ExitStack() as servers:

        def started(program: str = "api_server", **environ: str) -> Server:
            return servers.enter_context(Server(agents.command(program), **environ))

        yield started


@pytest.mark.parametrize("program", ["api_server", "web"])
def test_a_session_outlives_its_server(
    program: str, agents: Agents, start: Callable[..., Server]
) -> None:
    """What was said and set over REST is there after a restart, and the session goes on."""
    with Server(agents.command(program)) as first:
        created = first.create("shop", "ana", sessionId="s1", state={"user:lang": "pt", "n": 1})
        assert created["state"] == {"user:lang": "pt", "n": 1}
        ran = first.run("shop", "ana", "s1", "Where is my order A-1041?")
        assert texts(ran) == ["Order A-1041, your monstera for 34.5 euros, is delivered."]
        patched = first.http.patch(
            f"{sessions('shop', 'ana')}/s1", json={"stateDelta": {"n": 2, "app:motd": "hi"}}
        )
        assert patched.status_code == 200, patched.text
        before = first.get("shop", "ana", "s1")
        saved = save_artifacts(first.http)
        shown_before = show_artifacts(first.http)
        remembered = first.http.patch("/apps/shop/users/ana/memory", json={"sessionId": "s1"})
        assert remembered.status_code == 200, remembered.text
    assert first.process.returncode in (0, -15)
    printed = "".join(first.output)
    assert "Traceback" not in printed
    assert "ERROR" not in printed

    second = start(program)
    assert second.get("shop", "ana", "s1") == before
    assert show_artifacts(second.http) == shown_before
    assert shown_before[f"/{NAME}/versions/metadata"] == saved[:2]
    assert shown_before[""] == [NAME, "user:note"]
    assert before["state"] == {
        "user:lang": "pt",
        "n": 2,
        "order": "A-1041",
        "user:last_order": "A-1041",
        "app:motd": "hi",
    }
    second.run("shop", "ana", "s1", "Thanks!")
    second.create("shop", "ana", sessionId="s2")
    listed = second.http.get(sessions("shop", "ana")).json()
    assert [session["id"] for session in listed] == ["s1", "s2"]
    assert listed[1]["state"] == {"user:lang": "pt", "user:last_order": "A-1041", "app:motd": "hi"}
    assert second.http.delete(f"{sessions('shop', 'ana')}/s2").status_code == 200
    assert second.http.get(f"{sessions('shop', 'ana')}/s2").status_code == 404

    with agents.lake() as lake:
        session = LakeSessionService(lake).sync.get_session(
            app_name="shop", user_id="ana", session_id="s1"
        )
    assert session is not None
    shown = [event["id"] for event in second.get("shop", "ana", "s1")["events"]]
    assert [event.id for event in session.events] == shown
    with agents.lake() as lake:
        found = LakeMemoryService(lake).sync.search_memory(
            app_name="shop", user_id="ana", query="the order of my monstera"
        )
    assert [memory.author for memory in found.memories] == ["user", "shop_helper"]
    assert len(shown) == 7


def test_a_dropped_connection_leaves_a_session_that_goes_on(start: Callable[..., Server]) -> None:
    """A client that hangs up in the middle of `/run_sse` leaves a sealed run, the next works."""
    gate = Gate()
    server = start(GATE_PORT=gate.port)
    server.create("waiter", "ana", sessionId="s1")
    body = run_body("waiter", "ana", "s1", "please wait")
    with server.http.stream("POST", "/run_sse", json=body) as stream:
        first = next(line for line in stream.iter_lines() if line)
        assert "functionCall" in first
        connection = gate.entered()
    with connection:
        assert connection.recv(1) == b""  # the server gave up on the tool
    gate.close()

    events: list[dict[str, Any]] = []
    while not events or not events[-1].get("errorCode"):
        events = server.get("waiter", "ana", "s1")["events"]
    assert events[-1]["errorCode"] == "INVOCATION_ABORTED"
    assert texts(server.run("waiter", "ana", "s1", "go on")) == ["after go on"]
    assert texts(server.get("waiter", "ana", "s1")["events"]) == [
        "please wait",
        "go on",
        "after go on",
    ]


def test_a_killed_server_loses_nothing_that_it_answered(
    agents: Agents, start: Callable[..., Server]
) -> None:
    """Whatever the server acknowledged before SIGKILL is there for the next one; half a run too."""
    gate = Gate()
    server = start(GATE_PORT=gate.port)
    server.create("waiter", "ana", sessionId="s1", state={"app:open": True})
    server.run("waiter", "ana", "s1", "hello")
    body = run_body("waiter", "ana", "s1", "please wait")
    with server.http.stream("POST", "/run_sse", json=body) as stream:
        assert next(line for line in stream.iter_lines() if line)
        with gate.entered():
            server.kill()
    gate.close()

    again = start()
    session = again.get("waiter", "ana", "s1")
    assert texts(session["events"]) == ["hello", "after hello", "please wait"]
    assert session["state"] == {"app:open": True}
    assert texts(again.run("waiter", "ana", "s1", "go on")) == ["after go on"]


def test_two_servers_share_a_lake(start: Callable[..., Server]) -> None:
    """A session made through one server is read and continued through another, in turns."""
    one, other = start("api_server"), start("web")
    one.create("shop", "ana", sessionId="s1")
    one.run("shop", "ana", "s1", "My balcony is windy")
    other.run("shop", "ana", "s1", "Thanks!")
    one.run("shop", "ana", "s1", "Bye!")

    assert one.get("shop", "ana", "s1") == other.get("shop", "ana", "s1")
    assert texts(one.get("shop", "ana", "s1")["events"])[::2] == [
        "My balcony is windy",
        "Thanks!",
        "Bye!",
    ]


def adk_run(agents: Agents, *more: str, typed: str = "") -> str:
    """Run `adk run` as `init` said, with `more` arguments, and return what it printed."""
    ran = subprocess.run(
        [*agents.command("run", agents.folder / "shop"), *more],
        env=environment(),
        input=typed,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return ran.stdout


def said_in_the_lake(agents: Agents) -> list[list[str]]:
    """The texts of each session that `adk run` made, oldest first."""
    with agents.lake() as lake:
        rows = lake.sql(
            "select session_id, list(text order by version, ordinal) from events"
            " where user_id = ? and text is not null group by session_id order by min(event_time)",
            ["test_user"],
        ).fetchall()
    return [said for _, said in rows]


def test_adk_run_replays_into_the_lake(agents: Agents, tmp_path: Path) -> None:
    """`adk run --replay` finds the service through the agent's own folder and uses it."""
    replay = tmp_path / "replay.json"
    queries = ["Where is A-1041?", "Thanks!"]
    replay.write_text(json.dumps({"state": {"shop": "north"}, "queries": queries}))
    printed = adk_run(agents, "--replay", str(replay))

    answers = [
        "Order A-1041, your monstera for 34.5 euros, is delivered.",
        "You're welcome. Grow well!",
    ]
    assert [line for line in answers if f"[shop_helper]: {line}" in printed] == answers
    assert said_in_the_lake(agents) == [[queries[0], answers[0], queries[1], answers[1]]]


def test_adk_run_talks_and_goes_on_with_a_session(agents: Agents) -> None:
    """What is typed into `adk run` is stored; a later call goes on with a session by its id."""
    adk_run(agents, typed="My balcony is shady\nexit\n")
    adk_run(agents, "--session_id=mine", "Where is A-1042?")
    adk_run(agents, "--session_id=mine", "Bye!")

    typed, mine = said_in_the_lake(agents)
    assert typed == ["My balcony is shady", "I'll remember that your balcony is shady."]
    assert mine[::2] == ["Where is A-1042?", "Bye!"]
