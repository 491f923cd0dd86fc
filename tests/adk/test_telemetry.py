"""What `LakeTelemetryPlugin` measures of a real runner."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from lakestore import Lake
from lakestore.jobs import erase_user
from tests.support.shop import OF_AGENT_TOOL, THINKING, WHO, WORD, Shop


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


@OF_AGENT_TOOL
async def test_an_agent_that_is_a_tool_is_measured(shop: Shop) -> None:
    """Its calls, which no event tells of, are rows; they are in no session of the lake."""
    await shop.say("help me")
    query = "select kind, version, total_tokens > 0 from telemetry where agent = 'helper'"
    assert sorted(shop.sql(query)) == [("model", 0, True), ("run", 0, None)]
    names = "select tool_name, duration_ms from tool_calls"
    assert shop.sql(names) == [("helper", 1_000.0 * (THINKING + WORD))]


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


async def test_callbacks_raise_nothing(caplog: pytest.LogCaptureFixture, shop: Shop) -> None:
    """What a callback cannot make sense of is missed, and told once."""
    nonsense: Any = object()
    for _ in range(2):
        await shop.plugin.before_run_callback(invocation_context=nonsense)
        await shop.plugin.before_model_callback(callback_context=nonsense, llm_request=nonsense)
        await shop.plugin.on_event_callback(invocation_context=nonsense, event=nonsense)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


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
