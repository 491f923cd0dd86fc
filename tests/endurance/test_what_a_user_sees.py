"""When the store fails, an agent waits a bounded time and meets one clear error, and goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session

from lakestore import Lake, LakeSessionService
from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.storage import open_store
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.servers import Bucket

NAMED: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
ALWAYS = 10**6


@pytest.fixture(params=["moto", "fake_gcs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of each kind."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    """A network before the bucket's server."""
    with fault_proxy(bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def clock() -> ManualClock:
    """A clock on which pauses take no time, and are noted."""
    return ManualClock()


@pytest.fixture
def service(bucket: Bucket, proxy: FaultProxy, clock: ManualClock) -> Iterator[LakeSessionService]:
    """A service whose requests go through the network."""
    through = bucket.at(proxy.url)
    store = open_store(through.fresh(), through.storage_options)
    with Lake(store, clock=clock) as lake:
        yield LakeSessionService(lake)


async def begin(service: LakeSessionService) -> Session:
    """Create a session with one event."""
    session = await service.create_session(**NAMED)
    await service.append_event(session, said("before"))
    return session


def said(event_id: str) -> Event:
    """Return an event that sets a key of the session and one of the user."""
    delta = {"last": event_id, "user:last": event_id}
    return Event(id=event_id, author="user", actions=EventActions(state_delta=delta))


async def stored(service: LakeSessionService, session: Session) -> Session:
    """Return the session as another process reads it, through a network that works."""
    found = await service.get_session(**NAMED, session_id=session.id)
    assert found is not None
    return found


def shown(session: Session) -> str:
    """Return all that an object shows."""
    return json.dumps([session.model_dump(mode="json"), session._storage_update_marker])


async def test_a_store_that_is_busy_for_a_moment_is_not_noticed(
    service: LakeSessionService, proxy: FaultProxy
) -> None:
    """What was refused a few times is sent again behind the scenes, and counted."""
    session = await begin(service)
    before = service.lake.metrics.retries
    proxy.faults.append(Fault("answer", status=429, times=3))
    await service.append_event(session, said("after"))
    assert service.lake.metrics.retries == before + 3
    found = await stored(service, session)
    assert [event.id for event in found.events] == ["before", "after"]


async def test_a_store_that_stays_busy_is_told_once(
    service: LakeSessionService, proxy: FaultProxy, clock: ManualClock
) -> None:
    """After a bounded time one error says what to do, and the session is as it was, and usable."""
    session = await begin(service)
    event, before = said("after"), shown(session)
    proxy.faults.append(Fault("answer", status=429, times=ALWAYS))
    slept = len(clock.slept)
    with pytest.raises(StorageError, match="try again") as caught:
        await service.append_event(session, event)
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert 1 < sum(clock.slept[slept:]) < 60
    assert shown(session) == before

    proxy.faults.clear()
    await service.append_event(session, event)
    found = await stored(service, session)
    assert [each.id for each in found.events] == ["before", "after"]
    assert found.state == {"last": "after", "user:last": "after"}


async def test_a_reply_that_is_lost_is_not_noticed(
    service: LakeSessionService, proxy: FaultProxy
) -> None:
    """A commit that landed without an answer is found by reading it back, and stands once."""
    session = await begin(service)
    commits = "0003.parquet"
    proxy.faults += [
        Fault("swallow", method, holding, times=2)
        for method, holding in (("PUT", commits), ("POST", "upload"))
    ]
    await service.append_event(session, said("after"))
    found = await stored(service, session)
    assert [event.id for event in found.events] == ["before", "after"]


async def test_an_outcome_that_stays_unknown_is_told_and_sending_again_is_safe(
    service: LakeSessionService, proxy: FaultProxy
) -> None:
    """When nobody can tell, the error says so; the same event is then stored once, in all."""
    session = await begin(service)
    event, before = said("after"), shown(session)
    proxy.faults += [
        Fault("swallow", "PUT", times=ALWAYS),
        Fault("swallow", "POST", times=ALWAYS),
        Fault("answer", "GET", status=503, times=ALWAYS),
    ]
    with pytest.raises(UnknownOutcomeError):
        await service.append_event(session, event)
    assert shown(session) == before

    proxy.faults.clear()
    await service.append_event(session, event)
    await service.append_event(session, said("later"))
    found = await stored(service, session)
    assert [each.id for each in found.events] == ["before", "after", "later"]
    assert found.state == {"last": "later", "user:last": "later"}


async def test_a_read_that_fails_is_told_once(
    service: LakeSessionService, proxy: FaultProxy
) -> None:
    """A read that cannot be answered is one error, and the next one is answered."""
    session = await begin(service)
    proxy.faults.append(Fault("answer", "GET", status=500, times=ALWAYS))
    with pytest.raises(StorageError, match="try again"):
        await service.get_session(**NAMED, session_id=session.id)
    proxy.faults.clear()
    assert len((await stored(service, session)).events) == 1
