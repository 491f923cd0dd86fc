"""A lake, and a runner whose agent does what it is told, by a clock that a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from lakestore import Lake, LakeSessionService, LakeTelemetryPlugin
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from lakestore.storage import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import AroundStore

WHO: dict[str, Any] = {"user_id": "ana", "session_id": "s"}
# ADK's own AgentTool makes its runner so.
OF_AGENT_TOOL = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")
THINKING, WORD, TOOL = 0.25, 0.5, 2.0
"""Seconds that the model, each word of an answer, and a tool take."""


class Timed(ScriptedModel):
    """A model that takes its time, by a clock that a test sets."""

    clock: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.clock.advance(THINKING)
        async for response in super().generate_content_async(llm_request, stream):
            yield response
            self.clock.advance(WORD)


class Shop:
    """A lake, and a runner that is measured."""

    def __init__(self, store: MemoryStore | AroundStore | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.lake = Lake(store or MemoryStore(), clock=self.clock)
        self.plugin = LakeTelemetryPlugin(self.lake, **settings)

        async def work(number: int) -> dict[str, Any]:
            """Works."""
            self.clock.advance(TOOL * number)
            return {"result": number}

        async def fail() -> dict[str, Any]:
            """Fails."""
            self.clock.advance(TOOL)
            raise RuntimeError("out of stock: " + "x" * 2_000)

        async def fall_silent() -> None:
            """Fails without a word."""
            raise TimeoutError

        async def wait() -> None:
            """Waits until it is cancelled."""
            self.waits.set()
            await asyncio.Event().wait()

        self.waits = asyncio.Event()
        helper = LlmAgent(name="helper", model=Timed(script=lambda _: "it is so", clock=self.clock))
        self.agent = LlmAgent(
            name="root",
            model=Timed(script=_script, clock=self.clock),
            tools=[work, fail, fall_silent, wait, AgentTool(helper)],
        )
        self.service = LakeSessionService(self.lake)

    async def begin(self) -> Shop:
        await self.service.create_session(app_name="app", **WHO)
        return self

    async def say(self, text: str, service: Any = None, **config: Any) -> None:
        """Run one turn."""
        app = App(name="app", root_agent=self.agent, plugins=[self.plugin])
        runner = Runner(app=app, session_service=service or self.service)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        run = runner.run_async(**WHO, new_message=message, run_config=RunConfig(**config))
        async for _ in run:
            pass

    def sql(self, query: str) -> list[Any]:
        """Ask when all is stored."""
        assert self.plugin.flush()
        return self.lake.sql(query).fetchall()


_CALLS = {
    "both": [Call("work", {"number": number}) for number in (1, 2)],
    "missing": [Call("no_such_tool", {})],
    "silent": [Call("fall_silent", {})],
    "wait": [Call("wait", {})],
    "fail": [Call("fail", {})],
    "help": [Call("helper", {"request": "is it so?"})],
}
"""What the model calls for which words."""


def _script(turn: Turn) -> Reply:
    if "break" in turn.text:
        raise ValueError("no such model")
    if turn.results:
        return "done with it"
    calls = [call for word, called in _CALLS.items() if word in turn.text for call in called]
    return calls or "good day to you"
