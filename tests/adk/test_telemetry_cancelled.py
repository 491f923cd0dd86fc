"""What telemetry tells of runs and tools that were cancelled."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.support.shop import Shop


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
