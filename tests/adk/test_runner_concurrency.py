"""Runs that are cancelled, overtaken or at once: ADK's `Runner` on our sessions."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_context import ToolContext

from lakestore import Lake, LakeSessionService
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from tests.adk.running import (
    APP,
    INVOCATION_ABORTED,
    USER,
    Gate,
    OpenService,
    begin,
    load,
    runner_of,
    say,
    texts,
    user_says,
)


@pytest.mark.parametrize("durability", ["append", "turn"])
async def test_a_cancelled_run_leaves_a_session_that_goes_on(
    open_service: OpenService, durability: str
) -> None:
    """After a cancelled run its events are stored, and appends and runs go on from there."""
    gate = Gate()
    service = open_service(durability=durability)
    await begin(service)
    runner = runner_of(service, gate.agent())
    running = asyncio.create_task(say(runner, "please wait"))
    await gate.entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    session = await load(service)
    note = Event(author="user", actions=EventActions(state_delta={"cancelled": True}))
    await service.append_event(session, note)
    await say(runner, "go on")
    await runner.close()

    stored = await load(open_service())
    assert texts(stored.events) == ["please wait", "go on", "after go on"]
    assert stored.state["cancelled"] is True
    assert "waited" not in stored.state


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize("durability", ["append", "turn"])
async def test_a_run_cancelled_anywhere_leaves_a_session_that_goes_on(
    open_service: OpenService,
    caplog: pytest.LogCaptureFixture,
    durability: str,
    aborted: bool,
) -> None:
    """Wherever a run is cancelled, also within an append, the session goes on from there."""
    service = open_service(durability=durability)
    runner = runner_of(service)
    for steps in (0, 1, 5, 20, 80, 160, 320, 640, 1280):
        session_id, abort = f"s{steps}", asyncio.Event()
        await begin(service, session_id)
        running = asyncio.create_task(
            say(runner, "Where is A-1041?", session_id, abort_signal=abort)
        )
        for _ in range(steps):
            await asyncio.sleep(0)  # lets the run get a little further
        if aborted:
            abort.set()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

        session = await load(service, session_id)
        await service.append_event(session, Event(author="user", content=user_says("note")))
        await say(runner, "Thanks!", session_id)
        stored = (await load(open_service(), session_id)).events
        assert stored == (await load(service, session_id)).events
        assert texts(stored)[-3:] == ["note", "Thanks!", "You're welcome. Grow well!"]
        assert len({event.id for event in stored}) == len(stored)
    await runner.close()
    assert not [record for record in caplog.records if "Failed to seal" in record.message]


async def test_an_aborted_run_is_sealed_in_the_lake(open_service: OpenService) -> None:
    """ADK's server aborts a run and then appends to the same session: the seal is stored."""
    gate, abort = Gate(), asyncio.Event()
    service = open_service()
    await begin(service)
    runner = runner_of(service, gate.agent())
    running = asyncio.create_task(say(runner, "please wait", abort_signal=abort))
    await gate.entered.wait()
    abort.set()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    stored = (await load(open_service())).events
    assert stored[-1].error_code == INVOCATION_ABORTED
    assert stored[-1].get_function_responses()[0].id == stored[1].get_function_calls()[0].id
    assert texts(await say(runner, "go on")) == ["after go on"]
    await runner.close()


async def test_a_run_on_a_session_that_moved_on_is_told(open_service: OpenService) -> None:
    """Of two runs on one session the overtaken one gets StaleSessionError, and nothing is lost."""
    gate = Gate()
    await begin(open_service())
    slow, quick = runner_of(open_service(), gate.agent()), runner_of(open_service(), gate.agent())
    running = asyncio.create_task(say(slow, "please wait"))
    await gate.entered.wait()
    await say(quick, "quick")
    gate.open.set()
    with pytest.raises(StaleSessionError):
        await running

    assert texts((await load(open_service())).events) == ["please wait", "quick", "after quick"]
    assert texts(await say(slow, "again")) == ["after again"]
    await slow.close()
    await quick.close()


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated:DeprecationWarning")
async def test_parallel_agents_write_one_session(open_service: OpenService) -> None:
    """Agents that run at once in one session store every event and every key once."""
    names = [f"agent_{number}" for number in range(4)]

    def part(name: str) -> LlmAgent:
        def work(tool_context: ToolContext) -> dict[str, Any]:
            """Works."""
            tool_context.state[f"did_{name}"] = True
            tool_context.state[f"user:did_{name}"] = True
            return {"by": name}

        def script(turn: Turn) -> Reply:
            mine = [result for result in turn.results if result.response.get("by") == name]
            return f"{name} is done" if mine else [Call("work", {})]

        return LlmAgent(
            name=name, model=ScriptedModel(script=script), tools=[work], output_key=f"out_{name}"
        )

    service = open_service()
    await begin(service)
    parallel = ParallelAgent(name="all", sub_agents=[part(name) for name in names])
    async with runner_of(service, parallel) as runner:
        yielded = await say(runner, "work")

    stored = await load(open_service())
    assert len(yielded) == 3 * len(names)
    assert stored.events[1:] == yielded
    assert {event.branch for event in yielded} == {f"all.{name}" for name in names}
    assert stored.state == {
        key: value
        for name in names
        for key, value in {
            f"did_{name}": True,
            f"user:did_{name}": True,
            f"out_{name}": f"{name} is done",
        }.items()
    }


async def test_runs_of_many_users_at_once(open_service: OpenService) -> None:
    """Twelve users talk at once through one service, each session whole and its own."""
    service = open_service()
    runner = runner_of(service)
    users = [f"user {number}" for number in range(12)]

    async def visit(user: str) -> None:
        await service.create_session(app_name=APP, user_id=user, session_id="s1")
        for line in ("Where is A-1041?", f"My name is {user}"):
            async for _ in runner.run_async(
                user_id=user, session_id="s1", new_message=user_says(line)
            ):
                pass

    await asyncio.gather(*map(visit, users))
    await runner.close()

    elsewhere = open_service()
    for user in users:
        session = await elsewhere.get_session(app_name=APP, user_id=user, session_id="s1")
        assert session is not None
        assert len(session.events) == 8
        assert session.state["user:name"] == user


def test_a_blocking_run_in_a_loop_of_its_own(tmp_path: Path) -> None:
    """`Runner.run` starts a new event loop each time; one service serves them all."""
    with Lake.open(tmp_path / "lake") as lake:
        service = LakeSessionService(lake)
        asyncio.run(begin(service))
        runner = runner_of(service)
        for line in ("Where is A-1041?", "Thanks!"):
            list(runner.run(user_id=USER, session_id="s1", new_message=user_says(line)))
        session = service.sync.get_session(app_name=APP, user_id=USER, session_id="s1")
        asyncio.run(runner.close())

    assert session is not None
    assert texts(session.events)[-1] == "You're welcome. Grow well!"
