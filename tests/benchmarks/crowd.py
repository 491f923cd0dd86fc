"""Many conversations with a `serving` process: run as a process of its own, prints what it saw."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.histories import events

GET_EVERY = 4
_LINE = 2**24
_APART_SECONDS = 0.005
"""Between the beginnings of two conversations."""


class Connection:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=_LINE))

    async def ask(self, line: bytes) -> Any:
        """Return the answer to a line."""
        self._writer.write(line)
        return json.loads(await self._reader.readline())

    def close(self) -> None:
        """End it."""
        self._writer.close()


def asking(do: str, **facts: object) -> bytes:
    """Return a line that asks for something."""
    return json.dumps({"do": do, **facts}).encode() + b"\n"


def appending(turns: int) -> list[tuple[str, bytes]]:
    """Return the events of a conversation: the id of each, and the line that appends it."""
    made = [event.model_dump(mode="json", exclude_none=True) for event in events(turns)]
    return [(event["id"], asking("append", event=event)) for event in made]


async def converse(port: int, conversations: int, turns: int) -> dict[str, Any]:
    """Hold so many conversations at once; return seconds of appends and gets, and of all."""
    lines = appending(turns)
    appends: list[float] = []
    gets: list[float] = []

    async def one(number: int, connection: Connection) -> None:
        await asyncio.sleep(number * _APART_SECONDS)
        await connection.ask(asking("create", user=f"user-{number}"))
        for turn, (event_id, line) in enumerate(lines):
            appends.append(await timed(connection, line))
            if turn % GET_EVERY == 0:
                gets.append(await timed(connection, asking("get"), {"last": event_id}))
        connection.close()

    connections = [await Connection.to(port) for _ in range(conversations)]
    steering = await Connection.to(port)
    await steering.ask(asking("begin"))
    started = time.perf_counter()
    await asyncio.gather(*(one(*each) for each in enumerate(connections)))
    seconds = time.perf_counter() - started
    heard = await steering.ask(asking("end"))
    return {"appends": appends, "gets": gets, "seconds": seconds, **heard}


async def timed(connection: Connection, line: bytes, expected: object = None) -> float:
    """Return the seconds until the answer to a line, which is `expected` or empty."""
    started = time.perf_counter()
    answer = await connection.ask(line)
    seconds = time.perf_counter() - started
    assert answer == (expected or {})
    return seconds


def main(arguments: Sequence[str]) -> None:
    """Converse, and print the figures as JSON."""
    found = asyncio.run(converse(*map(int, arguments)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
