"""Our session services as cases: over a folder, in memory, in buckets, and the blocking twin.

They keep every rule. Imports of lakestore are inside, so that the contract can be run on ADK's
services alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import ListSessionsResponse

from tests.contracts.cases import RACES, ExtraSessions, Opener, SessionCase
from tests.support.servers import RUNNING


class BlockingTwin(ExtraSessions):
    """The `.sync` twin of a service behind the async interface, one thread a call."""

    def __init__(self, service: Any) -> None:
        self.lake = service.lake
        self._sync = service.sync

    async def create_session(self, **asked: Any) -> Session:
        return await asyncio.to_thread(self._sync.create_session, **asked)

    async def get_session(self, **asked: Any) -> Session | None:
        return await asyncio.to_thread(self._sync.get_session, **asked)

    async def list_sessions(self, **asked: Any) -> ListSessionsResponse:
        return await asyncio.to_thread(self._sync.list_sessions, **asked)

    async def delete_session(self, **asked: Any) -> None:
        await asyncio.to_thread(self._sync.delete_session, **asked)

    async def get_user_state(self, **asked: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self._sync.get_user_state, **asked)

    async def get_user_events(self, **asked: Any) -> list[Event]:
        return await asyncio.to_thread(self._sync.get_user_events, **asked)

    async def append_event(self, session: Session, event: Event) -> Event:
        return await asyncio.to_thread(self._sync.append_event, session, event)

    async def append_events(self, session: Session, events: Sequence[Event]) -> Any:
        return await asyncio.to_thread(self._sync.append_events, session, events)

    async def flush(self) -> None:
        await asyncio.to_thread(self._sync.flush)

    async def close(self) -> None:
        await asyncio.to_thread(self._sync.close)


def _service(
    url: str, storage_options: Mapping[str, Any] | None = None, **options: Any
) -> BaseSessionService:
    from lakestore import Lake, LakeSessionService

    return LakeSessionService(Lake.open(url, storage_options=storage_options), **options)


def _folder(folder: Path) -> BaseSessionService:
    return _service(str(folder / "lake"))


def _folder_by_turn(folder: Path) -> BaseSessionService:
    return _service(str(folder / "lake"), durability="turn")


def _memory(folder: Path) -> BaseSessionService:
    return _service(f"memory://{folder.name}", payload_threshold=0)


def _memory_by_turn(folder: Path) -> BaseSessionService:
    return _service(f"memory://{folder.name}", durability="turn", payload_threshold=0)


def _odd_folder(folder: Path) -> str:
    # R037 R001: the root is a path like any other, whatever characters it has.
    return str(folder / "o'brien's [lake] #1 100%")


def _sync(folder: Path) -> BaseSessionService:
    return BlockingTwin(_service(_odd_folder(folder)))


def _sync_by_turn(folder: Path) -> BaseSessionService:
    return BlockingTwin(_service(_odd_folder(folder), durability="turn"))


def _in_bucket(server: str, **options: Any) -> Opener:
    def opener(folder: Path) -> BaseSessionService:
        bucket = RUNNING[server]
        # A folder of pytest's is its test's alone, and named after it.
        return _service(bucket.at_key(folder.name), bucket.storage_options, **options)

    return opener


async def _close(service: Any) -> None:
    await service.close()
    service.lake.close()


def _input_error() -> type[Exception]:
    from lakestore.errors import InputError

    return InputError


def _case(
    name: str, opener: Opener, by_turn: Opener, *, blocking: bool, **more: Any
) -> SessionCase:
    return SessionCase(
        name=name,
        open=opener,
        reopen=opener,
        turn=by_turn,
        close=_close,
        refusal=_input_error,
        extras=True,
        blocking=blocking,
        **more,
    )


def _bucket_case(
    name: str, server: str, payload_threshold: int | None = None, **more: Any
) -> SessionCase:
    opener = _in_bucket(server, payload_threshold=payload_threshold)
    by_turn = _in_bucket(server, durability="turn", payload_threshold=payload_threshold)
    return _case(name, opener, by_turn, blocking=True, server=server, **more)


LAKE_CASES = [
    _case("lake-folder", _folder, _folder_by_turn, blocking=True),
    # Where it is 0 all inline bytes are moved out of events, and no rule is another one.
    _case("lake-memory", _memory, _memory_by_turn, blocking=True),
    # What the others await; so the rest of it is `make test-slow`'s, too.
    _case("lake-sync", _sync, _sync_by_turn, blocking=False, parts=RACES),
    # On buckets, in `make test`, what races and lost replies decide; the rest in `make test-slow`.
    _bucket_case("lake-s3", "moto", parts=RACES),
    _bucket_case("lake-seaweedfs", "seaweedfs", parts=RACES),
    _bucket_case("lake-gs", "fake_gcs", payload_threshold=0, parts=RACES),
    _bucket_case("lake-ceph", "ceph", parts=RACES, marker="ceph"),
]
