"""Services on one lake, as processes that know nothing of each other would open them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakestore import Lake, LakeSessionService
from tests.adk.running import OpenService
from tests.support.shop import Shop


@pytest.fixture(params=["folder", "memory"])
async def open_service(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[OpenService]:
    """Open one more service on the test's lake, with nothing known from the others."""
    url = str(tmp_path / "lake") if request.param == "folder" else f"memory://{uuid4()}"
    with contextlib.ExitStack() as lakes:

        def opened(**options: Any) -> LakeSessionService:
            return LakeSessionService(lakes.enter_context(Lake.open(url)), **options)

        yield opened


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """A shop in memory."""
    made = await Shop().begin()
    with made.lake:
        yield made
