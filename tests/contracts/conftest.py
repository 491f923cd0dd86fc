"""Asserts of the contracts' rules, which stand outside test modules, say what differed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "tests.contracts.building",
    *(f"tests.contracts.{path.stem}" for path in Path(__file__).parent.glob("*_contract_*.py")),
)
