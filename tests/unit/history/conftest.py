"""A lake of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.histories import World


@pytest.fixture
def world() -> Iterator[World]:
    """One lake in memory, one clock."""
    with World() as made:
        yield made
