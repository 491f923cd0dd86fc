"""What all contracts of services share: exemptions, servers.

Rules stand outside test modules; a `case` is one service.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.cases import Case


@pytest.fixture(autouse=True)
def _difference(request: pytest.FixtureRequest) -> None:
    """Expect the failure where the case says that it does not keep the rule."""
    if "case" in request.fixturenames:
        case: Case = request.getfixturevalue("case")
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
