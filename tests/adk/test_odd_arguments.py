"""An argument of a wrong type gets one clear `InputError`, and nothing is written before it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from lakestore import Lake, LakeSessionService, Limits
from lakestore.adk.uris import Durability
from lakestore.errors import InputError

ANA = {"app_name": "a", "user_id": "u"}
S: dict[str, Any] = {**ANA, "session_id": "s"}


def said(text: str = "hello") -> Event:
    """Return an event that holds a turn open."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content)


def odd_config(**fields: Any) -> GetSessionConfig:
    """Return a config whose fields were assigned, which nothing checks."""
    config = GetSessionConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def odd_event(**fields: Any) -> Event:
    """Return an event whose fields were assigned, which nothing checks."""
    event = said()
    for name, value in fields.items():
        setattr(event, name, value)
    return event


def odd_session(session: Session, **fields: Any) -> Session:
    """Return a copy of a session whose fields were assigned, which nothing checks."""
    copy = session.model_copy()
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


OPENED: list[dict[str, Any]] = [
    {"max_concurrency": 0},
    {"max_concurrency": "4"},
    {"max_concurrency": True},
    {"cache_bytes": None},
    {"cache_bytes": -1},
    {"cache_bytes": 1.5},
    {"limits": 3},
    {"limits": {"grace": 1}},
    {"read_only": "false"},
    {"rollups": None},
    {"storage_options": ["region"]},
    {"storage_options": 3},
    {"storage_options": {1: 2}},
]


@pytest.mark.parametrize("options", OPENED, ids=str)
def test_lakes_are_opened_with_what_makes_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    """The option is named, and no lake is made."""
    with pytest.raises(InputError, match=next(iter(options))):
        Lake.open(tmp_path / "lake", **options)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("values", [("5", 100), (5, None), (True, 100), ([], 100)], ids=str)
def test_limits_are_numbers(values: tuple[Any, Any]) -> None:
    """The two times of a lake are numbers of seconds."""
    with pytest.raises(InputError, match=r"view_age|grace"):
        Limits(*values)


# Any: the mistakes are what types forbid.
QUERIED: dict[str, Callable[[Any], object]] = {
    "query": lambda lake: lake.sql(None),
    "query ": lambda lake: lake.sql(b"select 1"),
    "params": lambda lake: lake.sql("select ?", 3),
    "params ": lambda lake: lake.sql("select ?", "secret"),
    "params  ": lambda lake: lake.sql("select ?", {"secret"}),
    "table": lambda lake: lake.scan(["events"]),
    "columns": lambda lake: lake.scan("events", columns="event_id"),
    "columns ": lambda lake: lake.scan("events", columns=3),
    "columns  ": lambda lake: lake.scan("events", columns=[["text"]]),
    "where": lambda lake: lake.scan("events", where=True),
    "session_ids": lambda lake: lake.user_events("a", "u", session_ids="s"),
    "session_ids ": lambda lake: lake.user_events("a", "u", session_ids=3),
    "session_ids  ": lambda lake: lake.user_events("a", "u", session_ids=[3]),
    "since": lambda lake: lake.user_events("a", "u", since="yesterday"),
    "since ": lambda lake: lake.user_events("a", "u", since=math.nan),
    "until ": lambda lake: lake.user_events("a", "u", until=1_796_000_000_000),
    "as_of": lambda lake: lake.connect(as_of=1_796_000_000_000.0),
    "until": lambda lake: lake.user_events("a", "u", until=datetime(2026, 1, 1)),  # noqa: DTZ001 - the mistake
    "user_id": lambda lake: lake.user_events("a", 3),
    "connect": lambda lake: lake.refresh(None),
}


@pytest.mark.parametrize("named", QUERIED)
def test_queries_take_what_makes_sense(named: str) -> None:
    """The argument is named, and what was given is not quoted."""
    with Lake.open("memory://odd-queries") as lake:
        with pytest.raises(InputError, match=named.strip()) as refusal:
            QUERIED[named](lake)
        assert "secret" not in str(refusal.value)


Ask = Callable[[Any, Session], Awaitable[object]]

ASKED: dict[str, tuple[str, Ask]] = {
    "limit as a text": ("limit", lambda it, _: it.list_sessions(**ANA, limit="3")),
    "limit as a flag": ("limit", lambda it, _: it.list_sessions(**ANA, limit=True)),
    "limit below 0": ("limit", lambda it, _: it.list_sessions(**ANA, limit=-1)),
    "offset": ("offset", lambda it, _: it.list_sessions(**ANA, offset=-1)),
    "offset as a float": ("offset", lambda it, _: it.list_sessions(**ANA, offset=1.0)),
    "order": ("order_by", lambda it, _: it.list_sessions(**ANA, order_by=5)),
    "order by a list": ("order_by", lambda it, _: it.list_sessions(**ANA, order_by=[])),
    "order by nothing known": (
        "order_by",
        lambda it, _: it.list_sessions(**ANA, order_by="secret"),
    ),
    "descending": ("descending", lambda it, _: it.list_sessions(**ANA, descending="no")),
    "user of a list": ("user_id", lambda it, _: it.list_sessions(app_name="a", user_id=7)),
    "app of a list": ("app_name", lambda it, _: it.list_sessions(app_name=None)),
    "limit of events": ("limit", lambda it, _: it.get_user_events(**ANA, limit=True)),
    "since": ("since", lambda it, _: it.get_user_events(**ANA, since="yesterday")),
    "since as a flag": ("since", lambda it, _: it.get_user_events(**ANA, since=True)),
    "until": ("until", lambda it, _: it.get_user_events(**ANA, until=[])),
    "user of events": ("user_id", lambda it, _: it.get_user_events(app_name="a", user_id=None)),
    "user of a state": ("user_id", lambda it, _: it.get_user_state(app_name="a", user_id=None)),
    "session id": ("session_id", lambda it, _: it.get_session(**ANA, session_id=5)),
    "id to delete": ("session_id", lambda it, _: it.delete_session(**ANA, session_id=5)),
    "id to create": ("session_id", lambda it, _: it.create_session(**ANA, session_id=5)),
    "state": ("state", lambda it, _: it.create_session(**ANA, state=[])),
    "state as a text": ("state", lambda it, _: it.create_session(**ANA, state="")),
    "config": ("config", lambda it, _: it.get_session(**S, config={"num_recent_events": 1})),
    "recent as a text": (
        "num_recent_events",
        lambda it, _: it.get_session(**S, config=odd_config(num_recent_events="3")),
    ),
    "recent below 0": (
        "num_recent_events",
        lambda it, _: it.get_session(**S, config=odd_config(num_recent_events=-3)),
    ),
    "after as a text": (
        "after_timestamp",
        lambda it, _: it.get_session(**S, config=odd_config(after_timestamp="3")),
    ),
    "one event": ("append_event", lambda it, session: it.append_events(session, said())),
    "no event": ("events", lambda it, session: it.append_events(session, None)),
    "a dict": ("events", lambda it, session: it.append_event(session, {"author": "user"})),
    "event id": ("id", lambda it, session: it.append_event(session, odd_event(id=["x"]))),
    "content": ("event", lambda it, session: it.append_event(session, odd_event(content="x"))),
    "actions": ("state", lambda it, session: it.append_event(session, odd_event(actions=None))),
    "time": ("timestamp", lambda it, session: it.append_event(session, odd_event(timestamp="x"))),
    "no session": ("Session", lambda it, _: it.append_event("s", said())),
    "id of a session": (
        "session_id",
        lambda it, session: it.append_event(odd_session(session, id=5), said()),
    ),
    "user of a session": (
        "user_id",
        lambda it, session: it.append_event(odd_session(session, user_id=None), said()),
    ),
    "events of a session": (
        "events",
        lambda it, session: it.append_event(odd_session(session, events=None), said()),
    ),
    "state of a session": (
        "state",
        lambda it, session: it.append_event(odd_session(session, state=None), said()),
    ),
}


@pytest.fixture(params=["append", "turn"])
def service(request: pytest.FixtureRequest) -> Iterator[LakeSessionService]:
    """A service on an empty lake."""
    durability: Durability = request.param
    with Lake.open(f"memory://{request.node.name}") as lake:
        yield LakeSessionService(lake, durability=durability)


@pytest.mark.parametrize("case", ASKED)
async def test_services_take_what_makes_sense(service: LakeSessionService, case: str) -> None:
    """The argument is named, nothing is written, not even what is held, and all goes on."""
    named, ask = ASKED[case]
    session = await service.create_session(**S)
    await service.append_event(session, said("before"))
    writes = service.lake.metrics.requests["PUT"]
    with pytest.raises(InputError, match=named) as refusal:
        await ask(service, session)
    assert "secret" not in str(refusal.value)
    assert service.lake.metrics.requests["PUT"] == writes
    await service.append_event(session, said("after"))
    assert len(session.events) == 2


BLOCKING: dict[str, Callable[[Any], object]] = {
    "limit": lambda it: it.list_sessions(**ANA, limit="3"),
    "since": lambda it: it.get_user_events(**ANA, since="yesterday"),
    "user_id": lambda it: it.get_user_state(app_name="a", user_id=3),
    "config": lambda it: it.get_session(**S, config=3),
    "app_name": lambda it: it.flush(app_name=3),
}


@pytest.mark.parametrize("named", BLOCKING)
def test_the_blocking_face_refuses_too(service: LakeSessionService, named: str) -> None:
    """Without an event loop the refusals are the same."""
    with pytest.raises(InputError, match=named):
        BLOCKING[named](service.sync)


@pytest.mark.parametrize(
    "options",
    [
        {"uri": 3},
        {"uri": "lakestore+memory://[secret"},
        {"uri": "lakestore+memory://odd?durability=secret"},
        {"uri": "lakestore+file:///{folder}", "durability": "secret"},
        {"uri": "lakestore+file:///{folder}", "durability": ["turn"]},
    ],
    ids=str,
)
def test_a_service_is_made_of_what_makes_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    """What is wrong with a URI is said without quoting it, and no lake is made."""
    uri = options["uri"]
    filled = uri.replace("{folder}", str(tmp_path / "lake")) if isinstance(uri, str) else uri
    with pytest.raises(InputError) as refusal:
        LakeSessionService(**{**options, "uri": filled})
    assert "secret" not in str(refusal.value)
    assert [*tmp_path.iterdir()] == []
