"""Where and how it is said which bytes of events are moved beside them."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from lakestore import LakeSessionService
from lakestore.errors import InputError
from lakestore.storage import MemoryStore
from tests.support.aging import APP, USER
from tests.support.clocks import ManualClock
from tests.support.payloads import OBJECTS, PayloadLake, image


@pytest.fixture
def lake() -> PayloadLake:
    """A lake in memory whose services move bytes out of events."""
    clock = ManualClock()
    return PayloadLake(MemoryStore(clock=clock), clock)


@pytest.mark.parametrize("given", [-1, 1.5, True, "100"])
def test_what_is_no_size_is_refused(lake: PayloadLake, given: Any) -> None:
    """One clear error."""
    with pytest.raises(InputError, match="payload_threshold"):
        LakeSessionService(lake.lake, payload_threshold=given)


@pytest.mark.parametrize("given", ["-1", "1.5", "", "many"])
def test_a_uri_that_names_no_size_is_refused(given: str) -> None:
    """Before a lake is made."""
    with pytest.raises(InputError, match="payload_threshold"):
        LakeSessionService(uri=f"lakestore+memory://payloads?payload_threshold={given}")


def test_a_uri_can_set_it() -> None:
    """As ADK's registry passes it on."""
    service = LakeSessionService(uri="lakestore+memory://payloads-set?payload_threshold=10")
    session = service.sync.create_session(app_name=APP, user_id=USER)
    content = types.Content(parts=[image(1)])
    service.sync.append_event(session, Event(author="user", content=content))
    store = service.lake.environment.store
    assert len(list(store.names(OBJECTS))) == 1
    service.lake.close()


def test_nothing_is_moved_unless_asked(lake: PayloadLake) -> None:
    """Without it commits are as they were."""
    lake.threshold = None
    service = lake.service_of(lake.lake)
    session = lake.create()
    service.append_event(session, lake.event("look", parts=[image(1)]))
    assert lake.objects == []
