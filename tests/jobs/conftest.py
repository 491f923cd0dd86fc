"""A lake of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.archives import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """One lake in memory, one clock."""
    made = Site()
    yield made
    made.close()
