"""What `LakeTelemetryPlugin` measures of a real runner, and that no run suffers from it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from lakestore import Lake, LakeSessionService, LakeTelemetryPlugin
from lakestore.demo.scripted_model import Call, Reply, ScriptedModel, Turn
from lakestore.errors import InputError, StorageError
from lakestore.jobs import compact, erase_user
from lakestore.storage import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import AroundStore, FailingStore, Nth

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


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """A shop in memory."""
    made = await Shop().begin()
    with made.lake:
        yield made


async def test_a_model_is_timed(shop: Shop) -> None:
    """Latency ends with the whole answer; the first token is told of answers in pieces alone."""
    await shop.say("hello")
    await shop.say("hello", streaming_mode="sse")
    found = shop.sql("select latency_ms, time_to_first_token_ms from llm_calls order by version")
    words = len(["good", "day", "to", "you"])
    assert found == [(250.0, None), (250.0 + words * 500.0, 250.0)]
    rows = "select count(*), count(event_id), any_value(model) from telemetry where kind = 'model'"
    assert shop.sql(rows) == [(2, 2, "scripted-small-1")]
    known = "select sum(t.total_tokens) = sum(c.total_tokens) from telemetry t, llm_calls c"
    assert shop.sql(f"{known} where t.event_id = c.event_id") == [(True,)]


async def test_tools_side_by_side_are_timed(shop: Shop) -> None:
    """Each call of a tool has its own duration, and the turn the sums of them."""
    await shop.say("do both")
    found = dict(shop.sql("select arguments ->> 'number', duration_ms from tool_calls"))
    assert 2_000 <= found["1"] <= 6_000
    assert 4_000 <= found["2"] <= 6_000
    ((run, model, tool, outcome),) = shop.sql(
        "select run_ms, model_ms, tool_ms, outcome from turns"
    )
    assert (model, outcome) == (500.0, "ok")
    assert tool == sum(found.values())
    assert run == 6_000 + 2 * 750.0


@pytest.mark.parametrize(("characters", "kept"), [(1_000, 1_000), (0, None)])
async def test_a_tool_that_raises_is_an_error(characters: int, kept: int | None) -> None:
    """A call that no event answers has failed; the run says by which; it counts as one error."""
    shop = await Shop(error_characters=characters).begin()
    with shop.lake:
        with pytest.raises(RuntimeError):
            await shop.say("fail")
        ((status, error, duration),) = shop.sql("select status, error, duration_ms from tool_calls")
        assert (status, duration) == ("error", 2_000.0)
        assert error == ("out of stock: " + "x" * 986 if kept else "RuntimeError")
        told = "select source, error_code, e.tool_name, c.tool_name, e.call_id = c.call_id"
        assert shop.sql(f"{told} from errors e, tool_calls c") == [
            ("event", "RuntimeError", "fail", "fail", True)
        ]
        assert shop.sql("select outcome from turns") == [("error",)]
        ((tool, message),) = shop.sql(
            "select call.tool_name, run.error_message from telemetry call"
            " join telemetry run on run.cause_id = call.id"
        )
        assert (tool, message and len(message)) == ("fail", kept)


async def test_a_tool_that_raises_without_a_word_is_told_by_its_class(shop: Shop) -> None:
    """No error is empty."""
    with pytest.raises(TimeoutError):
        await shop.say("silent")
    assert shop.sql("select status, error from tool_calls") == [("error", "TimeoutError")]
    assert shop.sql("select distinct error_message from telemetry") == [(None,)]


async def test_a_tool_that_is_cancelled_has_not_failed(shop: Shop) -> None:
    """Neither by its caller, nor since another call that ran beside it has raised."""
    with pytest.raises(RuntimeError):
        await shop.say("wait and fail")
    task = asyncio.create_task(shop.say("wait"))
    shop.waits.clear()
    await shop.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    calls = "select tool_name, status, duration_ms from tool_calls order by version, place"
    assert shop.sql(calls) == [
        ("wait", "pending", None),
        ("fail", "error", 2_000.0),
        ("wait", "pending", None),
    ]
    assert shop.sql("select distinct error_code from errors") == [("RuntimeError",)]
    rows = "select outcome from telemetry where tool_name = 'wait'"
    assert shop.sql(rows) == [("unfinished",)] * 2


async def test_what_no_event_tells_of_is_an_error(shop: Shop) -> None:
    """A tool that raises, and for which a callback answers, is an error that telemetry tells of."""
    shop.agent.on_tool_error_callback = lambda **_: {"result": "we are sorry"}
    await shop.say("fail")
    assert shop.sql("select status from tool_calls") == [("ok",)]
    ((source, code, tool, call),) = shop.sql(
        "select source, error_code, tool_name, call_id from errors"
    )
    assert (source, code, tool) == ("telemetry", "RuntimeError", "fail")
    assert shop.sql("select call_id, outcome from tool_calls, turns") == [(call, "ok")]


async def test_a_failure_that_an_answer_tells_of_is_one_error(shop: Shop) -> None:
    """A call of a tool that is not there, which ADK answers, is no second row of telemetry."""
    await shop.say("missing")
    assert shop.sql("select error_type from telemetry where kind = 'tool'") == [("ValueError",)]
    found = shop.sql("select source, tool_name, call_id is not null from errors")
    assert found == [("tool", "no_such_tool", True)]
    assert shop.sql("select tool_errors from turns") == [(1,)]


async def test_a_model_that_raises_is_an_error(shop: Shop) -> None:
    """A call of a model of which no event tells is an error, with its model and its latency."""
    with pytest.raises(ValueError, match="no such model"):
        await shop.say("break")
    query = "select source, error_code, error_message, author from errors"
    assert shop.sql(query) == [("event", "ValueError", "no such model", "root")]
    assert shop.sql("select outcome, model_ms from turns") == [("error", 250.0)]
    rows = "select model, error_type, duration_ms, event_id from telemetry where kind = 'model'"
    assert shop.sql(rows) == [("scripted-small-1", "ValueError", 250.0, None)]


@OF_AGENT_TOOL
async def test_an_agent_that_is_a_tool_is_measured(shop: Shop) -> None:
    """Its calls, which no event tells of, are rows; they are in no session of the lake."""
    await shop.say("help me")
    query = "select kind, version, total_tokens > 0 from telemetry where agent = 'helper'"
    assert sorted(shop.sql(query)) == [("model", 0, True), ("run", 0, None)]
    names = "select tool_name, duration_ms from tool_calls"
    assert shop.sql(names) == [("helper", 1_000.0 * (THINKING + WORD))]


RUNS = "select outcome, count(*) from telemetry where kind = 'run' group by 1 order by 1"


async def cancel(shop: Shop) -> None:
    """Run a turn that is cancelled within this very task, which lives on."""
    this = asyncio.current_task()
    assert this

    async def soon() -> None:
        await shop.waits.wait()
        this.cancel()

    shop.waits.clear()
    canceller = asyncio.create_task(soon())
    with pytest.raises(asyncio.CancelledError):
        await shop.say("wait")
    this.uncancel()
    await canceller


async def test_a_cancelled_run_is_unfinished(shop: Shop) -> None:
    """Of a run that nobody sees end the next one tells, as unfinished."""
    task = asyncio.create_task(shop.say("wait"))
    await shop.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await shop.say("hello")
    assert shop.sql(RUNS) == [("ok", 1), ("unfinished", 1)]


async def test_a_run_that_its_task_outlives_is_unfinished(shop: Shop) -> None:
    """The next run tells of it once ADK holds it no more, whatever task that is in."""
    await cancel(shop)
    await asyncio.sleep(0.01)
    gc.collect()
    await shop.say("hello")
    assert shop.sql(RUNS) == [("ok", 1), ("unfinished", 1)]


async def test_closing_ends_runs_that_their_task_outlives(shop: Shop) -> None:
    """Those of other tasks that live go on, for a plugin may serve many runners."""
    await cancel(shop)
    other = asyncio.create_task(shop.say("wait"))
    shop.waits.clear()
    await shop.waits.wait()
    await shop.plugin.close()
    assert shop.sql(RUNS) == [("unfinished", 1)]
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    await shop.plugin.close()
    assert shop.sql(RUNS) == [("unfinished", 2)]


async def test_what_was_cancelled_delays_no_other(shop: Shop) -> None:
    """Runs of the user are stored at their ends, whether an earlier one is known to be over."""
    await cancel(shop)
    await shop.say("hello")
    await asyncio.sleep(0)
    shop.plugin._outbox._pool.close()
    rows = "select count(*) from telemetry where kind = 'run' and outcome = 'ok'"
    assert shop.lake.sql(rows).fetchall() == [(1,)]


async def test_other_services_are_measured_too() -> None:
    """Sessions of another service have rows, which an erase of their user takes along."""
    shop, service = Shop(), InMemorySessionService()
    await service.create_session(app_name="app", **WHO)
    with shop.lake:
        await shop.say("hello", service)
        rows = "select kind, version from telemetry order by kind"
        assert shop.sql(rows) == [("model", 0), ("run", 0)]
        erase_user(shop.lake, "app", "ana", wait=False)
        assert shop.sql(rows) == []


async def test_what_was_not_stored_is_tried_again() -> None:
    """While the store fails, rows wait; each is stored once in the end."""
    store = FailingStore(MemoryStore(), Nth("put", holding="telemetry/", times=3))
    shop = await Shop(store).begin()
    with shop.lake:
        for _ in range(3):
            await shop.say("hello")
            await shop.plugin.close()
        assert shop.sql("select count(*), count(distinct id) from telemetry") == [(6, 6)]
        assert shop.plugin.dropped == 0


async def test_callbacks_raise_nothing(caplog: pytest.LogCaptureFixture, shop: Shop) -> None:
    """What a callback cannot make sense of is missed, and told once."""
    nonsense: Any = object()
    for _ in range(2):
        await shop.plugin.before_run_callback(invocation_context=nonsense)
        await shop.plugin.before_model_callback(callback_context=nonsense, llm_request=nonsense)
        await shop.plugin.on_event_callback(invocation_context=nonsense, event=nonsense)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


class Stuck(AroundStore):
    """Lets nobody put telemetry: each hangs until it is let go, and then fails."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.open = threading.Event()

    def put_if_absent(self, key: str, body: bytes) -> None:
        if key.startswith("telemetry/"):
            self.open.wait()
            raise StorageError(f"no room. {key=}")
        super().put_if_absent(key, body)


async def test_a_store_that_hangs_delays_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """Runs go on while nothing can be stored; what finds no room is counted, and told once."""
    store = Stuck()
    shop = await Shop(store, max_waiting=5, batch_rows=2).begin()
    with caplog.at_level(logging.WARNING), shop.lake:
        for _ in range(4):
            await asyncio.wait_for(shop.say("hello"), 5)
        assert shop.plugin.dropped == 3
        store.open.set()
        assert not shop.plugin.flush()
        assert shop.lake.sql("select count(*) from turns").fetchall() == [(4,)]
    assert shop.plugin.dropped == 8
    told = [record.message for record in caplog.records if "dropped" in record.message]
    assert len(told) == 1


async def test_closing_stores_what_waits() -> None:
    """A lake that is closed has what was measured, runs that go on as unfinished among it."""
    store = MemoryStore()
    shop = await Shop(store).begin()
    await shop.say("hello")
    shop.lake.close()
    with Lake(store, read_only=True) as lake:
        assert lake.sql("select count(*) from telemetry").fetchall() == [(2,)]
        with pytest.raises(InputError, match="read_only"):
            LakeTelemetryPlugin(lake)


async def test_a_closed_lake_takes_nothing(shop: Shop) -> None:
    """A plugin for it is refused; what one measures afterwards is dropped, and counted."""
    service = InMemorySessionService()
    await service.create_session(app_name="app", **WHO)
    shop.lake.close()
    await shop.say("hello", service)
    await shop.plugin.close()
    assert shop.plugin.dropped == 2
    with pytest.raises(InputError, match="the lake is closed"):
        LakeTelemetryPlugin(shop.lake)


async def test_nothing_that_was_said_is_recorded(shop: Shop) -> None:
    """Prompts, answers, arguments and results are in no row."""
    await shop.say("hello secret both")
    assert shop.plugin.flush()
    bodies = b"".join(shop.lake.environment.store.get(key) for key in _entries(shop.lake))
    assert bodies
    rows = str(shop.sql("from telemetry"))
    assert "secret" not in rows
    assert "done with it" not in rows


def _entries(lake: Lake) -> list[str]:
    return list(lake.environment.store.names("telemetry/"))


@OF_AGENT_TOOL
async def test_an_erased_user_leaves_nothing(shop: Shop) -> None:
    """Neither in the lake nor for anybody, packed or not, and not of what is an agent's tool."""
    await shop.say("help me")
    assert shop.plugin.flush()
    compact(shop.lake)
    await shop.say("hello")
    assert shop.plugin.flush()
    receipt = erase_user(shop.lake, "app", "ana", wait=False)
    assert shop.sql("from telemetry") == []
    receipt = receipt.finish(shop.lake)
    assert receipt.verify(shop.lake) == ()
    left = b"".join(
        shop.lake.environment.store.get(key)
        for key in shop.lake.environment.store.names("")
        if "telemetry" in key
    )
    assert left == b""
