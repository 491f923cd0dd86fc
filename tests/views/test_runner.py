"""The views over what ADK's own runner appends: transfers, parallel and waiting calls, rewinds."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.analytics import Told
from tests.support.shown_views import check_views

WHO: dict[str, Any] = {"user_id": "ana", "session_id": "s"}


def double(number: int, tool_context: ToolContext) -> dict[str, Any]:
    """Doubles a number."""
    tool_context.state["doubled"] = number
    return {"result": 2 * number} if number >= 0 else {"error": "negative"}


def ask_boss(question: str) -> dict[str, Any]:
    """Asks the boss, who takes a while."""
    return {"status": "pending", "question": question}


def _script(turn: Turn) -> Reply:
    if "help" in turn.text:
        return [Call("transfer_to_agent", {"agent_name": "helper"})]
    if "boss" in turn.text and not turn.results:
        return [Call("ask_boss", {"question": turn.text})]
    if "double" in turn.text and not turn.results:
        return [Call("double", {"number": number}) for number in (1, -2, 3)]
    return f"That is all about: {turn.text}"


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    """Yield a runner of an agent with a helper, on a lake."""
    model = ScriptedModel(script=_script)
    helper = LlmAgent(
        name="helper",
        model=ScriptedModel(model="scripted-large-1", script=lambda turn: "Here to help."),
        disallow_transfer_to_parent=True,
    )
    agent = LlmAgent(
        name="root",
        model=model,
        tools=[double, LongRunningFunctionTool(ask_boss)],
        sub_agents=[helper],
    )
    with Lake(MemoryStore()) as lake:
        service = LakeSessionService(lake)
        await service.create_session(app_name="app", **WHO)
        async with Runner(app_name="app", agent=agent, session_service=service) as made:
            yield made


async def say(runner: Runner, *parts: types.Part) -> None:
    """Let the user say something, and the agent answer."""
    content = types.Content(role="user", parts=list(parts))
    async for _ in runner.run_async(**WHO, new_message=content):
        pass


async def told(runner: Runner) -> Told:
    """Return what the session holds."""
    session = await runner.session_service.get_session(app_name="app", **WHO)
    assert session is not None
    return Told("app", "ana", "s", {}, session.events)


def lake_of(runner: Runner) -> Lake:
    """Return the lake that a runner writes to."""
    service = runner.session_service
    assert isinstance(service, LakeSessionService)
    return service.lake


async def test_what_a_runner_did(runner: Runner) -> None:
    """Parallel calls, one that fails, one that waits and is answered, a hand-over, a rewind."""
    lake = lake_of(runner)
    await say(runner, types.Part(text="double some numbers"))
    await say(runner, types.Part(text="ask the boss"))
    statuses = "select tool_name, status, is_long_running from tool_calls order by version, place"
    doubled = [("double", "ok", False), ("double", "error", False), ("double", "ok", False)]
    assert lake.sql(statuses).fetchall() == [*doubled, ("ask_boss", "pending", True)]

    ((call_id,),) = lake.sql("select call_id from tool_calls where is_long_running").fetchall()
    decided = types.FunctionResponse(id=call_id, name="ask_boss", response={"status": "yes"})
    await say(runner, types.Part(function_response=decided))
    assert lake.sql(statuses).fetchall()[3] == ("ask_boss", "ok", True)
    query = "select answers, result ->> '$.status' from tool_calls where is_long_running"
    assert lake.sql(query).fetchall() == [(2, "yes")]

    await say(runner, types.Part(text="help me"))
    query = "select agent, transfer_to from tool_calls where transfer_to is not null"
    assert lake.sql(query).fetchall() == [("root", "helper")]
    query = "select agents, final_answer from turns order by turn desc limit 1"
    assert lake.sql(query).fetchall() == [(["helper", "root"], "Here to help.")]

    query = "select invocation_id from turns where user_text = 'ask the boss'"
    ((target,),) = lake.sql(query).fetchall()
    await runner.rewind_async(**WHO, rewind_before_invocation_id=target)
    turns = "select user_text from turns where not is_rewound order by turn"
    assert lake.sql(turns).fetchall() == [("double some numbers",)]
    assert lake.sql("select rewinds from sessions").fetchall() == [(1,)]

    check_views(lake, [await told(runner)])
    compact(lake)
    check_views(lake, [await told(runner)])


async def test_an_unknown_turn_is_not_rewound_to(runner: Runner) -> None:
    """A rewind that ADK refuses leaves no mark."""
    await say(runner, types.Part(text="hello"))
    with pytest.raises(Exception, match="Invocation ID not found"):
        await runner.rewind_async(**WHO, rewind_before_invocation_id=str(uuid.UUID(int=0)))
    assert lake_of(runner).sql("select bool_or(is_rewound) from turns").fetchall() == [(False,)]
