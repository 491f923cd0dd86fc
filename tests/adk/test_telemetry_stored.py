"""How what was measured is stored, kept and erased, and that no run suffers from it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from lakestore import Lake, LakeTelemetryPlugin
from lakestore.errors import InputError, StorageError
from lakestore.jobs import compact, erase_user
from lakestore.storage import MemoryStore
from tests.support.faulty_store import AroundStore, FailingStore, Nth
from tests.support.shop import OF_AGENT_TOOL, WHO, Shop


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
