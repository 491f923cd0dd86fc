"""Reads a bucket by what `FORMAT.md` says, with pyarrow alone: a second opinion on what is stored.

Imports nothing of the product.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulator.record import Name, SharedKey

Objects = Mapping[str, tuple[bytes, float]]

_LOG = re.compile(r"(events/log/app=[^/]*/user=([^/]*)/session=([^/]*)/)([0-9]{20})(r?)\.parquet")
_MANIFEST = re.compile(r"manifests/(app=[^/]*)/[0-9]{20}\.json")
_EVENT = ("kind", "version", "event_json")
_STATE = ("user_id", "key", "value", "stamp", "source_user_id", "session_id", "version")
_PAYLOAD = re.compile(r"artifacts/objects/app=[^/]*/user=([^/]*)/")
_ENTRY = re.compile(r"state/entries/app=[^/]*/user=[^/]*/[^/]*\.parquet")


@dataclass(frozen=True)
class Stored:
    """What a bucket holds."""

    events: Mapping[Name, tuple[str, ...]]
    """The ids of the events of each living session, in order, "" for each that was pruned."""
    shared: Mapping[SharedKey, str]
    """The shared state: for each key the value with the latest stamp."""
    missing: Sequence[str]
    """What a manifest names and is not there."""


@dataclass
class _Packed:
    """What the newest manifest of the one app says."""

    objects: Objects
    folder: str = ""
    tables: Mapping[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [match for key in self.objects if (match := _MANIFEST.fullmatch(key))]
        if names:
            newest = max(names, key=lambda match: match[0])
            self.folder = newest[1]
            self.tables = json.loads(self.objects[newest[0]][0])["tables"]

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of all runs of a table, the oldest run first."""
        for file in reversed(self.tables.get(table, {}).get("runs", [])):
            yield from self._read(f"runs/{self.folder}/{table}/{file['id']}.parquet")

    def _read(self, key: str) -> list[dict[str, Any]]:
        if key not in self.objects:
            self.missing.append(key)
            return []
        return [*_rows(self.objects[key][0])]

    def erased(self) -> dict[str, int]:
        """Return the last erased versions by digests of logs."""
        return {row["digest"]: row["version"] for row in self.rows("erased")}

    def sessions(self) -> dict[Name, dict[str, Any]]:
        """Return what runs say of sessions."""
        return {(row["user_id"], row["session_id"]): row for row in self.rows("events")}

    def events(self, row: Mapping[str, Any]) -> list[str]:
        """Return the events of a session that are packed."""
        found: list[str] = []
        for it in row["segments"]:
            key = f"packs/{self.folder}/events/{it['pack']}.parquet"
            if key not in self.objects:
                self.missing.append(key)
                continue
            file = pq.ParquetFile(pa.BufferReader(self.objects[key][0]))
            groups = range(it["group"], it["group"] + it["groups"])
            table = file.read_row_groups(groups, columns=list(_EVENT), use_threads=False)
            for event in table.slice(it["skip"], it["rows"]).to_pylist():
                found += _ids(event) if event["kind"] == "event" else []
        return found


def read(objects: Objects) -> Stored:
    """Return what a bucket of one app holds."""
    packed = _Packed(objects)
    erased, sessions = packed.erased(), packed.sessions()
    logs: dict[Name, dict[tuple[int, bool], bytes]] = {}
    prefixes: dict[Name, str] = {}
    for key, (body, _) in objects.items():
        if match := _LOG.fullmatch(key):
            prefix, user, session, version, rollup = match.groups()
            logs.setdefault((user, session), {})[int(version), bool(rollup)] = body
            prefixes[user, session] = prefix
    events = {}
    for name in sorted({*logs, *sessions}):
        row = sessions.get(name)
        start, ids = (row["version"], packed.events(row) if row["alive"] else None) if row else (
            erased.get(_digest(prefixes[name]), 0), None)  # fmt: skip
        found = _folded(logs.get(name, {}), start, ids)
        if found is not None:
            events[name] = tuple(found)
    return Stored(events, _shared(objects, packed, erased), sorted(set(packed.missing)))


def _digest(prefix: str) -> str:
    return sha256(prefix.encode()).hexdigest()


def _folded(
    log: Mapping[tuple[int, bool], bytes], version: int, ids: list[str] | None
) -> list[str] | None:
    """Return what a session holds: what is packed, the newest rollup above, and what follows."""
    rollups = [v for v, rollup in log if rollup and v > version and (v, False) in log]
    if rollups:
        rows = [row for row in _rows(log[max(rollups), True], _EVENT) if row["version"] > version]
        version = max(rollups)
        # Without its creation it goes on where what is packed ends.
        ids = [] if any(row["kind"] == "create" for row in rows) else [*(ids or [])]
        ids += [event for row in rows if row["kind"] == "event" for event in _ids(row)]
    while (version + 1, False) in log:
        version += 1
        for row in _rows(log[version, False], _EVENT):
            if row["kind"] == "event":
                ids = [*(ids or []), *_ids(row)]
            else:
                ids = [] if row["kind"] == "create" else None
    return ids


def _ids(row: Mapping[str, Any]) -> list[str]:
    event = json.loads(row["event_json"])
    pruned = (event.get("customMetadata") or {}).get("lakestore_pruned")
    return [""] * pruned["events"] if pruned else [str(event["id"])]


def _rows(body: bytes, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    file = pq.ParquetFile(pa.BufferReader(body))
    wanted = None if columns is None else list(columns)
    yield from file.read(columns=wanted, use_threads=False).to_pylist()


def _shared(objects: Objects, packed: _Packed, erased: Mapping[str, int]) -> dict[SharedKey, str]:
    entries = (
        row
        for key, (body, _) in objects.items()
        if _ENTRY.fullmatch(key)
        for row in _rows(body, _STATE)
    )
    latest: dict[SharedKey, tuple[str, bool, str | None]] = {}
    for row in (*entries, *packed.rows("state")):
        source = (
            f"events/log/{packed.folder}/user={row['source_user_id']}/session={row['session_id']}/"
        )
        if row["session_id"] and row["version"] <= erased.get(_digest(source), 0):
            continue
        prefix = "app:" if row["user_id"] is None else "user:"
        name = (row["user_id"] or "", prefix + row["key"])
        # Of two with one stamp the one without a value counts.
        mine = (row["stamp"], row["value"] is None, row["value"])
        latest[name] = max(latest.get(name, mine), mine, key=lambda it: it[:2])
    return {name: json.loads(it[2]) for name, it in latest.items() if it[2] is not None}


def traces(objects: Objects, user: str, erased: set[str]) -> Iterator[str]:
    """Yield the keys of objects that hold anything of `erased`, as a user's or set by the user.

    Args:
        objects: All of the bucket.
        user: Who was erased.
        erased: Names of lives, ids of events, which are all that was ever set, and memories.
    """
    for key, (body, _) in sorted(objects.items()):
        if match := _PAYLOAD.match(key):
            if match[1] == user and body.decode() in erased:
                yield key
        elif key.endswith(".parquet") and any(_is_trace(row, user, erased) for row in _rows(body)):
            yield key


def _is_trace(row: Mapping[str, Any], user: str, erased: set[str]) -> bool:
    if user not in (row.get("user_id"), row.get("source_user_id")):
        return False
    texts = (row.get(name) for name in ("event_json", "state_delta", "state", "value", "content"))
    return any(f'"{name}"' in text for text in texts if text for name in erased)
