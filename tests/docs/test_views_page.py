"""VIEWS.md says what the views are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.catalog import VIEWS
from lakestore.storage import MemoryStore

_PAGE = (Path(__file__).parents[2] / "VIEWS.md").read_text("utf-8")


def section(name: str) -> str:
    """Return what stands below a view's heading."""
    return _PAGE.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("name", VIEWS)
def test_each_column_is_on_the_page(name: str) -> None:
    """Names, types and meanings are those of the comments in SQL, in their order."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", section(name), re.MULTILINE)
    assert rows == [(column, *told) for column, told in VIEWS[name].columns.items()]
    assert VIEWS[name].meaning.lower() in section(name).lower()


def test_the_examples_run() -> None:
    """The Python on the page works as it stands."""
    examples = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    assert examples
    with Lake(MemoryStore()) as lake:
        for example in examples:
            exec(example, {"lake": lake})


@pytest.mark.parametrize("condition", re.findall(r"`(\w+ where [^`]+)`", _PAGE))
def test_the_conditions_are_sql(condition: str) -> None:
    """What the page says to ask can be asked."""
    with Lake(MemoryStore()) as lake:
        assert lake.sql(f"from {condition}").fetchall() == []
