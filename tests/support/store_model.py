"""What a store should do, as a dictionary: the oracle of the store contract.

Shares no code with the package: ranges, order and prefixes are worked out here again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import strategies as st

from lakestore.errors import AlreadyExistsError, InputError, NotFoundError
from lakestore.storage import ObjectStore

_FOLDERS = st.lists(st.sampled_from(["a", "a-", "a.b", "a0", "b"]), max_size=2)
# With a dot and a digit no name is ever a folder too, which no local disk could hold.
_NAMES = st.sampled_from(["n.1", "n.2", "a.1", "~.1"])
_KEYS = st.builds(lambda folders, name: "/".join([*folders, name]), _FOLDERS, _NAMES)
_PIECES = st.text("ab-.0/n1~", max_size=5)


@dataclass(frozen=True, slots=True)
class Step:
    """One request."""

    kind: Literal["put", "get", "range", "size", "list", "delete"]
    key: str
    """The key, or the prefix of a listing."""
    body: bytes = b""
    start: int = 0
    length: int = 0
    after: str = ""


def steps() -> st.SearchStrategy[Step]:
    """Generate a request."""
    prefixes = _KEYS | _PIECES
    return st.one_of(
        st.builds(Step, st.just("put"), _KEYS, st.binary(max_size=12)),
        st.builds(Step, st.sampled_from(["get", "size", "delete"]), _KEYS),
        st.builds(
            Step,
            st.just("range"),
            _KEYS,
            start=st.integers(-1, 14),
            length=st.integers(-1, 14),
        ),
        st.builds(Step, st.just("list"), prefixes, after=prefixes),
    )


def check_steps(store: ObjectStore, root: str, steps: list[Step]) -> None:
    """Send each step to the store, below `root`, and compare with a dictionary."""
    model: dict[str, bytes] = {}
    for step in steps:
        _CHECKS[step.kind](store, root, model, step)
    assert [stored.key for stored in store.list(root)] == sorted(root + key for key in model)


def _put(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    if not step.body:
        with pytest.raises(InputError):
            store.put_if_absent(root + step.key, step.body)
    elif step.key in model:
        with pytest.raises(AlreadyExistsError):
            store.put_if_absent(root + step.key, step.body)
    else:
        store.put_if_absent(root + step.key, step.body)
        model[step.key] = step.body


def _get(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    if step.key in model:
        assert store.get(root + step.key) == model[step.key]
    else:
        with pytest.raises(NotFoundError):
            store.get(root + step.key)


def _range(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    if step.start < 0 or step.length < 0:
        with pytest.raises(InputError):
            store.get_range(root + step.key, step.start, step.length)
    elif step.key in model:
        places = range(step.start, step.start + step.length)
        expected = [byte for i, byte in enumerate(model[step.key]) if i in places]
        assert [*store.get_range(root + step.key, step.start, step.length)] == expected
    else:
        with pytest.raises(NotFoundError):
            store.get_range(root + step.key, step.start, step.length)


def _size(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    if step.key in model:
        assert store.size(root + step.key) == len(model[step.key])
    else:
        with pytest.raises(NotFoundError):
            store.size(root + step.key)


def _delete(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    store.delete(root + step.key)
    model.pop(step.key, None)


def _list(store: ObjectStore, root: str, model: dict[str, bytes], step: Step) -> None:
    found = [*store.list(root + step.key, root + step.after)]
    below = sorted(key.encode() for key in model if key.find(step.key) == 0)
    expected = [(root.encode() + key) for key in below if key > step.after.encode()]
    assert [stored.key.encode() for stored in found] == expected
    sizes = {stored.key.removeprefix(root): stored.size for stored in found}
    assert sizes == {key: len(model[key]) for key in sizes}
    assert [*store.names(root + step.key, root + step.after)] == [stored.key for stored in found]


_CHECKS = {
    "put": _put,
    "get": _get,
    "range": _range,
    "size": _size,
    "list": _list,
    "delete": _delete,
}
