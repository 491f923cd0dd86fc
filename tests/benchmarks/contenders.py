"""Who is measured: our service and two of ADK's, each on files in the folder it is given.

Owns how they are opened and closed, and the facts about them that a reader of figures needs.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from lakestore import Lake, LakeSessionService
from tests.benchmarks.measuring import DATABASE, OURS, SQLITE


@dataclass(frozen=True, slots=True)
class Contender:
    """One session service."""

    name: str
    open: Callable[[Path], BaseSessionService]
    """Opens it on what is stored in that folder, if anything is."""
    close: Callable[[Any], Awaitable[None]]


def open_lake(folder: Path, **options: Any) -> LakeSessionService:
    """Return our service on the lake in `folder`."""
    return LakeSessionService(Lake.open(folder / "lake"), **options)


async def close_lake(service: LakeSessionService) -> None:
    """Close our service and its lake."""
    await service.close()
    service.lake.close()


def _open_sqlite(folder: Path) -> BaseSessionService:
    return SqliteSessionService(str(folder / "sqlite.db"))


def _open_database(folder: Path) -> BaseSessionService:
    return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}")


async def _close_peer(service: SqliteSessionService | DatabaseSessionService) -> None:
    await service.close()


CONTENDERS = {
    each.name: each
    for each in (
        Contender(OURS, open_lake, close_lake),
        Contender(SQLITE, _open_sqlite, _close_peer),
        Contender(DATABASE, _open_database, _close_peer),
    )
}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[dict[str, BaseSessionService]]:
    """Yield all services, by name, on what is stored in `folder`."""
    async with AsyncExitStack() as stack:
        services = {}
        for each in CONTENDERS.values():
            service = each.open(folder)
            stack.push_async_callback(each.close, service)
            services[each.name] = service
        yield services


def facts(folder: Path) -> dict[str, str]:
    """Return what the figures depend on besides the code."""
    names = ("google-adk", "pyarrow", "aiosqlite", "sqlalchemy")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "file system": _file_system(folder),
        **{name: version(name) for name in names},
        "sqlite": sqlite3.sqlite_version,
        "durability of the peers": _sqlite_durability(),
        "durability of lakestore": "fsync of every object and of its folder",
    }


def _sqlite_durability() -> str:
    """Return what SQLite does on its own: neither of ADK's services sets a PRAGMA for it."""
    with sqlite3.connect(":memory:") as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
    connection.close()
    named = ("OFF", "NORMAL", "FULL", "EXTRA")[level]
    return f"SQLite's default, synchronous={named} with a rollback journal; ADK sets neither"


def _file_system(folder: Path) -> str:
    """Return the type of the file system that `folder` is on, where the system tells."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    place = folder.resolve().as_posix() + "/"
    found = [(len(at), kind) for _, at, kind, *_ in lines if place.startswith(at.rstrip("/") + "/")]
    return max(found)[1] if found else "unknown"
