"""The error tree: its shape, which builtins its members also are, and the drawing of it."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator

import pytest

from lakestore import errors

TREE = {
    "LakeError": None,
    "ConflictError": "LakeError",
    "NotFoundError": "LakeError",
    "AlreadyExistsError": "LakeError",
    "InputError": "LakeError",
    "ReadOnlyError": "LakeError",
    "FormatError": "LakeError",
    "StorageError": "LakeError",
    "UnsupportedStoreError": "StorageError",
    "UnknownOutcomeError": "StorageError",
}
"""Each error and the one it stands under."""

ALSO = {"NotFoundError": KeyError, "InputError": ValueError, "ReadOnlyError": PermissionError}
"""The builtin that a caller who knows nothing of lakestore would expect."""

_BRANCH = re.compile(r"^(?P<lines>[ │├└─]*)(?P<name>\w+Error)\b(?P<says>.*)$")


def _defined() -> dict[str, type[Exception]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


def _parent(cls: type[Exception]) -> str | None:
    return next(
        (base.__name__ for base in cls.__bases__ if issubclass(base, errors.LakeError)), None
    )


def _branches() -> Iterator[re.Match[str]]:
    """Find the docstring's lines that draw a class, from the root to the end of the drawing."""
    lines = (_BRANCH.match(line) for line in (errors.__doc__ or "").splitlines())
    return (line for line in lines if line)


def _drawn() -> dict[str, str | None]:
    """Read the tree back from the drawing: a name's parent is the last one further left."""
    tree: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for branch in _branches():
        column, name = branch.start("name"), branch["name"]
        path = [step for step in path if step[0] < column]
        tree[name] = path[-1][1] if path else None
        path.append((column, name))
    return tree


def test_the_tree() -> None:
    """The errors are these, each under the one that says what its caller does next."""
    assert {name: _parent(cls) for name, cls in _defined().items()} == TREE


@pytest.mark.parametrize("name", TREE)
def test_what_else_an_error_is(name: str) -> None:
    """An error is also the builtin that a caller would expect, and no other one."""
    foreign = [
        base
        for base in _defined()[name].__bases__
        if base.__module__ == builtins.__name__ and base is not Exception
    ]
    assert foreign == ([ALSO[name]] if name in ALSO else [])


def test_the_drawing_is_the_tree() -> None:
    """The module's docstring draws exactly the tree that the classes make."""
    assert _drawn() == TREE


def test_the_drawing_names_the_builtins() -> None:
    """The drawing says of which errors a builtin's handler catches them too."""
    says = {
        branch["name"]: also[1]
        for branch in _branches()
        if (also := re.search(r"\(also an? (\w+)\)", branch["says"]))
    }
    assert says == {name: builtin.__name__ for name, builtin in ALSO.items()}


@pytest.mark.parametrize("name", TREE)
def test_a_message_reads_as_it_was_written(name: str) -> None:
    """`str()` of an error is its message, also where a builtin would quote it."""
    assert str(_defined()[name]("no such session. id='s1'")) == "no such session. id='s1'"
