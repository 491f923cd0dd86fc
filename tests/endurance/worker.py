"""A process that works on a lake until it is told to stop, or killed.

`python -m tests.endurance.worker SETTINGS` takes JSON: `url`, `storage_options`, `journal`,
`name`, `seed`, `final`. It works until the file `stop` is in the folder `journal`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session

from lakestore import Lake, LakeSessionService
from lakestore.adk.appending import session_key
from lakestore.errors import StorageError
from tests.endurance.journal import Journal
from tests.simulator.actors import facts_of, outcome_of, shared_keys, shared_of
from tests.simulator.record import Call, Name, Seen

APP = "a"
NAMES: list[Name] = [(f"u{user}", f"s{session}") for user in range(3) for session in range(3)]

_SQL = """
SELECT s.user_id, s.session_id, s.state,
  list(e.event_id ORDER BY e.version, e.ordinal) FILTER (e.event_id IS NOT NULL)
FROM sessions AS s LEFT JOIN events AS e
  ON s.app_name = e.app_name AND s.user_id = e.user_id AND s.session_id = e.session_id
GROUP BY ALL
"""
_TRIES = 3
_DOES = {
    "append": 60,
    "get": 14,
    "list": 5,
    "user_events": 3,
    "sql": 2,
    "create": 4,
    "delete": 1,
    "roll_up": 4,
}


class Worker:
    """Does one thing after the other, drawn by seed."""

    def __init__(self, lake: Lake, journal: Journal, name: str, draw: Random) -> None:
        self._lake = lake
        self._service = LakeSessionService(lake).sync
        self._journal = journal
        self._name = name
        self._draw = draw
        self._handles: dict[Name, Session] = {}
        self._made = 0
        self.final = False
        """Whether it reads after all others have ended."""

    def work(self, stop: Path) -> None:
        """Work until that file is there."""
        self.create(self._draw.choice(NAMES))  # so that there is something to append to
        while not stop.exists():
            (does,) = self._draw.choices(list(_DOES), list(_DOES.values()))
            getattr(self, does)(self._draw.choice(NAMES))

    def read_all(self) -> None:
        """Read everything in every way."""
        for name in NAMES:
            self.get(name)
        for user in {user for user, _ in NAMES}:
            self.user_events((user, ""))
            self.list((user, ""))
        self.sql(NAMES[0])

    def _call(self, kind: str, ask: Callable[[], Any], **facts: Any) -> tuple[Call, Any]:
        call, answer = self._journal.begin(kind, final=self.final, **facts), None
        try:
            answer = ask()
            call.outcome = "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, the checker judges it
            call.outcome = outcome_of(error)
        return call, answer

    def create(self, name: Name) -> None:
        """Create a session with a given id."""
        self._made += 1
        life = f"life {self._name}.{self._made}"
        state = {"life": life, "user:begun": life}
        call, session = self._call(
            "create",
            lambda: self._service.create_session(
                app_name=APP, user_id=name[0], session_id=name[1], state=state
            ),
            session=name,
            life=life,
            writes=dict(shared_keys(name[0], state)),
        )
        if session is not None:
            call.seen.append(Seen(name, session.state.get("life"), ()))
            self._handles[name] = session
        self._journal.end(call)

    def append(self, name: Name) -> None:
        """Append an event or two, again while the outcome is not known."""
        session = self._handles.get(name) or self.get(name)
        if session is None:
            return
        events = [self._event() for _ in range(self._draw.choice((1, 1, 1, 2)))]
        for _ in range(_TRIES):
            call, _ = self._call(
                "append",
                lambda: self._service.append_events(session, events),
                **facts_of(session, events),
            )
            if call.is_ok:
                ids = tuple(event.id for event in session.events)
                call.seen.append(Seen(name, session.state.get("life"), ids))
            self._journal.end(call)
            if call.outcome not in ("unknown", "failed"):
                break
        if not call.is_ok:
            self._handles.pop(name, None)

    def _event(self) -> Event:
        self._made += 1
        event_id = f"{self._name}-{self._made}"
        delta = {"last": event_id}
        for key in ("user:k", "app:k"):
            if self._draw.random() < 0.1:
                delta[key] = event_id
        return Event(id=event_id, author="user", actions=EventActions(state_delta=delta))

    def get(self, name: Name) -> Session | None:
        """Read a session whole, and hold it."""
        call, session = self._call(
            "get",
            lambda: self._service.get_session(app_name=APP, user_id=name[0], session_id=name[1]),
            session=name,
        )
        self._handles.pop(name, None)
        if call.is_ok and session is None:
            call.seen.append(Seen(name, None))
        elif call.is_ok:
            ids = tuple(event.id for event in session.events)
            life, last = session.state.get("life"), session.state.get("last")
            call.seen.append(Seen(name, life, ids, last=last, complete=True))
            call.shared, call.scopes = shared_of(session), (name[0], "")
            self._handles[name] = session
        self._journal.end(call)
        return session if isinstance(session, Session) else None

    def list(self, name: Name) -> None:
        """List the sessions of a user."""
        user = name[0]
        call, answer = self._call(
            "list", lambda: self._service.list_sessions(app_name=APP, user_id=user)
        )
        if call.is_ok:
            found = {session.id: session for session in answer.sessions}
            for each in NAMES:
                if each[0] == user:
                    session = found.get(each[1])
                    if session is None:
                        call.seen.append(Seen(each, None))
                        continue
                    life, last = session.state.get("life"), session.state.get("last")
                    call.seen.append(Seen(each, life, last=last, complete=True))
                    call.shared, call.scopes = shared_of(session), (user, "")
        self._journal.end(call)

    def user_events(self, name: Name) -> None:
        """Read all events of a user in one pass."""
        call, table = self._call("user events", lambda: self._lake.user_events(APP, name[0]))
        if call.is_ok:
            rows: dict[str, list[str]] = {}
            ids = (table["session_id"].to_pylist(), table["event_id"].to_pylist())
            for session, event in zip(*ids, strict=True):
                rows.setdefault(session, []).append(event)
            for session, events in rows.items():
                call.seen.append(Seen((name[0], session), "", tuple(events)))
        self._journal.end(call)

    def sql(self, _name: Name) -> None:
        """Ask the catalog for all events of all sessions."""
        call, rows = self._call("sql", lambda: self._lake.sql(_SQL).fetchall())
        if call.is_ok:
            found = {(row[0], row[1]): row for row in rows}
            for name in NAMES:
                row = found.get(name)
                if row is None:
                    call.seen.append(Seen(name, None))
                    continue
                state = json.loads(row[2])
                events = tuple(row[3] or ())
                seen = Seen(name, state.get("life"), events, last=state.get("last"))
                call.seen.append(seen)
        self._journal.end(call)

    def delete(self, name: Name) -> None:
        """Delete a session."""
        call, _ = self._call(
            "delete",
            lambda: self._service.delete_session(app_name=APP, user_id=name[0], session_id=name[1]),
            session=name,
        )
        self._handles.pop(name, None)
        self._journal.end(call)

    def roll_up(self, name: Name) -> None:
        """Write a rollup, and sweep below an old one; what fails is logged, not raised."""
        self._lake.sessions.roll_up(session_key(APP, *name), force=True)


def _opened(url: str, options: Mapping[str, Any]) -> Lake:
    """Open the lake, again while its server is down."""
    while True:
        try:
            return Lake.open(url, storage_options=options)
        except StorageError as error:
            print(error, flush=True)  # noqa: T201 - for the log


def main() -> None:
    """Work as `SETTINGS` say."""
    settings = json.loads(sys.argv[1])
    name = settings["name"]
    journal = Journal(Path(settings["journal"]) / f"{name}.jsonl", name)
    lake = _opened(settings["url"], settings["storage_options"])
    worker = Worker(lake, journal, name, Random(settings["seed"]))
    worker.final = settings["final"]
    if worker.final:
        worker.read_all()
    else:
        worker.work(Path(settings["journal"]) / "stop")


if __name__ == "__main__":
    main()
