"""A process is killed at every request, and at every system call, of a write.

Elsewhere, then: what it had acknowledged is stored, the rest at most once; a reader needs no
repair; whoever writes next heals the shared state; a second delivery is taken once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from tests.support.processes import elsewhere
from tests.support.session_writers import reload, said

if not hasattr(os, "fork"):
    pytest.skip("only POSIX has processes that can be killed so", allow_module_level=True)

from tests.support.crashing import (
    DELTA,
    SESSION,
    USER,
    Death,
    Step,
    Where,
    begin,
    run_and_kill,
    step,
    stored,
)

OLD: dict[str, Any] = dict.fromkeys(DELTA, 0)
MOST_PLACES = 60
APPENDS: dict[Step, list[str]] = {
    "append": ["new"],
    "append without marker": ["new"],
    "append three": ["new", "new 2", "new 3"],
}
PLACES: list[Where] = ["before", "after", "in a system call"]

Check = Callable[[str, Session, Death], None]


def _each(*steps: Step) -> Iterator[Any]:
    """Yield each step with each place; many system calls of one kind of write are enough."""
    for what in steps:
        for where in PLACES:
            slow = where == "in a system call" and what != "append"
            yield pytest.param(what, where, marks=[pytest.mark.slow] if slow else [])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SyncSessionService]:
    """A service that was there before the others died, and lives on."""
    with Lake.open(tmp_path) as lake:
        yield LakeSessionService(lake).sync


def for_each_death(service: SyncSessionService, what: Step, where: Where, check: Check) -> int:
    """Kill a process at the first place, the second and so on, each in an app of its own.

    Returns how many places there are: the first process that lives on has passed them all.
    """
    folder = service.lake.url
    for nth in range(1, MOST_PLACES):
        app = f"app {nth}"
        early = begin(service, app)
        death = elsewhere(run_and_kill, folder, app, what, where, nth)
        check(app, early, death)
        if not death.killed:
            assert death.acknowledged
            return nth - 1
    raise AssertionError(f"more than {MOST_PLACES} places to die at")


def check_append(service: SyncSessionService, what: Step, early: Session, death: Death) -> None:
    """The events are there all or not at all, with all or nothing of what they set."""
    app, new = early.app_name, APPENDS[what]
    seen = stored(service.lake.url, app)
    assert seen is not None
    events = [event.id for event in seen.events]
    assert events == ["first", *new] or (events == ["first"] and not death.acknowledged)
    assert seen.state == (DELTA if "new" in events else OLD)
    # The same events again: from one who was there before the death, and from one who came after.
    again: Step = "append three" if what == "append three" else "append"
    for session in (early, reload(service, early)):
        step(service, session, again)
        check_agreement(service, session, ["first", *new])
    service.append_event(early, said("next"))
    check_files(service.lake.url, app)


def check_agreement(service: SyncSessionService, session: Session, events: list[str]) -> None:
    """Session, handle, and shared state as others see it, agree with the events."""
    found, app = reload(service, session), session.app_name
    assert [event.id for event in found.events] == events
    assert [event.id for event in session.events] == events
    assert found.state == session.state == DELTA
    assert service.get_user_state(app_name=app, user_id=USER) == {"k": 1}
    assert service.create_session(app_name=app, user_id="someone").state == {"app:k": 1}


def check_files(folder: str, app: str) -> None:
    """Versions are dense, and nothing but whole objects is where readers look."""
    log = Path(folder, "events/log", f"app={app.replace(' ', '%20')}", f"user={USER}")
    versions = sorted(int(path.stem) for path in (log / f"session={SESSION}").iterdir())
    assert versions == list(range(1, len(versions) + 1))
    assert all(path.stat().st_size for path in log.rglob("*.parquet"))


@pytest.mark.parametrize(("what", "where"), [*_each(*APPENDS)])
def test_append(service: SyncSessionService, what: Step, where: Where) -> None:
    """Killed anywhere in an append, a process leaves its events whole or none of them."""

    def check(_: str, early: Session, death: Death) -> None:
        check_append(service, what, early, death)

    # A commit, and an entry for each of two shared scopes.
    assert for_each_death(service, what, where, check) >= 3


def test_half_a_write(service: SyncSessionService) -> None:
    """A file that was cut in the middle of a write is never seen, and does no harm."""
    early = begin(service, "app")
    # The first call writes a part, the second would write the rest.
    death = elsewhere(run_and_kill, service.lake.url, "app", "append", "in half a write", 2)

    assert death == Death(killed=True, acknowledged=False)
    left = [path.stat().st_size for path in Path(service.lake.url, ".tmp").iterdir()]
    assert left == [700]
    check_append(service, "append", early, death)


@pytest.mark.parametrize(("what", "where"), [*_each("create")])
def test_create(service: SyncSessionService, what: Step, where: Where) -> None:
    """Killed in a creation, a process leaves the session with its whole state, or none."""

    def check(app: str, early: Session, death: Death) -> None:
        seen = stored(service.lake.url, app, "new")
        assert seen is None or seen.state == DELTA
        assert seen is not None or not death.acknowledged
        if seen is None:
            step(service, early, "create")
        else:
            with pytest.raises(AlreadyExistsError):
                step(service, early, "create")
        assert service.get_user_state(app_name=app, user_id=USER) == {"k": 1}
        found = stored(service.lake.url, app, "new")
        assert found is not None
        assert found.state == DELTA

    assert for_each_death(service, what, where, check) >= 3


@pytest.mark.parametrize(("what", "where"), [*_each("delete")])
def test_delete(service: SyncSessionService, what: Step, where: Where) -> None:
    """Killed in a deletion, a process leaves the session as it was, or gone."""

    def check(app: str, _: Session, death: Death) -> None:
        seen = stored(service.lake.url, app)
        assert seen is None or not death.acknowledged
        assert seen is None or [event.id for event in seen.events] == ["first"]
        service.delete_session(app_name=app, user_id=USER, session_id=SESSION)
        again = service.create_session(app_name=app, user_id=USER, session_id=SESSION)
        assert again.events == []
        assert again.state == {"user:k": 0, "app:k": 0}

    assert for_each_death(service, what, where, check) >= 1
