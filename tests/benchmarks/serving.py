"""A server with one event loop and one session service, as an agent's server is: run as a process.

Owns what the loop itself does, and how late it is. The load comes from `crowd`, another process,
so that nothing but the service makes this loop late.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from tests.benchmarks.contenders import close_lake
from tests.benchmarks.histories import APP

LAST = 20
"""Events that a conversation reads."""
_TICK_SECONDS = 0.005
_LINE = 2**20


class Heartbeat:
    """How late a loop is, and how much of that was neither a wait for a core nor the collector."""

    def __init__(self) -> None:
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self.begin()
        gc.callbacks.append(self._collecting)

    def begin(self) -> None:
        """Forget what was."""
        self._ticks: list[tuple[float, float, float]] = []
        """Of each tick when it was due, when it came, and seconds that its thread waited."""
        self._collections: list[tuple[float, float]] = []
        """From when to when the garbage collector ran, in which nothing else runs."""

    def _collecting(self, phase: str, _about: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.monotonic()
        else:
            self._collections.append((self._collecting_since, time.monotonic()))

    def _queued(self) -> float:
        """Return the seconds that the thread could run, and others had the cores; 0 elsewhere."""
        with suppress(FileNotFoundError):  # Linux tells
            return int(self._schedule.read_text().split()[1]) / 1e9
        return 0.0

    def heard(self) -> Mapping[str, Sequence[float]]:
        """Return what `Talk` says of it, in seconds."""
        return {
            "late": [came - due for due, came, _ in self._ticks],
            "ours": [max(0.0, self._ours(*tick)) for tick in self._ticks],
            "collections": [ended - began for began, ended in self._collections],
        }

    def _ours(self, due: float, came: float, queued: float) -> float:
        within = (min(came, e) - max(due, b) for b, e in self._collections)
        return came - due - queued - sum(each for each in within if each > 0)

    async def beat(self) -> None:
        """Tick for ever."""
        while True:
            queued, due = self._queued(), time.monotonic() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            came = time.monotonic()
            self._ticks.append((due, came, self._queued() - queued))


@asynccontextmanager
async def opened(settings: Mapping[str, Any]) -> AsyncIterator[BaseSessionService]:
    """Yield the service that is asked for."""
    if settings["client"] == "postgres":
        peer = DatabaseSessionService(settings["url"], pool_size=64, max_overflow=0)
        try:
            yield peer
        finally:
            await peer.close()
        return
    ours = LakeSessionService(
        Lake.open(
            settings["url"],
            storage_options=settings["storage_options"],
            client=settings["client"],
            max_concurrency=64,
        )
    )
    try:
        yield ours
    finally:
        await close_lake(ours)


class Conversation:
    """One connection: a session of its own, and what is asked of it, one line after the other."""

    def __init__(self, service: BaseSessionService, heartbeat: Heartbeat) -> None:
        self._service = service
        self._heartbeat = heartbeat

    async def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what is asked."""
        match asked["do"]:
            case "create":
                self._session = await self._service.create_session(
                    app_name=APP, user_id=asked["user"]
                )
            case "append":
                event = Event.model_validate(asked["event"])
                await self._service.append_event(self._session, event)
            case "get":
                return {"last": await self._last()}
            case "begin":
                self._heartbeat.begin()
            case "end":
                return self._heartbeat.heard()
        return {}

    async def _last(self) -> str:
        session = self._session
        found = await self._service.get_session(
            app_name=APP,
            user_id=session.user_id,
            session_id=session.id,
            config=GetSessionConfig(num_recent_events=LAST),
        )
        assert found is not None
        return found.events[-1].id


async def serve(settings: Mapping[str, Any]) -> None:
    """Serve until the process is ended, and print the port."""
    heartbeat = Heartbeat()
    beating = asyncio.ensure_future(heartbeat.beat())
    async with opened(settings) as service:

        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversation = Conversation(service, heartbeat)
            while line := await reader.readline():
                reply = await conversation.answer(json.loads(line))
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
            writer.close()

        if settings.get("freeze"):
            gc.collect()
            gc.freeze()
        server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=_LINE)
        print(server.sockets[0].getsockname()[1], flush=True)
        await beating


async def relay(port: int) -> None:
    """Pass everything on to the server at `port`: what the same load makes of a loop beside it."""
    heartbeat = Heartbeat()
    beating = asyncio.ensure_future(heartbeat.beat())

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", port, limit=_LINE)
        while line := await reader.readline():
            if (do := json.loads(line)["do"]) in ("begin", "end"):
                conversation = Conversation(None, heartbeat)  # type: ignore[arg-type]
                reply = json.dumps(await conversation.answer({"do": do})).encode() + b"\n"
            else:
                ours.write(line)
                reply = await theirs.readline()
            writer.write(reply)
            await writer.drain()
        ours.close()
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=_LINE)
    print(server.sockets[0].getsockname()[1], flush=True)
    await beating


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(relay(given["port"]) if "port" in given else serve(given))
