"""How DuckDB reads packs here: at once, since it does so in threads of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import TypeVar
from unittest.mock import patch

from lakestore.storage.files import StoreFiles
from lakestore.storage.range_file import RangeFile

R = TypeVar("R")

_here = local()


def is_at_once() -> bool:
    """Tell whether this thread asks for something in the middle of a query."""
    return getattr(_here, "scans", False)


@contextmanager
def scanning() -> Iterator[None]:
    """Let scans of objects take no time, in whatever thread, so that a seed is one history."""
    with (
        patch.object(RangeFile, "read", _at_once(RangeFile.read)),
        patch.object(StoreFiles, "size", _at_once(StoreFiles.size)),
    ):
        yield


def _at_once(call: Callable[..., R]) -> Callable[..., R]:
    def around(*args: object, **named: object) -> R:
        _here.scans = True
        try:
            return call(*args, **named)
        finally:
            _here.scans = False

    return around
