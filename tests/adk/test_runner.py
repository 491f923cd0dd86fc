"""ADK's own `Runner` on our sessions: what agents do with a session service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext

from lakestore.demo.agent import build_agent
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from tests.adk.running import (
    APP,
    USER,
    OpenService,
    begin,
    load,
    runner_of,
    say,
    texts,
    user_says,
)


async def test_a_run_reads_back_as_it_was_yielded(open_service: OpenService) -> None:
    """Another process reads the user's line, then every event of the run, equal and in order."""
    service = open_service()
    await begin(service)
    async with runner_of(service) as runner:
        yielded = await say(runner, "Where is my order A-1041?", yield_user_message=True)

    stored = (await load(open_service())).events

    assert [event.author for event in stored] == ["user", *["shop_helper"] * 3]
    assert stored == yielded
    assert [call.name for call in stored[1].get_function_calls()] == ["look_up_order"]
    assert stored[2].get_function_responses()[0].response == {
        "plant": "monstera",
        "euros": 34.5,
        "status": "delivered",
    }


async def test_tools_write_state_of_all_scopes(open_service: OpenService) -> None:
    """What a tool writes is seen by the session, the user's other sessions and the app's others."""
    service = open_service()
    await begin(service)
    async with runner_of(service) as runner:
        await say(runner, "My balcony is shady")
        await say(runner, "I want my money back for A-1042")

    elsewhere = open_service()
    assert (await load(elsewhere)).state == {
        "refund_tries": 1,
        "refunded": "A-1042",
        "user:balcony": "shady",
        "app:refunds": 1,
    }
    assert (await begin(elsewhere, "s2")).state == {"user:balcony": "shady", "app:refunds": 1}
    stranger = await elsewhere.create_session(app_name=APP, user_id="ben")
    assert stranger.state == {"app:refunds": 1}


async def test_temporary_state_lasts_for_the_run_and_is_not_stored(
    open_service: OpenService,
) -> None:
    """A tool's `temp:` key reaches the next tool of the same run and no reader of the lake."""
    seen: list[Any] = []

    def note(tool_context: ToolContext) -> dict[str, Any]:
        """Notes."""
        seen.append(tool_context.state.get("temp:note"))
        tool_context.state["temp:note"] = "short-lived"
        return {}

    def script(turn: Turn) -> Reply:
        return [Call("note", {})] if len(turn.results) < 2 else "noted"

    service = open_service()
    await begin(service)
    agent = LlmAgent(name="noter", model=ScriptedModel(script=script), tools=[note])
    async with runner_of(service, agent) as runner:
        await say(runner, "note this")

    session = await load(open_service())
    assert seen == [None, "short-lived"]
    assert session.state == {}
    assert "temp:" not in session.model_dump_json()


async def test_partial_events_of_a_stream_are_not_stored(open_service: OpenService) -> None:
    """A streamed answer is yielded in chunks and stored once, whole."""
    service = open_service()
    await begin(service)
    async with runner_of(service) as runner:
        yielded = await say(
            runner, "Thanks!", run_config=RunConfig.model_validate({"streaming_mode": "sse"})
        )

    assert [event.partial for event in yielded] == [True, True, True, True, False]
    assert texts((await load(open_service())).events) == ["Thanks!", "You're welcome. Grow well!"]


async def test_a_missing_session_is_created_when_the_runner_may(open_service: OpenService) -> None:
    """`auto_create_session` finds that nothing is there and creates it."""
    service = open_service()
    runner = Runner(
        app_name=APP, agent=build_agent(), session_service=service, auto_create_session=True
    )
    async with runner:
        await say(runner, "Bye", "new")

    assert texts((await load(open_service(), "new")).events)[0] == "Bye"


async def test_rewind_restores_the_state_before_an_invocation(open_service: OpenService) -> None:
    """After `rewind_async` the session's keys are what they were; shared keys stay, as in ADK."""
    service = open_service()
    await begin(service)
    async with runner_of(service) as runner:
        await say(runner, "Where is A-1041?")
        before = (await load(service)).state
        second = await say(runner, "I want my money back for A-1042")
        await runner.rewind_async(
            user_id=USER, session_id="s1", rewind_before_invocation_id=second[0].invocation_id
        )

        rewound = await load(open_service())
        assert rewound.events[-1].actions.rewind_before_invocation_id == second[0].invocation_id
        kept = {key: value for key, value in rewound.state.items() if value is not None}
        assert kept == {**before, "app:refunds": 1}

        await say(runner, "I want my money back for A-1043")
    assert (await load(open_service())).state["refund_tries"] == 1


async def test_the_model_does_not_see_what_was_rewound(open_service: OpenService) -> None:
    """What is loaded after a rewind leads ADK to leave the rewound invocation out of the prompt."""
    lengths: list[int] = []

    class CountingModel(ScriptedModel):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            lengths.append(len(llm_request.contents))
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    service = open_service()
    await begin(service)
    agent = LlmAgent(name="counter", model=CountingModel(script=lambda turn: turn.text))
    async with runner_of(service, agent) as runner:
        await say(runner, "one")
        second = await say(runner, "two")
        await runner.rewind_async(
            user_id=USER, session_id="s1", rewind_before_invocation_id=second[0].invocation_id
        )
    async with runner_of(open_service(), agent) as runner:
        await say(runner, "three")

    assert lengths == [1, 3, 3]


async def test_closing_the_runner_writes_what_a_turn_still_held(open_service: OpenService) -> None:
    """With `durability="turn"` a turn that its caller left in the middle is stored by `close()`."""
    service = open_service(durability="turn")
    await begin(service)
    runner = runner_of(service)
    run = runner.run_async(user_id=USER, session_id="s1", new_message=user_says("Where is A-1041?"))
    called = await anext(run)
    assert called.get_function_calls()
    assert (await load(open_service())).events == []
    await run.aclose()
    await runner.close()

    stored = (await load(open_service())).events
    assert [event.id for event in stored][1:2] == [called.id]
    assert texts(stored) == ["Where is A-1041?"]


async def test_a_turn_is_stored_at_its_end_without_a_flush(open_service: OpenService) -> None:
    """With `durability="turn"` the final response brings the whole turn into the lake."""
    service = open_service(durability="turn")
    await begin(service)
    runner = runner_of(service)
    yielded = await say(runner, "Where is A-1041?", yield_user_message=True)

    assert (await load(open_service())).events == yielded
    await runner.close()
