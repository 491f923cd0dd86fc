"""A lake in a folder on a clock that stands still: the machine does not decide what is warm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.storage import LocalStore
from tests.support.clocks import ManualClock

OpenService = Callable[..., LakeSessionService]


@pytest.fixture
def clock() -> ManualClock:
    """The clock of every lake that the test opens."""
    return ManualClock()


@pytest.fixture
def open_service(tmp_path: Path, clock: ManualClock) -> Iterator[OpenService]:
    """Open one more service on the test's lake, with nothing known from the others."""
    with ExitStack() as lakes:

        def opened(durability: Literal["append", "turn"] = "append") -> LakeSessionService:
            lake = Lake(LocalStore(tmp_path / "lake"), clock=clock)
            return LakeSessionService(lakes.enter_context(lake), durability=durability)

        yield opened


@pytest.fixture
def service(open_service: OpenService) -> LakeSessionService:
    """Return a service on a new lake."""
    return open_service()
