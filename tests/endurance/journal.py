"""What a worker asked and was answered, kept where the worker's death does not reach it.

One line when a call begins and one when it ends, so a call without an end was cut off by a kill.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.simulator.record import Call, Seen, SharedKey


def now() -> int:
    """Return a time that all processes of this machine agree on, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Journal:
    """Writes the calls of one process."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._process = process
        self._calls = 0

    def begin(self, kind: str, **facts: Any) -> Call:
        """Note that a call begins."""
        self._calls += 1
        # Whatever happens to requests, it may have happened to this call's.
        call = Call(
            kind, self._process, f"{self._process}.{self._calls}", now(), faults=1, stalls=1,
            **facts,
        )  # fmt: skip
        self._write(call)
        return call

    def end(self, call: Call) -> None:
        """Note how it ended."""
        call.ended = now()
        self._write(call)

    def _write(self, call: Call) -> None:
        plain = asdict(call)
        plain["writes"] = [[*key, value] for key, value in call.writes.items()]
        plain["shared"] = call.shared and [[*key, value] for key, value in call.shared.items()]
        self._file.write(json.dumps(plain) + "\n")


def read_journals(folder: Path) -> list[Call]:
    """Return the calls of all journals in `folder`, in the order in which they began."""
    calls: dict[str, Call] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                call = _call(json.loads(line))
            except ValueError:  # cut off while it was written: then nothing came after
                continue
            calls[call.where] = call
    return sorted(calls.values(), key=lambda call: call.began)


def _call(plain: dict[str, Any]) -> Call:
    call = Call(**plain)
    call.session = _pair(plain["session"])
    call.known, call.sent = tuple(plain["known"]), tuple(plain["sent"])
    call.scopes = tuple(plain["scopes"])
    call.writes = dict(_keys(plain["writes"]))
    call.shared = None if plain["shared"] is None else dict(_keys(plain["shared"]))
    call.seen = [_seen(each) for each in plain["seen"]]
    return call


def _seen(plain: dict[str, Any]) -> Seen:
    session = _pair(plain.pop("session"))
    assert session is not None
    events, tail = (v if v is None else tuple(v) for v in map(plain.pop, ("events", "tail")))
    return Seen(session, plain.pop("life"), events, tail, **plain)


def _pair(value: list[str] | None) -> tuple[str, str] | None:
    return None if value is None else (value[0], value[1])


def _keys(plain: list[list[str]]) -> Iterator[tuple[SharedKey, str]]:
    return (((user, key), value) for user, key, value in plain)
