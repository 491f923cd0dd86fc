"""What lakestore imports, what it declares, and the lower ends that `make lowest` tests."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

# One folder that many distributions fill: google.adk is declared, and brings google.genai, whose
# types are part of its interface.
_NAMESPACES = {"google"}
# pydantic names the one pydantic_core that it works with, so a range of our own could only clash.
_PARTS = {"pydantic_core": "pydantic"}


def _declared() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # An extra for users is a dependency with a range like any other.
    extras = project["optional-dependencies"]
    for_users = ("obstore", "dask", "report", "notebook")
    lines = [*project["dependencies"], *(line for name in for_users for line in extras[name])]
    return {canonicalize_name(req.name): req for req in map(Requirement, lines)}


def _lowest() -> dict[str, Version]:
    lines = (ROOT / "tests" / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pins}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _foreign() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "lakestore").rglob("*.py"))
    found = {name.split(".")[0] for source in sources for name in _imported(ast.parse(source))}
    names = {_PARTS.get(name, name) for name in found}
    return names - sys.stdlib_module_names - {"lakestore"} - _NAMESPACES


def test_what_is_imported_is_declared() -> None:
    """Whatever lakestore imports is its own dependency, not one that another happens to bring."""
    brought_by = packages_distributions()
    undeclared = {
        name: brought_by.get(name, [])
        for name in _foreign()
        if _declared().keys().isdisjoint(map(canonicalize_name, brought_by.get(name, [])))
    }
    assert undeclared == {}


def test_the_lower_ends_are_those_tested() -> None:
    """Each dependency has a lower end, and it is the version that `make lowest` installs."""
    lower_ends = {
        name: Version(found[1])
        for name, requirement in _declared().items()
        if (found := re.search(r">=([\d.]+)", str(requirement.specifier)))
    }
    assert lower_ends == _lowest()
