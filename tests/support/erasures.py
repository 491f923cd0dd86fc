"""A lake of two users, one of whom is erased, and a search for what is left in any object."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq

from lakestore.jobs import EraseReceipt, compact, erase_user
from lakestore.storage import ObjectStore
from tests.support.aging import APP, AgingLake

SECRET = "sesame"
USER = "anastasia"
OTHER = "ben"


def _cells(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _cells(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _cells(each)
    elif value is not None:
        yield str(value)


@lru_cache(2_000)
def _decoded(body: bytes) -> tuple[str, ...]:
    """Return the raw bytes, and every value and statistic that they hold."""
    return tuple(_texts(body))


def _texts(body: bytes) -> Iterator[str]:
    yield body.decode("latin-1")
    if body.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(body))
        yield from _cells(file.read().to_pylist())
        yield str(file.metadata)
        for group in range(file.num_row_groups):
            yield from (
                str(file.metadata.row_group(group).column(column))
                for column in range(file.metadata.num_columns)
            )
    elif body.startswith(b"{"):
        yield from _cells(json.loads(body))


def mentions(store: ObjectStore, *words: str) -> list[str]:
    """Return the keys of the objects that hold any of `words`, in whatever encoding of ours."""
    pattern = re.compile("|".join(map(re.escape, words)))
    return [
        stored.key
        for stored in store.list("")
        if any(map(pattern.search, (stored.key, *_decoded(store.get(stored.key)))))
    ]


def peopled(aging: AgingLake, *, compactions: int = 2) -> dict[str, Any]:
    """Begin two users, with sessions, state of all scopes, in packs, runs, commits and entries."""
    handles: dict[str, Any] = {}
    for user in (USER, OTHER):
        for number in range(2):
            word = f"{SECRET}-{user}"
            state = {"k": word, "user:u": word, f"app:{len(user)}": number, "app:both": len(user)}
            made = aging.create(f"chat-{user}-{number}", user_id=user, state=state)
            aging.say(made, f"I say {word} {number}")
            handles[made.id] = made
    for step in range(compactions):
        compact(aging.lake)
        for user in (OTHER, USER):
            made = handles[f"chat-{user}-0"]
            delta = {"user:u": f"{SECRET}-{user}-{step}", "app:both": len(user)}
            aging.say(made, f"more {SECRET}-{user} {step}", delta=delta)
    return handles


def others_answers(aging: AgingLake) -> Any:
    """Return all sessions of the other user, as a new process reads them."""
    lake = aging.open(read_only=True)
    service = aging.service_of(lake)
    listed = service.list_sessions(app_name=APP, user_id=OTHER).sessions
    loaded = [service.get_session(app_name=APP, user_id=OTHER, session_id=s.id) for s in listed]
    return [found.model_dump() for found in loaded if found]


def erase(aging: AgingLake) -> EraseReceipt:
    """Erase the user from a new process."""
    return erase_user(aging.open(), APP, USER)
