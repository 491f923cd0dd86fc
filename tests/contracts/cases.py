"""What a service must bring to be put through a contract, and a session service besides.

Owns the shape of a case: how a service is opened, how a second handle on the same storage is
made, what it can do, and where it differs from the contract and why. It does not own the cases
themselves (`cases_adk`, `cases_lake`) nor any rule (`session_contract`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import ListSessionsResponse

Opener = Callable[[Path], BaseSessionService]
Closer = Callable[[Any], Awaitable[None]]

RACES = ("stale", "retry", "turns")
"""The files of rules that races and lost replies decide, so that each storage may break them."""

# "did not raise" is an outcome of its own in pytest, no AssertionError.
FAILED_CHECK: tuple[type[BaseException], ...] = (AssertionError, pytest.fail.Exception)


@dataclass(frozen=True, slots=True)
class Difference:
    """One rule that a service does not keep; the test of it must fail, and in this way."""

    reason: str
    """What the service does instead, and why that is left or not followed."""
    raises: tuple[type[BaseException], ...] = FAILED_CHECK
    """What the test ends with."""


async def close_nothing(_service: BaseSessionService) -> None:
    """Close a service that holds nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A service under a contract."""

    name: str
    """How it is called in test ids."""
    refusal: Callable[[], type[Exception]] = lambda: ValueError
    """The error with which it refuses input; asked for late, as it may have to be imported."""
    extras: bool = False
    """Has what only lakestore has."""
    blocking: bool = False
    """Has a blocking twin, `.sync`."""
    server: str = ""
    """The fixture of the server that must run; empty where none is needed."""
    marker: str = ""
    """What every run of it is marked with; empty where it needs nothing that may be missing."""
    parts: tuple[str, ...] = ()
    """The files of rules that every run puts it through; the others are slow. None: all of them."""
    differs: Mapping[str, Difference] = field(default_factory=dict)
    """The rules it does not keep, by test name, or by test name and variant: `test_x[blank]`."""

    def has(self, capability: str) -> bool:
        """Say whether the field of that name says yes."""
        return bool(getattr(self, capability))

    def marks(self, rule: Callable[..., object]) -> list[pytest.MarkDecorator]:
        """Return what this service's run of the rule is marked with."""
        part = rule.__module__.rpartition("_contract_")[2]
        slow = [pytest.mark.slow] if self.parts and part not in self.parts else []
        return [*slow, *([getattr(pytest.mark, self.marker)] if self.marker else [])]

    def difference(self, test: str, variant: str) -> Difference | None:
        """Return how this service differs in that variant of that test."""
        return self.differs.get(f"{test}[{variant}]", self.differs.get(test))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCase(Case):
    """A session service under the contract."""

    open: Opener
    """Opens a fresh service in an empty folder."""
    reopen: Opener | None = None
    """Opens a second, independent handle on the storage in that folder; None where the storage is
    the service object itself."""
    turn: Opener | None = None
    """Opens that storage with `durability="turn"`."""
    close: Closer = close_nothing
    """Ends a service that one of the three opened."""
    guards_stale: bool = True
    """Refuses an append through a handle that another append has overtaken."""
    guards_races: bool = True
    """Does so even when both appends run at the same time."""

    @asynccontextmanager
    async def opened(self, opener: Opener, folder: Path) -> AsyncIterator[BaseSessionService]:
        """Yield what `opener` opens, and close it."""
        service = opener(folder)
        try:
            yield service
        finally:
            await self.close(service)

    @asynccontextmanager
    async def elsewhere(
        self, service: BaseSessionService, folder: Path
    ) -> AsyncIterator[BaseSessionService]:
        """Yield the storage as another process sees it: `service` where there is no other way."""
        if self.reopen is None:
            yield service
            return
        async with self.opened(self.reopen, folder) as other:
            yield other


class ExtraSessions(BaseSessionService):
    """The interface of a service that has the extras."""

    @abstractmethod
    async def append_events(self, session: Session, events: Sequence[Event]) -> Any:
        """Append all events in one commit."""

    @abstractmethod
    async def get_user_events(
        self,
        *,
        app_name: str,
        user_id: str,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return the events of all the user's sessions."""

    @abstractmethod
    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> ListSessionsResponse:
        """Return a page of the sessions."""

    @abstractmethod
    async def close(self) -> None:
        """Write what is held and end the service."""


Target = TypeVar("Target", bound=Callable[..., Any])


def needs(*capabilities: str) -> Callable[[Target], Target]:
    """Mark a test, or all tests of a class, as for the cases that have all these capabilities."""

    def mark(target: Target) -> Target:
        tests = [each for name, each in vars(target).items() if name.startswith("test_")]
        for test in tests or [target]:
            vars(test)["needs"] = capabilities
        return target

    return mark


def needed_by(test: Callable[..., object]) -> tuple[str, ...]:
    """Return what `needs` marked on the test."""
    found: tuple[str, ...] = getattr(test, "needs", ())
    return found


def parametrize(metafunc: pytest.Metafunc, cases: Sequence[Case]) -> None:
    """Give a test that asks for a `case` those that have what it needs."""
    if "case" in metafunc.fixturenames:
        needed = needed_by(metafunc.function)
        able = [case for case in cases if all(case.has(each) for each in needed)]
        params = [
            pytest.param(case, id=case.name, marks=case.marks(metafunc.function)) for case in able
        ]
        metafunc.parametrize("case", params)


def unknown_differences(case: Case, rules: Mapping[str, Callable[..., object]]) -> set[str]:
    """Return the names of exempted tests that are gone, or do not run on that case."""
    named = {key.partition("[")[0] for key in case.differs}
    return named - {name for name, rule in rules.items() if all(map(case.has, needed_by(rule)))}
