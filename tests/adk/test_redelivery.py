"""Events that are sent again beside others: all of a batch counts, or none of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.adk.uris import Durability

IDS: Any = {"app_name": "a", "user_id": "u", "session_id": "s"}


def said(event_id: str, text: str) -> Event:
    """Return an agent's answer, which ends a turn."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(id=event_id, author="agent", timestamp=float(ord(event_id[-1])), content=content)


@pytest.fixture(params=["append", "turn"])
def service(request: pytest.FixtureRequest) -> Iterator[SyncSessionService]:
    """A service on an empty lake."""
    durability: Durability = request.param
    with Lake.open(f"memory://{request.node.name}") as lake:
        yield LakeSessionService(lake, durability=durability).sync


def load(service: SyncSessionService, config: GetSessionConfig | None = None) -> Session:
    """Return a new handle."""
    found = service.get_session(**IDS, config=config)
    assert found is not None
    return found


def texts(session: Session) -> list[str | None]:
    """Return what was said."""
    return [e.content.parts[0].text for e in session.events if e.content and e.content.parts]


def refuses(service: SyncSessionService, session: Session, *events: Event) -> type[Exception]:
    """Append, and return the error, sure that the handle is as it was."""
    before = session.model_copy(deep=True)
    with pytest.raises((AlreadyExistsError, StaleSessionError)) as refusal:
        service.append_events(session, list(events))
    assert session == before
    return refusal.type


def test_one_stands_and_one_reuses_an_id(service: SyncSessionService) -> None:
    """In a handle that shows both, the batch is refused whole."""
    session = service.create_session(**IDS)
    service.append_events(session, [said("e1", "one"), said("e2", "two")])
    batch = (said("e1", "one"), said("e2", "other"), said("e3", "three"))
    assert refuses(service, session, *batch) is AlreadyExistsError
    assert texts(load(service)) == ["one", "two"]


def test_the_same_in_a_commit_that_the_handle_has_not_seen(service: SyncSessionService) -> None:
    """Found when the commit is refused, the batch is refused whole, and again."""
    session = service.create_session(**IDS)
    behind = load(service)
    service.append_events(session, [said("e1", "one"), said("e2", "two")])
    batch = (said("e1", "one"), said("e2", "other"), said("e3", "three"))
    for _ in range(2):
        assert refuses(service, behind, *batch) is AlreadyExistsError
    assert texts(load(service)) == ["one", "two"]
    service.append_events(behind, [said("e1", "one"), said("e3", "three")])
    assert texts(behind) == texts(load(service)) == ["one", "two", "three"]


def test_the_same_in_two_such_commits(service: SyncSessionService) -> None:
    """The handle is stale, and nothing was written."""
    session = service.create_session(**IDS)
    behind = load(service)
    service.append_event(session, said("e1", "one"))
    service.append_event(session, said("e2", "two"))
    batch = (said("e1", "one"), said("e2", "other"))
    assert refuses(service, behind, *batch) is StaleSessionError
    assert texts(load(service)) == ["one", "two"]


def test_an_id_twice_in_one_batch(service: SyncSessionService) -> None:
    """An equal event counts once, another one refuses the batch."""
    session = service.create_session(**IDS)
    assert refuses(service, session, said("e1", "one"), said("e1", "other")) is AlreadyExistsError
    service.append_events(session, [said("e1", "one"), said("e1", "one")])
    assert texts(session) == texts(load(service)) == ["one"]


@pytest.mark.parametrize("rolled", [False, True], ids=["commit", "rollup"])
def test_a_handle_without_events_gets_the_last_ones_again(
    service: SyncSessionService, rolled: bool
) -> None:
    """What the last commit holds counts once, and what is new beside it is appended."""
    session = service.create_session(**IDS)
    service.append_event(session, said("e1", "one"))
    service.append_event(session, said("e2", "two"))
    if rolled:
        (key,) = service.lake.sessions.find("s")
        service.lake.sessions.roll_up(key, force=True)
    behind = load(service, GetSessionConfig(num_recent_events=0))
    service.append_event(behind, said("e2", "two"))
    service.append_events(behind, [said("e2", "two"), said("e3", "three")])
    assert texts(behind) == ["two", "three"]
    assert texts(load(service)) == ["one", "two", "three"]
