"""What tests of a `Runner` share: agents, and turns to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from lakestore import LakeSessionService
from lakestore.demo.agent import build_agent
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn

APP = "plant_shop"
USER = "ana"
INVOCATION_ABORTED = "INVOCATION_ABORTED"

OpenService = Callable[..., LakeSessionService]


def texts(events: Sequence[Event]) -> list[str]:
    """Every text in `events`, in order."""
    return [
        part.text
        for event in events
        if event.content
        for part in event.content.parts or []
        if part.text
    ]


async def begin(service: LakeSessionService, session_id: str = "s1") -> Session:
    """Create the session."""
    return await service.create_session(app_name=APP, user_id=USER, session_id=session_id)


async def load(service: LakeSessionService, session_id: str = "s1") -> Session:
    """Load the session, which must be there."""
    session = await service.get_session(app_name=APP, user_id=USER, session_id=session_id)
    assert session is not None
    return session


def user_says(text: str) -> types.Content:
    """A message; not ADK's `UserContent`, which reads back as its base class and so never equal."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def say(runner: Runner, text: str, session_id: str = "s1", **options: Any) -> list[Event]:
    """Run one turn and return what it yielded."""
    return [
        event
        async for event in runner.run_async(
            user_id=USER, session_id=session_id, new_message=user_says(text), **options
        )
    ]


def runner_of(service: LakeSessionService, agent: BaseAgent | None = None) -> Runner:
    """A runner of `agent`, or of the demo's."""
    return Runner(app_name=APP, agent=agent or build_agent(), session_service=service)


class Gate:
    """A tool that says when it was entered and stays until it is let out."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def wait(self, tool_context: ToolContext) -> dict[str, Any]:
        """Waits."""
        self.entered.set()
        await self.open.wait()
        tool_context.state["waited"] = True
        return {"waited": True}

    def agent(self) -> LlmAgent:
        def script(turn: Turn) -> Reply:
            if "wait" in turn.text and not turn.results:
                return [Call("wait", {})]
            return f"after {turn.text}"

        return LlmAgent(name="waiter", model=ScriptedModel(script=script), tools=[self.wait])
