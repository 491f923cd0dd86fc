"""What telemetry tells of tools and models that raise, and of runs that end so."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop


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
