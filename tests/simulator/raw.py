"""Reads a bucket by what `FORMAT.md` says, with pyarrow alone: a second opinion on what is stored.

Imports nothing of the product.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulator.record import Name, SharedKey

_LOG = re.compile(r"events/log/app=[^/]*/user=([^/]*)/session=([^/]*)/([0-9]{20})(r?)\.parquet")
_EVENT = ("kind", "event_json")
_STATE = ("user_id", "key", "value", "stamp")
_ENTRY = re.compile(r"state/entries/app=[^/]*/user=[^/]*/[^/]*\.parquet")


def events_in(objects: Mapping[str, tuple[bytes, float]]) -> dict[Name, tuple[str, ...]]:
    """Return the ids of the events of each living session, in order."""
    logs: dict[Name, dict[tuple[int, bool], bytes]] = {}
    for key, (body, _) in objects.items():
        if match := _LOG.fullmatch(key):
            user, session, version, rollup = match.groups()
            logs.setdefault((user, session), {})[int(version), bool(rollup)] = body
    found = {name: _folded(log) for name, log in logs.items()}
    return {name: tuple(ids) for name, ids in found.items() if ids is not None}


def _folded(log: Mapping[tuple[int, bool], bytes]) -> list[str] | None:
    """Return what a log holds: its newest rollup with a commit beside it, and what follows."""
    rollups = [version for version, rollup in log if rollup and (version, False) in log]
    version = max(rollups, default=0)
    ids: list[str] | None = None
    if version:
        ids = [_id(row) for row in _rows(log[version, True], _EVENT) if row["kind"] == "event"]
    while (version + 1, False) in log:
        version += 1
        for row in _rows(log[version, False], _EVENT):
            if row["kind"] == "event":
                ids = [*(ids or []), _id(row)]
            else:
                ids = [] if row["kind"] == "create" else None
    return ids


def _id(row: Mapping[str, Any]) -> str:
    return str(json.loads(row["event_json"])["id"])


def _rows(body: bytes, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    file = pq.ParquetFile(pa.BufferReader(body))
    yield from file.read(columns=list(columns), use_threads=False).to_pylist()


def shared_in(objects: Mapping[str, tuple[bytes, float]]) -> dict[SharedKey, str]:
    """Return the shared state: for each key the value with the latest stamp."""
    latest: dict[SharedKey, tuple[str, str]] = {}
    for key, (body, _) in objects.items():
        if _ENTRY.fullmatch(key):
            for row in _rows(body, _STATE):
                prefix = "app:" if row["user_id"] is None else "user:"
                name = (row["user_id"] or "", prefix + row["key"])
                latest[name] = max(latest.get(name, ("", "")), (row["stamp"], row["value"]))
    return {name: json.loads(value) for name, (_, value) in latest.items()}
