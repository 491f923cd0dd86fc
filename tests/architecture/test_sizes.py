"""Small and flat: budgets for files and functions, and no code in `__init__.py`."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "lakestore").rglob("*.py"))
PACKAGES = [path for path in FILES if path.name == "__init__.py"]

MAX_FILE_LINES = 400
MAX_MEDIAN_FILE_LINES = 200
MAX_FUNCTION_LINES = 40

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _docstring_lines(function: Function) -> int:
    if ast.get_docstring(function) is None:
        return 0
    docstring = function.body[0]
    return (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1


def _code_lines(function: Function) -> int:
    """Lines from `def` to the end; a docstring is free, so that nobody saves on it."""
    span = (function.end_lineno or function.lineno) - function.lineno + 1
    return span - _docstring_lines(function)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _may_stand_in_init(node: ast.stmt) -> bool:
    """Say whether `node` is one of the few things that an `__init__.py` is for."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            # `__all__`, `__version__`, and the table that a lazy `__getattr__` reads.
            return name.startswith("_")
        case ast.FunctionDef(name=name):
            return name in {"__getattr__", "__dir__"}
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return all(map(_is_import, body))
    return False


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_file_is_short(path: Path) -> None:
    """No file has more than 400 lines."""
    assert _lines(path) <= MAX_FILE_LINES


def test_most_files_are_shorter() -> None:
    """Half of the files have at most 200 lines."""
    assert statistics.median(map(_lines, FILES)) <= MAX_MEDIAN_FILE_LINES


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_function_is_short(path: Path) -> None:
    """No function has more than 40 lines, its docstring not counted."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = {
        f"{function.name}, line {function.lineno}": _code_lines(function)
        for function in _functions(tree)
        if _code_lines(function) > MAX_FUNCTION_LINES
    }
    assert long == {}


@pytest.mark.parametrize("path", PACKAGES, ids=_name)
def test_init_holds_no_code(path: Path) -> None:
    """An `__init__.py` imports and names what its package offers, and does nothing else."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    code = [ast.unparse(node) for node in tree.body if not _may_stand_in_init(node)]
    assert code == []
