"""Events of turns that have not ended, held by the service for `durability="turn"`.

Owns what is held and when a turn ends; writing it is the service's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from lakestore.history.drafts import Draft
from lakestore.log.keys import SessionKey


@dataclass(slots=True)
class Turn:
    """What one `Session` object holds of events that are not stored yet."""

    session: Session
    drafts: list[Draft] = field(default_factory=list)


class Turns:
    """The turns that are held, one a session at most."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[SessionKey, Turn] = {}

    def hold(self, key: SessionKey, session: Session, drafts: list[Draft]) -> None:
        """Hold `drafts` behind what is held already of this `session` object."""
        with self._lock:
            self._held.setdefault(key, Turn(session)).drafts.extend(drafts)

    def of(self, key: SessionKey) -> Turn | None:
        """Return what is held of the session."""
        return self._held.get(key)

    def release(self, key: SessionKey) -> None:
        """Forget what is held of the session."""
        with self._lock:
            self._held.pop(key, None)

    def keys(self) -> list[SessionKey]:
        """Return the sessions of which something is held."""
        with self._lock:
            return list(self._held)


def ends_turn(event: Event) -> bool:
    """Tell whether what is held must be written with this event.

    A turn runs from a user's message to the final response of an agent. An event of the user that
    carries no message (a state change, a rewind) begins no turn, so it is written at once.
    """
    if event.author == "user":
        return event.content is None
    return event.is_final_response()
