"""Every key is spelled in one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "lakestore"
KEYS = PACKAGE / "log" / "keys.py"
# These write files for people (services.yaml, exports), which are no part of a lake.
SHOWN_TO_PEOPLE = {"cli.py", "demo", "shell"}
FILES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path != KEYS and path.relative_to(PACKAGE).parts[0] not in SHOWN_TO_PEOPLE
)

_OBJECT_NAME = re.compile(r"\.(parquet|json)\b")
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Find every string that stands alone as a statement: docstrings, also those of fields."""
    for node in ast.walk(tree):
        if isinstance(node, _Documented):
            yield from (child.value for child in node.body if isinstance(child, ast.Expr))


def _spelled(source: str) -> list[str]:
    """Find the literals in `source`, parts of f-strings too, that spell an object's name."""
    tree = ast.parse(source)
    free = {id(node) for node in _docstrings(tree)}
    return [
        f"line {node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in free
        and _OBJECT_NAME.search(node.value)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_keys_spells_the_names_of_objects(path: Path) -> None:
    """No module but log/keys.py holds a literal with `.parquet` or `.json` in it."""
    assert _spelled(path.read_text(encoding="utf-8")) == []


def test_keys_does_spell_them() -> None:
    """The names are where this test says they are: it would find them there."""
    assert _spelled(KEYS.read_text(encoding="utf-8")) != []


def test_a_name_in_an_f_string_is_found() -> None:
    """The usual way to spell a key is an f-string, and a docstring may talk about it."""
    source = 'def key(n):\n    """Name `n.parquet`."""\n    return f"{n:020}.parquet"\n'
    assert _spelled(source) == ["line 3: '.parquet'"]
