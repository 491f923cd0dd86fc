"""Appends whose outcome the caller did not hear, tried again through the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.errors import UnknownOutcomeError
from lakestore.storage import MemoryStore
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth


def said(name: str) -> Event:
    """Return an event that counts in the state of all scopes."""
    words = types.Content(role="user", parts=[types.Part(text=name)])
    delta = {name: 1, f"user:{name}": 2, f"app:{name}": 3}
    return Event(
        id=name, author="user", content=words, actions=EventActions(state_delta=delta), timestamp=5
    )


@pytest.fixture
def inner() -> MemoryStore:
    """Return the store behind the one that loses replies."""
    return MemoryStore()


@pytest.fixture
def sessions(inner: MemoryStore) -> Iterator[SyncSessionService]:
    """Return a service whose second commit lands unheard, and cannot be read back."""
    lost = LostReplyStore(inner, Nth("put", holding="02.parquet"), "landed")
    with Lake(FailingStore(lost, Nth("get", holding="02.parquet"))) as lake:
        yield LakeSessionService(lake).sync


@pytest.mark.parametrize("parts", [["e1", "e2"], ["e2", "e1"], ["e1 e2"], ["e2 e1"], ["e1 e2 e3"]])
def test_a_batch_is_stored_once(
    sessions: SyncSessionService, inner: MemoryStore, parts: list[str]
) -> None:
    """A batch that landed unheard is stored once, however it is sent again (D1)."""
    session = sessions.create_session(app_name="app", user_id="ana", session_id="s")
    with pytest.raises(UnknownOutcomeError):
        sessions.append_events(session, [said("e1"), said("e2")])
    assert session.events == []
    assert session.state == {}

    for part in parts:
        sessions.append_events(session, [said(name) for name in part.split()])

    with Lake(inner) as lake:
        found = LakeSessionService(lake).sync.get_session(
            app_name="app", user_id="ana", session_id="s"
        )
    assert found is not None
    expected = ["e1", "e2", "e3"] if "e3" in parts[0] else ["e1", "e2"]
    assert [event.id for event in found.events] == expected
    assert session == found
    assert set(session.state) == {p + name for name in expected for p in ("", "user:", "app:")}
    sessions.append_event(session, said("e9"))
