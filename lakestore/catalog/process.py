"""What DuckDB must know of its process: that it was forked, and where large queries may spill."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from functools import cache
from multiprocessing.util import Finalize

import duckdb

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Built-in extensions are enough; nothing is ever fetched from the network unasked.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

_NEAR = {"async_threads": 1, "parquet_prefetch_column_gap": 16_384}
_FAR = {"async_threads": 16}


def reading(*, near: bool) -> dict[str, int | bool]:
    """Return how DuckDB reads objects of a store, as settings.

    Each read takes Python's lock for a moment, so of a near store one thread reads ahead, and what
    a query needs alone; of a far one many requests are under way, as large as DuckDB sees fit.
    """
    return {"parquet_metadata_cache": True, **(_NEAR if near else _FAR)}


def let_go(
    connections: list[duckdb.DuckDBPyConnection],
    handed: list[weakref.ref[duckdb.DuckDBPyConnection]],
    pid: int,
) -> None:
    """Keep a forked process from destroying what it inherited.

    DuckDB's threads stayed with the parent, and the destructor would wait for them for ever. So
    the objects get a reference that nobody ever drops.
    """
    if os.getpid() != pid:
        others = [connection for reference in handed if (connection := reference()) is not None]
        for connection in (*connections, *others):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


@dataclass(frozen=True, slots=True)
class Memory:
    """What a database may take."""

    limit: str | None = None
    """As DuckDB spells it, such as `512MB`; None for DuckDB's own."""
    spills: bool = True
    """Whether large queries may go on in a folder of this process. DuckDB lets SQL that is guarded
    read and write in there, too."""

    def settings(self, number: int) -> dict[str, str]:
        """Return how DuckDB is told; `number` tells databases of one process apart."""
        folder = f"{scratch()}/{number}" if self.spills else ""
        return {
            "temp_directory": folder,
            **({} if self.limit is None else {"memory_limit": self.limit}),
        }


DEFAULT_MEMORY = Memory()


def scratch() -> str:
    """Return a folder of this process, for no one else to read, where large queries may spill.

    DuckDB's own choice is `.tmp` in the working directory, readable by all.
    """
    return _private_folder(os.getpid())


@cache
def _private_folder(_pid: int) -> str:
    folder = tempfile.mkdtemp(prefix="lakestore-")
    # Unlike atexit's, it also runs where a child of multiprocessing ends, and never in a fork.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder
