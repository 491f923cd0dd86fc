"""An HTTP proxy before a server that does what networks and busy stores do, and counts requests.

Owns a small reverse proxy: it passes each request on, unless a `Fault` picks it. It stands for what
lies between a client and a bucket, so that clients are tested with all that they do by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

Does = Literal["answer", "reset", "swallow", "drop", "delay"]

_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "SlowDown", 409: "OperationAborted"}


@dataclass(slots=True)
class Fault:
    """What happens to some requests.

    `answer`: it is not passed on, and answered with `status` and the S3 error `code`. `reset`: it
    is not passed on, and the connection is cut. `swallow`: it is passed on, and the connection is
    cut in place of the reply. `drop`: it is not passed on and never answered. `delay`: it is
    passed on after `seconds`.
    """

    does: Does
    method: str = ""
    """Which requests; empty for all."""
    holding: str = ""
    """What their path and query hold."""
    first: int = 1
    """The first of those that is picked, from 1."""
    times: int = 1
    """How many in a row are."""
    status: int = 503
    code: str = ""
    """The code of the error; empty for the usual one of the status."""
    seconds: float = 0.0
    met: int = 0
    """How many requests of that method and path there were."""

    def picks(self, method: str, target: str) -> bool:
        """Count a request, and tell whether it is picked."""
        if self.method not in ("", method) or self.holding not in target:
            return False
        self.met += 1
        return self.first <= self.met < self.first + self.times


@dataclass(slots=True)
class Sent:
    """A request that reached the proxy."""

    method: str
    target: str
    """Path and query."""
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes


@dataclass(slots=True)
class FaultProxy:
    """A running proxy; `url` is what the client is given in place of the server's address."""

    url: str
    requests: list[Sent] = field(default_factory=list)
    """What came, in order."""
    faults: list[Fault] = field(default_factory=list)
    """What goes wrong; the first that picks a request decides."""

    def count(self, method: str = "") -> int:
        """Return how many requests of a method, or of any, have come."""
        return sum(method in ("", sent.method) for sent in self.requests)

    def fault(self, sent: Sent) -> Fault | None:
        """Note a request, and return what happens to it."""
        self.requests.append(sent)
        picking = [fault for fault in self.faults if fault.picks(sent.method, sent.target)]
        return picking[0] if picking else None


@contextmanager
def fault_proxy(server: str, proxy: FaultProxy | None = None) -> Iterator[FaultProxy]:
    """Run a proxy (None: a plain one) before the server at that address, in its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fault-proxy", daemon=True)
    thread.start()
    proxy = proxy or FaultProxy("")
    connections: set[asyncio.Task[None]] = set()
    target = urlsplit(server)
    place = (target.hostname or "", target.port or 80)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await _serve(proxy, place, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            connections.discard(task)
            writer.close()

    async def stop(listening: asyncio.Server) -> None:
        listening.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)

    try:
        starting = asyncio.start_server(serve, "127.0.0.1", 0)
        listening = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        port = listening.sockets[0].getsockname()[1]
        proxy.url = f"http://127.0.0.1:{port}"
        try:
            yield proxy
        finally:
            asyncio.run_coroutine_threadsafe(stop(listening), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _serve(
    proxy: FaultProxy,
    place: tuple[str, int],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve the requests of one connection, each over a new one to the server."""
    while True:
        sent, head = await _request(reader, writer)
        fault = proxy.fault(sent)
        does = fault.does if fault else "pass"
        if fault and does == "answer":
            writer.write(_answer(fault, sent.method))
            await writer.drain()
            continue
        if does == "reset":
            return
        if does == "drop":
            await asyncio.sleep(3600)
        if fault and does == "delay":
            await asyncio.sleep(fault.seconds)
        reply = await _pass_on(place, head + sent.body)
        if does == "swallow":
            return
        writer.write(reply)
        await writer.drain()


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[Sent, bytes]:
    """Read a request; return it, and its head as the server gets it."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:] if line)
    }
    if "expect" in headers:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await _body(reader, headers)
    kept = [
        line
        for line in lines[1:]
        if line and not line.lower().startswith(("connection:", "expect:"))
    ]
    passed = "\r\n".join([lines[0], *kept, "Connection: close", "", ""])
    return Sent(method, target, headers, body), passed.encode("latin-1")


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    raw = b""
    while True:  # as it came: the server gets the same head, which says chunked
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        raw += line + await reader.readexactly(size + 2)
        if size == 0:
            return raw


async def _pass_on(place: tuple[str, int], request: bytes) -> bytes:
    """Return the server's reply, whole."""
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read(-1)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _answer(fault: Fault, method: str) -> bytes:
    code = fault.code or _REASONS.get(fault.status, "AccessDenied")
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    head = f"HTTP/1.1 {fault.status} {code}\r\nContent-Type: application/xml\r\n"
    shown = "" if method == "HEAD" else body
    return f"{head}Content-Length: {len(body)}\r\n\r\n{shown}".encode()
