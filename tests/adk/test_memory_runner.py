"""ADK's own `Runner` with our memory: its tools search it, and a callback adds to it."""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.load_memory_tool import load_memory
from google.adk.tools.preload_memory_tool import PreloadMemoryTool

from lakestore import LakeMemoryService
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from tests.adk.running import APP, USER, OpenService, begin, say, texts

WHOSE: Any = {"app_name": APP, "user_id": USER}


async def remember(callback_context: CallbackContext) -> None:
    """Add the session to memory after every turn, as ADK's documentation has it."""
    await callback_context.add_session_to_memory()


def runner_of(open_service: OpenService, agent: LlmAgent) -> Runner:
    """Return a runner on services that know nothing of others."""
    sessions = open_service()
    memory = LakeMemoryService(sessions.lake)
    return Runner(app_name=APP, agent=agent, session_service=sessions, memory_service=memory)


def talker() -> LlmAgent:
    """Return an agent that remembers what is said."""
    return LlmAgent(
        name="helper",
        model=ScriptedModel(script=lambda turn: f"noted: {turn.text}"),
        after_agent_callback=remember,
    )


async def test_agent_recalls_what_another_process_was_told(open_service: OpenService) -> None:
    """`load_memory` gives the model what was said in an earlier session, with its author."""
    await begin(open_service(), "old")
    async with runner_of(open_service, talker()) as runner:
        await say(runner, "my balcony is shady", "old")
        await say(runner, "and it is windy", "old")

    def script(turn: Turn) -> Reply:
        if not turn.results:
            return [Call("load_memory", {"query": "balcony"})]
        return str(turn.results[0].response)

    await begin(open_service(), "new")
    agent = LlmAgent(name="helper", model=ScriptedModel(script=script), tools=[load_memory])
    async with runner_of(open_service, agent) as runner:
        said = texts(await say(runner, "what do you know of my balcony?", "new"))[-1]

    assert "my balcony is shady" in said
    assert "windy" not in said
    assert "noted" in said
    service = LakeMemoryService(open_service().lake)
    found = await service.search_memory(**WHOSE, query="my balcony windy")
    assert [memory.author for memory in found.memories] == ["user", "helper", "user", "helper"]


async def test_memories_are_in_the_prompt(open_service: OpenService) -> None:
    """`preload_memory` puts what suits the question, with its time in UTC, before the model."""
    await begin(open_service(), "old")
    async with runner_of(open_service, talker()) as runner:
        await say(runner, "my balcony is shady", "old")
    seen: list[Any] = []

    def look(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
        seen.extend(llm_request.contents)
        return None

    await begin(open_service(), "new")
    agent = LlmAgent(
        name="helper",
        model=ScriptedModel(script=lambda turn: "yes"),
        tools=[PreloadMemoryTool()],
        before_model_callback=look,
    )
    async with runner_of(open_service, agent) as runner:
        await say(runner, "is the balcony sunny?", "new")
    prompt = "\n".join(part.text or "" for content in seen for part in content.parts)

    assert "PAST_CONVERSATIONS" in prompt
    assert "user: my balcony is shady" in prompt
    assert "+00:00\nuser: my balcony" in prompt
