"""A lake whose writers' clock a test sets, and short words for what is written and read there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.clocks import ManualClock

APP = "travel"
USER = "ana"
DAY = 86_400.0


class AgingLake:
    """One lake and its clock; each `service()` is another process."""

    def __init__(self, store: ObjectStore, clock: ManualClock | None = None) -> None:
        self.store = store
        self.clock = clock or ManualClock()
        self.lake = self.open()
        self.service = self.service_of(self.lake)
        self._said = 0

    def open(self, store: ObjectStore | None = None, **options: Any) -> Lake:
        """Open it as one more process."""
        return Lake(store or self.store, clock=self.clock, **options)

    def copy(self) -> AgingLake:
        """Return a lake in memory with the same objects at this time, as a new process finds it."""
        clock = ManualClock(self.clock.wall(), self.clock.elapsed())
        store = MemoryStore(clock=ManualClock(0.0))
        for stored in self.store.list(""):
            store._clock = ManualClock(stored.modified)
            store.put_if_absent(stored.key, self.store.get(stored.key))
        store._clock = clock
        return AgingLake(store, clock)

    def service_of(self, lake: Lake) -> SyncSessionService:
        return LakeSessionService(lake).sync

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    def pass_days(self, days: float) -> None:
        self.clock.advance(days * DAY)

    def create(
        self,
        session_id: str = "s1",
        *,
        user_id: str = USER,
        app_name: str = APP,
        state: Mapping[str, Any] | None = None,
    ) -> Session:
        return self.service.create_session(
            app_name=app_name, user_id=user_id, session_id=session_id, state=dict(state or {})
        )

    def event(self, text: str | None, invocation: str = "", **fields: Any) -> Event:
        """Return an event that says `text`; `delta` and `artifacts` are what it sets."""
        self._said += 1
        actions = EventActions(
            state_delta=dict(fields.pop("delta", {})),
            artifact_delta=dict(fields.pop("artifacts", {})),
            rewind_before_invocation_id=fields.pop("rewind", None),
        )
        parts = list(fields.pop("parts", []))
        if text is not None:
            parts.append(types.Part(text=text))
        content = types.Content(role="user", parts=parts) if parts else None
        return Event(
            **{
                "id": f"e{self._said}",
                "author": "user",
                "invocation_id": invocation or f"turn-{self._said}",
                "timestamp": self.clock.wall() + 0.25,
                "content": content,
                "actions": actions,
                **fields,
            }
        )

    def say(self, session: Session, text: str | None, invocation: str = "", **fields: Any) -> Event:
        """Append an event; see `event`."""
        made = self.event(text, invocation, **fields)
        self.service.append_event(session, made)
        return made

    def load(self, session: Session, lake: Lake | None = None) -> Session | None:
        """Return the session as another process reads it."""
        service = self.service_of(lake or self.open(read_only=True))
        return service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )

    def ids(self, app_name: str = APP, user_id: str | None = None) -> list[str]:
        """Return the ids of living sessions as another process lists them."""
        service = self.service_of(self.open(read_only=True))
        return sorted(
            each.id for each in service.list_sessions(app_name=app_name, user_id=user_id).sessions
        )


def texts(events: Sequence[Event]) -> list[str]:
    """Return what was said, in order."""
    return [
        part.text
        for event in events
        for part in (event.content.parts if event.content else None) or ()
        if part.text
    ]


def call(name: str, call_id: str) -> types.Part:
    """Return a part that calls a function."""
    return types.Part(function_call=types.FunctionCall(name=name, id=call_id, args={}))


def answer(name: str, call_id: str) -> types.Part:
    """Return a part that answers a call."""
    return types.Part(
        function_response=types.FunctionResponse(name=name, id=call_id, response={"ok": True})
    )
