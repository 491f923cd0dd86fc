"""Which events a `Session` object holds, by id, without searching all of them at each append.

Owns an index per object, for as long as the object lives. Only what is appended through the same
service keeps it current; when the events were changed in any other way it is built anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from google.adk.events.event import Event
from google.adk.sessions.session import Session


@dataclass(slots=True)
class _Index:
    session: weakref.ref[Session]
    ids: set[str]
    count: int
    last: Event | None

    def is_current(self, session: Session) -> bool:
        events = session.events
        return (
            self.session() is session
            and self.count == len(events)
            and self.last is (events[-1] if events else None)
        )


class Delivered:
    """Finds events of `Session` objects by id."""

    def __init__(self) -> None:
        # By identity: a session has no hash.
        self._indexes: dict[int, _Index] = {}

    def find(self, session: Session, event_id: str) -> Event | None:
        """Return the last event of that id that the session holds."""
        index = self._indexes.get(id(session))
        if index is None or not index.is_current(session):
            index = self._build(session)
        if event_id not in index.ids:
            return None
        # None where an event was replaced by one with another id.
        found = (event for event in reversed(session.events) if event.id == event_id)
        return next(found, None)

    def grew(self, session: Session, events: Sequence[Event]) -> None:
        """Note that `events` were just appended to the session."""
        index = self._indexes.get(id(session))
        if index is not None and events:
            index.ids.update(event.id for event in events)
            index.count += len(events)
            index.last = events[-1]

    def _build(self, session: Session) -> _Index:
        place, events = id(session), session.events
        reference = weakref.ref(session, lambda _: self._indexes.pop(place, None))
        index = _Index(
            reference, {e.id for e in events}, len(events), events[-1] if events else None
        )
        self._indexes[place] = index
        return index
