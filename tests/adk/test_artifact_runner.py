"""ADK's own `Runner` with our artifacts: plugins, tools, instructions and rewind use them."""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.runners import Runner
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from lakestore import LakeArtifactService
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from tests.adk.running import APP, USER, OpenService, begin, load, say, texts

WHOSE: Any = {"app_name": APP, "user_id": USER, "session_id": "s1"}
PNG = types.Part(
    inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="my plan.png")
)


def runner_of(open_service: OpenService, agent: LlmAgent, *plugins: Any) -> Runner:
    """Return a runner on services that know nothing of others."""
    sessions = open_service()
    return Runner(
        app=App(name=APP, root_agent=agent, plugins=[*plugins]),
        session_service=sessions,
        artifact_service=LakeArtifactService(sessions.lake),
    )


def elsewhere(open_service: OpenService) -> LakeArtifactService:
    """Return a service that knows nothing of what others did."""
    return LakeArtifactService(open_service().lake)


def seeing(seen: list[LlmRequest], script: Any = None, **more: Any) -> LlmAgent:
    """Return an agent that notes what its model is asked."""

    def look(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
        seen.append(llm_request)
        return None

    model = ScriptedModel(script=script or (lambda turn: f"noted: {turn.text}"))
    return LlmAgent(name="helper", model=model, before_model_callback=look, **more)


async def test_uploads_become_artifacts(open_service: OpenService) -> None:
    """What a user's message carries is saved under its name, and the event says which version."""
    await begin(open_service())
    async with runner_of(open_service, seeing([]), SaveFilesAsArtifactsPlugin()) as runner:
        for _ in range(2):
            message = types.Content(role="user", parts=[types.Part(text="look"), PNG])
            async for _event in runner.run_async(
                user_id=USER, session_id="s1", new_message=message
            ):
                pass

    artifacts = elsewhere(open_service)
    assert await artifacts.load_artifact(**WHOSE, filename="my plan.png", version=0) == PNG
    assert await artifacts.list_versions(**WHOSE, filename="my plan.png") == [0, 1]
    found = await artifacts.list_artifact_versions(**WHOSE, filename="my plan.png")
    assert len({each.canonical_uri for each in found}) == 1
    session = await load(open_service())
    deltas = [event.actions.artifact_delta for event in session.events]
    assert [delta for delta in deltas if delta] == [{"my plan.png": 0}, {"my plan.png": 1}]
    assert '[Uploaded Artifact: "my plan.png"]' in texts(session.events)


async def test_model_loads_artifacts_by_a_tool(open_service: OpenService) -> None:
    """`load_artifacts` tells the model what there is, and shows it what it asks for."""
    await begin(open_service())
    artifacts = elsewhere(open_service)
    await artifacts.save_artifact(**WHOSE, filename="plan.png", artifact=PNG)
    await artifacts.save_artifact(**WHOSE, filename="user:cfg", artifact={"text": "shade"})

    def script(turn: Turn) -> Reply:
        if turn.text == "what is in my plan?" and not turn.results:
            return [Call("load_artifacts", {"artifact_names": ["plan.png", "user:cfg"]})]
        return "seen"  # artifacts come as what the user says next

    seen: list[LlmRequest] = []
    agent = seeing(seen, script, tools=[load_artifacts_tool])
    async with runner_of(open_service, agent) as runner:
        await say(runner, "what is in my plan?")

    assert '["plan.png", "user:cfg"]' in str(seen[0].config.system_instruction)
    parts = [part for content in seen[-1].contents for part in content.parts or []]
    assert [part.inline_data.data for part in parts if part.inline_data] == [b"\x89PNG"]
    assert "shade" in [part.text for part in parts]


async def test_instructions_name_artifacts(open_service: OpenService) -> None:
    """`{artifact.name}` in an instruction is the artifact, of the session or of the user."""
    await begin(open_service())
    artifacts = elsewhere(open_service)
    await artifacts.save_artifact(**WHOSE, filename="tone.txt", artifact={"text": "be kind"})
    seen: list[LlmRequest] = []
    agent = seeing(seen, instruction="Rule: {artifact.tone.txt}. {artifact.missing?}")
    async with runner_of(open_service, agent) as runner:
        await say(runner, "hello")

    assert "be kind" in str(seen[0].config.system_instruction)


async def test_rewind_brings_artifacts_back(open_service: OpenService) -> None:
    """What was saved after the point is as it was before it, or not there; the user's stays."""

    async def write(text: str, tool_context: ToolContext) -> dict[str, Any]:
        """Writes."""
        for name in ("plan", f"only {text}", "user:log"):
            await tool_context.save_artifact(name, types.Part(text=text))
        return {"version": "ok"}

    def script(turn: Turn) -> Reply:
        return "done" if turn.results else [Call("write", {"text": turn.text})]

    await begin(open_service())
    async with runner_of(open_service, seeing([], script, tools=[write])) as runner:
        await say(runner, "first")
        (second, *_) = await say(runner, "second")
        await runner.rewind_async(
            user_id=USER,
            session_id="s1",
            rewind_before_invocation_id=second.invocation_id,
        )

    artifacts = elsewhere(open_service)
    names = ("plan", "only first", "only second", "user:log")
    found = [await artifacts.load_artifact(**WHOSE, filename=name) for name in names]
    assert [part and part.text for part in found] == ["first", "first", None, "second"]
    listed = await artifacts.list_artifact_versions(**WHOSE, filename="plan")
    assert listed[0].canonical_uri == listed[2].canonical_uri
    assert (await load(open_service())).events[-1].actions.artifact_delta == {
        "plan": 2,
        "only second": 1,
    }
