"""How many requests each operation makes: what users of a bucket pay, so part of the interface."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError

from lakestore import LakeSessionService
from lakestore.log.keys import SessionKey
from tests.requests.conftest import OpenService
from tests.requests.counting import APP, USER, asked, begin, load, requests_of, said
from tests.support.clocks import ManualClock

_RECENTLY = 1.0
"""Seconds for which shared state that was listed is good enough for a new session."""


async def test_append(service: LakeSessionService) -> None:
    """An append with a fresh marker is one PUT, whatever it sets in the session's own state."""
    session = await begin(service)
    with requests_of(service) as made:
        await service.append_event(session, said("hello"))
    assert made == {"PUT": 1}
    with requests_of(service) as made:
        await service.append_event(session, said("hello", {"mood": "good"}))
    assert made == {"PUT": 1}


@pytest.mark.parametrize(
    ("delta", "scopes"),
    [
        ({"user:name": "Ana"}, 1),
        ({"user:name": "Ana", "user:town": "Rome", "mood": "good"}, 1),
        ({"app:theme": "dark"}, 1),
        ({"user:name": "Ana", "app:theme": "dark"}, 2),
        ({"temp:draft": 1}, 0),
    ],
    ids=["user", "user twice", "app", "both", "temp"],
)
async def test_append_with_shared_state(
    service: LakeSessionService, delta: dict[str, Any], scopes: int
) -> None:
    """An append is one PUT more for each shared scope it touches."""
    session = await begin(service)
    with requests_of(service) as made:
        await service.append_event(session, said("hello", delta))
    assert made == {"PUT": 1 + scopes}


async def test_append_as_loaded_elsewhere(open_service: OpenService) -> None:
    """An append to a session that was loaded, not made, by this process is one PUT too."""
    session = await begin(open_service(), events=3)
    other = open_service()
    loaded = await load(other, session, num_recent_events=0)
    assert loaded is not None
    with requests_of(other) as made:
        await other.append_event(loaded, said("hello"))
    assert made == {"PUT": 1}


async def test_append_many(service: LakeSessionService) -> None:
    """Ten events appended at once are one PUT, and one more for all their `user:` keys."""
    session = await begin(service)
    with requests_of(service) as made:
        await service.append_events(session, [said(f"{n}", {f"user:{n}": n}) for n in range(10)])
    assert made == {"PUT": 2}


async def test_append_by_turn(open_service: OpenService) -> None:
    """With durability="turn" nothing is requested until the turn ends, and then one PUT."""
    service = open_service(durability="turn")
    session = await begin(service)
    with requests_of(service) as made:
        await service.append_event(session, asked("hello?"))
    assert made == {}
    with requests_of(service) as made:
        await service.append_event(session, said("hello"))
    assert made == {"PUT": 1}


async def test_partial_event(service: LakeSessionService) -> None:
    """A partial event, which is not stored, requests nothing."""
    session = await begin(service)
    event = said("hel")
    event.partial = True
    with requests_of(service) as made:
        await service.append_event(session, event)
    assert made == {}


async def test_redelivery(service: LakeSessionService) -> None:
    """An event that the session holds already requests nothing."""
    session = await begin(service)
    event = said("hello")
    await service.append_event(session, event)
    with requests_of(service) as made:
        await service.append_event(session, event.model_copy(deep=True))
    assert made == {}


async def test_stale_append(open_service: OpenService) -> None:
    """An append that is refused has made one PUT, and one GET of what stands there instead."""
    service, other = open_service(), open_service()
    session = await begin(service)
    overtaken = await load(other, session)
    assert overtaken is not None
    await service.append_event(session, said("first"))
    with requests_of(other) as made, pytest.raises(StaleSessionError):
        await other.append_event(overtaken, said("second"))
    assert made == {"PUT": 1, "GET": 1}


async def test_append_with_an_old_marker(service: LakeSessionService, clock: ManualClock) -> None:
    """A marker older than the view age limit is confirmed by loading, once."""
    session = await begin(service, events=2)
    clock.advance(301)
    with requests_of(service) as made:
        await service.append_event(session, said("hello"))
    assert made == {"LIST": 1, "GET": 3, "PUT": 1}
    with requests_of(service) as made:
        await service.append_event(session, said("again"))
    assert made == {"PUT": 1}


async def test_create(service: LakeSessionService, clock: ManualClock) -> None:
    """A generated id costs one PUT, and two LIST unless shared state was listed just before."""
    with requests_of(service) as made:
        await begin(service)
    assert made == {"PUT": 1, "LIST": 2}
    with requests_of(service) as made:
        await begin(service)
    assert made == {"PUT": 1}
    clock.advance(_RECENTLY + 0.1)
    with requests_of(service) as made:
        await begin(service)
    assert made == {"PUT": 1, "LIST": 2}


@pytest.mark.parametrize(
    ("state", "scopes"),
    [({"mood": "good"}, 0), ({"user:name": "Ana"}, 1), ({"user:name": "Ana", "app:theme": 1}, 2)],
    ids=["session", "user", "user and app"],
)
async def test_create_with_state(
    service: LakeSessionService, state: dict[str, Any], scopes: int
) -> None:
    """Initial state costs one PUT more for each shared scope it touches."""
    await begin(service)
    with requests_of(service) as made:
        await service.create_session(app_name=APP, user_id=USER, state=state)
    assert made == {"PUT": 1 + scopes}


async def test_create_with_an_id(service: LakeSessionService) -> None:
    """An id that is given is looked for first, by one LIST."""
    await begin(service)
    with requests_of(service) as made:
        await service.create_session(app_name=APP, user_id=USER, session_id="s1")
    assert made == {"LIST": 1, "PUT": 1}


@pytest.mark.parametrize("config", [{"num_recent_events": 0}, {}], ids=["no events", "all"])
async def test_get_warm(service: LakeSessionService, config: dict[str, int]) -> None:
    """A session that this process knows is one GET and two LIST, however many events it shows."""
    session = await begin(service, events=5)
    await load(service, session)
    with requests_of(service) as made:
        await load(service, session, **config)
    assert made == {"GET": 1, "LIST": 2}


async def test_get_after_others_wrote(open_service: OpenService) -> None:
    """What others appended since costs one GET a commit and one request to find the end.

    Each entry of shared state costs one GET too.
    """
    service, other = open_service(), open_service()
    session = await begin(service)
    await load(other, session)
    for text in ("one", "two", "three"):
        await service.append_event(session, said(text, {"user:last": text}))
    with requests_of(other) as made:
        found = await load(other, session)
    assert found is not None
    assert found.state == {"user:last": "three"}
    assert made == {"GET": 3 + 3, "LIST": 2 + 1}


async def test_get_cold(open_service: OpenService) -> None:
    """The first read of a session is three LIST and one GET a commit."""
    session = await begin(open_service(), events=5)
    other = open_service()
    with requests_of(other) as made:
        await load(other, session)
    assert made == {"LIST": 3, "GET": 6}


async def test_get_cold_rolled_up(open_service: OpenService) -> None:
    """The first read of a session with a rollup is three LIST, one GET, and one a later commit."""
    service, other = open_service(), open_service()
    session = await begin(service, events=5)
    service.lake.sessions.roll_up(SessionKey(APP, USER, session.id), force=True)
    await service.append_event(session, said("later"))
    with requests_of(other) as made:
        await load(other, session)
    assert made == {"LIST": 3, "GET": 2}


async def test_get_what_is_not_there(service: LakeSessionService) -> None:
    """To find no session is one LIST."""
    with requests_of(service) as made:
        found = await service.get_session(app_name=APP, user_id=USER, session_id="never")
    assert found is None
    assert made == {"LIST": 1}


async def test_get_user_state(service: LakeSessionService) -> None:
    """The state of a user is one LIST, and one GET for each entry not seen before."""
    session = await begin(service)
    await service.append_event(session, said("hello", {"user:name": "Ana"}))
    with requests_of(service) as made:
        state = await service.get_user_state(app_name=APP, user_id=USER)
    assert state == {"name": "Ana"}
    assert made == {"LIST": 1}


async def test_delete(service: LakeSessionService) -> None:
    """A delete is one PUT after one probe of what is known."""
    session = await begin(service, events=2)
    with requests_of(service) as made:
        await service.delete_session(app_name=APP, user_id=USER, session_id=session.id)
    assert made == {"GET": 1, "PUT": 1}


async def test_over_many_sessions(open_service: OpenService) -> None:
    """Lists and a user's events make no LIST per session; their GETs are recorded below."""
    service = open_service()
    sessions, events = 8, 5
    for _ in range(sessions):
        await begin(service, events)
    for place, reader in (("writer", service), ("reader", open_service())):
        with requests_of(reader) as made:
            await reader.list_sessions(app_name=APP, user_id=USER)
        print(f"list_sessions, {sessions} x {events} events, {place}: {made}")  # noqa: T201
        assert made["LIST"] == 3
        with requests_of(reader) as made:
            found = await reader.get_user_events(app_name=APP, user_id=USER)
        print(f"get_user_events, {sessions} x {events} events, {place}: {made}")  # noqa: T201
        assert made["LIST"] == 1
        assert len(found) == sessions * events


async def test_a_long_session(open_service: OpenService) -> None:
    """Rollups come on top of one PUT a commit; how much they add is recorded below."""
    service = open_service()
    count = 200
    with requests_of(service) as made:
        await begin(service, count)
        service.lake.close()
    print(f"{count} appends with rollups: {made}")  # noqa: T201
    assert made["PUT"] >= count + 1
