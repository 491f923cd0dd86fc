"""The session contract, run on ADK's services and on ours.

Owns which case meets which test, and the fixtures. Rules are in `session_contract`, services and
their differences in `cases_adk` and `cases_lake`; the README has them as a table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.adk.sessions import BaseSessionService

from tests.contracts.cases import SessionCase, needed_by
from tests.contracts.cases_adk import ADK_CASES
from tests.contracts.cases_lake import LAKE_CASES
from tests.contracts.session_contract import PARTS, SessionContract
from tests.contracts.session_contract_stale import time_zone

__all__ = ["TestSessionContract", "time_zone"]

CASES = [*ADK_CASES, *LAKE_CASES]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the cases that have what it needs."""
    if "case" in metafunc.fixturenames:
        needed = needed_by(metafunc.function)
        able = [case for case in CASES if all(case.has(each) for each in needed)]
        params = [
            pytest.param(case, id=case.name, marks=case.marks(metafunc.function)) for case in able
        ]
        metafunc.parametrize("case", params)


@pytest.fixture(autouse=True)
def _difference(request: pytest.FixtureRequest) -> None:
    """Expect the failure where the case says that it does not keep the rule."""
    if "case" in request.fixturenames:
        case: SessionCase = request.getfixturevalue("case")
        test, _, variant = request.node.name.removesuffix("]").partition("[")
        variant = variant.replace(case.name, "", 1).strip("-")
        difference = case.difference(test, variant)
        if difference is not None:
            request.applymarker(
                pytest.mark.xfail(reason=difference.reason, raises=difference.raises, strict=True)
            )
            if not request.config.getoption("runxfail"):
                _tell_briefly(request.node, difference.raises)


def _tell_briefly(test: pytest.Item, expected: tuple[type[BaseException], ...]) -> None:
    """Draw no traceback of a failure that is expected: each would take a tenth of a second."""
    whole = test.repr_failure

    def brief(excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if excinfo.errisinstance(expected) else whole(excinfo, style)

    test.repr_failure = brief  # type: ignore[method-assign] # of this item alone


@pytest.fixture(autouse=True)
def _server(request: pytest.FixtureRequest) -> None:
    """Start the server that the case needs."""
    if "case" in request.fixturenames and request.getfixturevalue("case").server:
        request.getfixturevalue(request.getfixturevalue("case").server)


@pytest_asyncio.fixture
async def sessions(case: SessionCase, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    """The service under test, over storage of its own."""
    async with case.opened(case.open, tmp_path) as service:
        yield service


@pytest_asyncio.fixture
async def elsewhere(
    case: SessionCase, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[BaseSessionService]:
    """The same storage as another process sees it."""
    first = "turns" if "turns" in request.fixturenames else "sessions"
    async with case.elsewhere(request.getfixturevalue(first), tmp_path) as service:
        yield service


@pytest_asyncio.fixture
async def turns(case: SessionCase, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    """The service under test with `durability="turn"`."""
    assert case.turn is not None
    async with case.opened(case.turn, tmp_path) as service:
        yield service


@pytest.fixture
def refusal(case: SessionCase) -> type[Exception]:
    """The error with which the service refuses what it cannot store."""
    return case.refusal()


class TestSessionContract(SessionContract):
    """Every rule on every service."""


RULES = {name: rule for part in PARTS for name, rule in vars(part).items() if "test_" in name}


def test_no_rule_hides_another() -> None:
    """Each part names what is in it differently, so that gathering the parts loses nothing."""
    names = [name for part in PARTS for name in vars(part) if not name.startswith("__")]

    assert sorted(names) == sorted(RULES)


def test_every_difference_names_a_rule(case: SessionCase) -> None:
    """An exemption whose test is gone, or does not run on that case, is gone too."""
    named = {key.partition("[")[0] for key in case.differs}
    run = {name for name, rule in RULES.items() if all(map(case.has, needed_by(rule)))}

    assert named - run == set()
