"""Real agent histories, where a folder with them is at hand, as ADK sessions and events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

_STARTED = 1_715_785_200.25


def data_folder() -> Path | None:
    """Return the folder with the histories: `LAKESTORE_TEST_DATA`, or `shared/data` beside us."""
    named = os.environ.get("LAKESTORE_TEST_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    return folder if folder.is_dir() else None


@dataclass(frozen=True, slots=True)
class History:
    """What one agent did in one session."""

    name: str
    state: dict[str, Any]
    """The state to begin with."""
    events: list[Event]


def exported_sessions(folder: Path) -> Iterator[Session]:
    """Yield the sessions that ADK's own web UI exported."""
    for path in sorted((folder / "adk_sessions").glob("*.session.json")):
        yield Session.model_validate_json(path.read_text("utf-8"))


def airline_histories(folder: Path) -> Iterator[History]:
    """Yield the trajectories of a tool-calling airline agent, one a session."""
    runs = json.loads((folder / "tau_airline_60.json").read_text("utf-8"))
    for number, run in enumerate(runs):
        first, *messages = run["traj"]
        state = {"policy": first["content"], "task": run["task_id"], "app:policy": first["content"]}
        events = [_event(number, at, message) for at, message in enumerate(messages)]
        events.append(_outcome(number, len(messages), run))
        yield History(f"airline-{number}", state, events)


def _event(run: int, at: int, message: Mapping[str, Any]) -> Event:
    is_user = message["role"] == "user"
    return Event(
        id=f"{run}-{at}",
        invocation_id=f"run-{run}",
        author="user" if is_user else "airline_agent",
        content=types.Content(role="user" if is_user else "model", parts=[*_parts(message)]),
        actions=EventActions(state_delta={"messages": at + 1, "user:last_role": message["role"]}),
        # Thirds of a second: times that microseconds cannot hold.
        timestamp=_STARTED + run * 1000 + at / 3,
    )


def _parts(message: Mapping[str, Any]) -> Iterator[types.Part]:
    if message["role"] == "tool":
        response = {"result": message["content"]}
        yield types.Part(
            function_response=types.FunctionResponse(
                id=message["tool_call_id"], name=message["name"], response=response
            )
        )
        return
    if message.get("content"):
        yield types.Part(text=message["content"])
    for call in message.get("tool_calls") or ():
        called = call["function"]
        yield types.Part(
            function_call=types.FunctionCall(
                id=call["id"], name=called["name"], args=json.loads(called["arguments"])
            )
        )


def _outcome(run: int, at: int, told: Mapping[str, Any]) -> Event:
    """Return the event that says how the run went, with all that is known of it."""
    return Event(
        id=f"{run}-{at}",
        invocation_id=f"run-{run}",
        author="judge",
        custom_metadata={"info": told["info"], "trial": told["trial"]},
        actions=EventActions(state_delta={"reward": told["reward"], "app:last_run": run}),
        timestamp=_STARTED + run * 1000 + at / 3,
    )
