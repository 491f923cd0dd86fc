"""The memory contract, run on ADK's service and on ours.

Owns which case meets which test, and the fixtures. Rules are in `memory_contract`, services and
their differences in `memory_cases`; the README has them as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService

from tests.contracts.cases import parametrize, unknown_differences
from tests.contracts.memory_cases import MEMORY_CASES, MemoryCase
from tests.contracts.memory_contract import PARTS, MemoryContract
from tests.contracts.session_contract_stale import time_zone

__all__ = ["TestMemoryContract", "time_zone"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the cases that have what it needs."""
    parametrize(metafunc, MEMORY_CASES)


@pytest.fixture
def memories(case: MemoryCase, tmp_path: Path) -> Iterator[BaseMemoryService]:
    """The service under test, over storage of its own."""
    with ExitStack() as stack:
        yield case.open(tmp_path, stack)


@pytest.fixture
def elsewhere(
    case: MemoryCase, memories: BaseMemoryService, tmp_path: Path
) -> Iterator[BaseMemoryService]:
    """The same storage as another process sees it."""
    with ExitStack() as stack:
        yield case.open(tmp_path, stack) if case.reopens else memories


@pytest.fixture
def refusal(case: MemoryCase) -> type[Exception]:
    """The error with which the service refuses what it cannot store."""
    return case.refusal()


class TestMemoryContract(MemoryContract):
    """Every rule on every service."""


RULES = {name: rule for part in PARTS for name, rule in vars(part).items() if "test_" in name}


def test_no_rule_hides_another() -> None:
    """Each part names what is in it differently, so that gathering the parts loses nothing."""
    names = [name for part in PARTS for name in vars(part) if not name.startswith("__")]

    assert sorted(names) == sorted(RULES)


def test_every_difference_names_a_rule(case: MemoryCase) -> None:
    """An exemption whose test is gone, or does not run on that case, is gone too."""
    assert unknown_differences(case, RULES) == set()
