"""A lake to run commands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestore import Lake
from tests.support.sites import Work


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A lake with some work in it."""
    folder = str(tmp_path / "lake")
    with Lake.open(folder) as lake:
        Work(lake).some(40)
    return folder
