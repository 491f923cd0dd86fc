"""The product with one of its rules removed, a rule at a time: what the simulator must find.

Each is a patch of private names, which is right here and nowhere else in these tests: a rule is
removed where it stands, and the simulator shows what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from lakestore.history.environment import Environment

Patches = Callable[[ExitStack], None]


@dataclass(frozen=True)
class Mutation:
    """A rule that is not kept."""

    name: str
    rule: str
    """What the product does, and the mutation does not."""
    put: Patches


MUTATIONS: dict[str, Mutation] = {}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run what is inside without one of the rules."""
    with ExitStack() as stack:
        MUTATIONS[name].put(stack)
        yield


def without(name: str, rule: str) -> Callable[[Patches], Patches]:
    """Give a name to the patches that remove `rule`."""

    def register(put: Patches) -> Patches:
        MUTATIONS[name] = Mutation(name, rule, put)
        return put

    return register


def set_(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Put `value` in the place of what `owner` has under `name`, until the stack is closed."""
    stack.enter_context(patch.object(owner, name, value))


class Within:
    """Which fibers are in a part of the product; others go on while they stand still in it."""

    def __init__(self) -> None:
        self._fibers: dict[greenlet, list[Any]] = {}

    @property
    def is_here(self) -> bool:
        return bool(self._fibers.get(getcurrent()))

    @property
    def value(self) -> Any:
        return self._fibers[getcurrent()][-1]

    @contextmanager
    def entered(self, value: Any = None) -> Iterator[None]:
        self._fibers.setdefault(getcurrent(), []).append(value)
        try:
            yield
        finally:
            self._fibers[getcurrent()].pop()


def ageless(stack: ExitStack, owner: type, method: str) -> None:
    """Let one method take no notice of time."""
    original, is_young, within = getattr(owner, method), Environment.is_young, Within()

    def around(self: Any, *args: Any, **named: Any) -> Any:
        with within.entered():
            return original(self, *args, **named)

    def young(self: Environment, seen: float | None) -> bool:
        return within.is_here or is_young(self, seen)

    set_(stack, owner, method, around)
    set_(stack, Environment, "is_young", young)


def ageless_generator(stack: ExitStack, owner: type, method: str) -> None:
    """The same for a method that yields."""
    original, is_young, within = getattr(owner, method), Environment.is_young, Within()

    def around(self: Any, *args: Any, **named: Any) -> Iterator[Any]:
        with within.entered():
            found = [*original(self, *args, **named)]
        yield from found

    def young(self: Environment, seen: float | None) -> bool:
        return within.is_here or is_young(self, seen)

    set_(stack, owner, method, around)
    set_(stack, Environment, "is_young", young)


@dataclass(frozen=True)
class OddLimits:
    """Limits that the product would refuse."""

    view_age: float
    grace: float
