"""The artifact contract, run on ADK's services and on ours.

Owns which case meets which test, and the fixtures. Rules are in `artifact_contract`, services and
their differences in `artifact_cases`; the README has them as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService

from tests.contracts.artifact_cases import ARTIFACT_CASES, ArtifactCase
from tests.contracts.artifact_contract import PARTS, ArtifactContract
from tests.contracts.cases import parametrize, unknown_differences

__all__ = ["TestArtifactContract"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the cases that have what it needs."""
    parametrize(metafunc, ARTIFACT_CASES)


@pytest.fixture
def artifacts(case: ArtifactCase, tmp_path: Path) -> Iterator[BaseArtifactService]:
    """The service under test, over storage of its own."""
    with ExitStack() as stack:
        yield case.open(tmp_path, stack)


@pytest.fixture
def elsewhere(
    case: ArtifactCase, artifacts: BaseArtifactService, tmp_path: Path
) -> Iterator[BaseArtifactService]:
    """The same storage as another process sees it."""
    with ExitStack() as stack:
        yield case.open(tmp_path, stack) if case.reopens else artifacts


@pytest.fixture
def refusal(case: ArtifactCase) -> type[Exception]:
    """The error with which the service refuses what it cannot store."""
    return case.refusal()


class TestArtifactContract(ArtifactContract):
    """Every rule on every service."""


RULES = {name: rule for part in PARTS for name, rule in vars(part).items() if "test_" in name}


def test_no_rule_hides_another() -> None:
    """Each part names what is in it differently, so that gathering the parts loses nothing."""
    names = [name for part in PARTS for name in vars(part) if not name.startswith("__")]

    assert sorted(names) == sorted(RULES)


def test_every_difference_names_a_rule(case: ArtifactCase) -> None:
    """An exemption whose test is gone, or does not run on that case, is gone too."""
    assert unknown_differences(case, RULES) == set()
