"""Everything that a lake answers, to be compared before and after what must change no answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService

Answers = dict[object, Any]

_EVENTS = (
    "select app_name, user_id, session_id, version, ordinal, event_id, text, event_time,"
    " state_delta, event_json, token from events order by all"
)
_SESSIONS = "select * from sessions order by app_name, user_id, session_id"


def answers(lake: Lake, app: str, users: Iterable[str]) -> Answers:
    """Return what `lake` says of an app and some of its users, by every way to ask."""
    service = LakeSessionService(lake).sync
    found: Answers = {}
    for user in users:
        listed = service.list_sessions(app_name=app, user_id=user).sessions
        found[user, "list"] = [one.model_dump(mode="json") for one in listed]
        found[user, "state"] = service.get_user_state(app_name=app, user_id=user)
        events = service.get_user_events(app_name=app, user_id=user)
        found[user, "events"] = [event.id for event in events]
        table = lake.user_events(app, user)
        found[user, "rows"] = table.select(["session_id", "version", "event_json"]).to_pylist()
        for one in listed:
            found[user, one.id] = _session(service, app, user, one.id)
    everyone = service.list_sessions(app_name=app).sessions
    found["list"] = sorted((one.user_id, one.id, one.last_update_time) for one in everyone)
    found["events"] = lake.sql(_EVENTS).fetchall()
    found["sessions"] = [
        (*row[:6], json.loads(row[6]), row[7]) for row in lake.sql(_SESSIONS).fetchall()
    ]
    scanned = lake.scan("events", ["user_id", "session_id", "event_id"]).read_all()
    found["scan"] = sorted(map(repr, scanned.to_pylist()))
    return found


def _session(service: Any, app: str, user: str, session_id: str) -> list[Any]:
    """Return a session as it is shown with all events, few, none, and those after some time."""
    whole = service.get_session(app_name=app, user_id=user, session_id=session_id)
    times = [event.timestamp for event in whole.events]
    configs = [GetSessionConfig(num_recent_events=count) for count in (0, 1, 3)]
    if times:
        middle = times[len(times) // 2]
        configs.append(GetSessionConfig(after_timestamp=middle))
        configs.append(GetSessionConfig(after_timestamp=middle, num_recent_events=1))
    shown = [whole] + [
        service.get_session(app_name=app, user_id=user, session_id=session_id, config=config)
        for config in configs
    ]
    return [(one.model_dump(mode="json"), one._storage_update_marker) for one in shown]
