"""Appending to `Session` objects. Owns what counts as delivered, and what objects show after.

Storing and showing are apart: the one blocks, in some thread, the other runs where the objects
live. Whatever becomes of that place, what was stored shows before the session is appended to again.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from lakestore import errors
from lakestore.adk.convert import to_draft, to_event
from lakestore.adk.delivered import Delivered
from lakestore.adk.showing import Showing
from lakestore.adk.turns import Turns, ends_turn
from lakestore.adk.weight import is_heavy
from lakestore.history.drafts import Draft, Landed
from lakestore.lake import Lake
from lakestore.log.commits import Confirmations, Marker
from lakestore.log.ids import check_id
from lakestore.log.keys import SessionKey
from lakestore.tables.events import delta_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Appended:
    """What was stored, or is held, and is to be shown."""

    events: list[Event]
    drafts: list[Draft]
    """One an event."""
    marker: Marker | None
    """The commit that holds them; None while they are held."""


_holding: set[Appender] = set()
"""All that hold turns are kept alive, so that these are written when the interpreter ends, if not
before."""


class Appender:
    """Stores events of `Session` objects."""

    def __init__(self, lake: Lake, *, by_turn: bool, payload_threshold: int | None = None) -> None:
        self._lake = lake
        self._threshold = payload_threshold
        self._turns = Turns() if by_turn else None
        self._delivered = Delivered()
        self._unshown: dict[SessionKey, Showing] = {}
        self._failures: dict[SessionKey, Exception] = {}
        self._pid = os.getpid()

    def commit(
        self,
        key: SessionKey,
        session: Session,
        events: Sequence[Event],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Showing:
        """Store `events`, or hold them until their turn ends; return how the session shows it.

        The caller holds the lock of `key`. What is returned is to be called where the session
        lives, by `loop` if one is given; otherwise the next append to the session sees to it.

        Raises:
            AlreadyExistsError: the session holds another event with the id of one of these.
            SessionNotFoundError: the session does not exist.
            StaleSessionError: another writer has appended to it.
            InputError: an event cannot be stored.
            StorageError: nothing is stored, or (`UnknownOutcomeError`) it may be.
        """
        self.show_last(key)
        self._tell_failure(key)
        new = self._not_delivered(session, events)
        drafts = [to_draft(event) for event in new]
        appended = Appended([], [], None)
        if drafts:
            with adk_errors():
                appended = self._store(key, session, new, drafts)
        showing = Showing(lambda: self._apply(key, session, appended), loop)
        self._unshown[key] = showing
        return showing

    def show_last(self, key: SessionKey) -> None:
        """See to it that the last append to a session shows. The caller holds its lock."""
        showing = self._unshown.get(key)
        if showing is not None:
            showing.ensure()

    def is_settled(self, key: SessionKey) -> bool:
        """Tell whether nothing of a session is held or still to be shown."""
        held = self._turns is not None and self._turns.of(key) is not None
        return not held and key not in self._unshown and key not in self._failures

    def can_hold(self, key: SessionKey, session: Session, events: Sequence[Event]) -> bool:
        """Tell whether `commit` would only hold `events`, in no time and asking no store."""
        if self._turns is None or is_heavy(events) or any(ends_turn(event) for event in events):
            return False
        turn = self._turns.of(key)
        return turn is None or turn.session is session

    def _apply(self, key: SessionKey, session: Session, appended: Appended) -> None:
        """Let `session` and its events show what was stored, as ADK's services do.

        `temp:` keys stay visible in the session and leave the event; the state gets the values as
        they were given, not their JSON forms.
        """
        for event, draft in zip(appended.events, appended.drafts, strict=True):
            session.state.update(draft.shown)
            if len(draft.shown) > len(draft.delta):
                event.actions.state_delta = {name: draft.shown[name] for name in draft.delta}
            session.events.append(event)
            session.last_update_time = event.timestamp
        self._delivered.grew(session, appended.events)
        if appended.marker is not None:
            session._storage_update_marker = self._markers.text(key.log, appended.marker)
        self._unshown.pop(key, None)

    def write_held(self, key: SessionKey) -> None:
        """Store what is held of a session, if anything is. The caller holds its lock.

        What can never be stored, since another writer went ahead, is held no longer.

        Raises:
            SessionNotFoundError, StaleSessionError, StorageError: as `commit`.
        """
        self.show_last(key)
        self._tell_failure(key)
        turn = self._turns.of(key) if self._turns else None
        if turn is not None:
            with adk_errors():
                landed = self._append_turn(key, turn.session, turn.drafts)
            self._apply(key, turn.session, _shown(landed, [], [], turn.drafts))

    def write_unheard(self, key: SessionKey) -> None:
        """As `write_held`, for when nobody listens: a failure is raised by the next call."""
        try:
            self.write_held(key)
        except Exception as error:  # noqa: BLE001 - kept, and raised by the next call
            self._failures[key] = error

    def _tell_failure(self, key: SessionKey) -> None:
        error = self._failures.pop(key, None)
        if error is not None:
            raise error

    def write_all_held(self) -> None:
        """Store all that is held, without locks: for a process that ends. Failures are logged."""
        for key in self.held():
            try:
                self.write_held(key)
            except Exception:
                logger.exception("a turn that was held could not be written. log=%r", key.log)

    def held(self, app_name: str | None = None, user_id: str | None = None) -> list[SessionKey]:
        """Return the sessions of which events are held, of everyone or of an app or user."""
        held = self._turns.keys() if self._turns else []
        return [
            key
            for key in dict.fromkeys([*held, *self._failures])
            if app_name in (None, key.app_name) and user_id in (None, key.user_id)
        ]

    @property
    def _markers(self) -> Confirmations:
        return self._lake.sessions.confirmations

    def _not_delivered(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """Return those of `events` that are to be stored and that the session does not hold.

        Raises:
            AlreadyExistsError: it holds another event of that id, or `events` itself does.
        """
        new: dict[str, Event] = {}
        for event in events:
            if event.partial:
                continue
            known = new.get(event.id) or self._delivered.find(session, event.id)
            if known is None:
                new[event.id] = event
            elif not _same(known, event):
                raise AlreadyExistsError(
                    f"the session holds another event with this id. event_id={event.id!r}"
                )
        return list(new.values())

    def _store(
        self, key: SessionKey, session: Session, new: list[Event], drafts: list[Draft]
    ) -> Appended:
        if self._turns is None:
            return _shown(self._append(key, session, drafts), new, drafts, [])
        turn = self._turns.of(key)
        if turn is not None and turn.session is not session:
            self.write_held(key)
            turn = None
        if not any(ends_turn(event) for event in new):
            self._turns.hold(key, session, drafts)
            _holding.add(self)
            return Appended(new, drafts, None)
        held = turn.drafts if turn else []
        landed = self._append_turn(key, session, [*held, *drafts])
        return _shown(landed, new, drafts, held)

    def _append_turn(self, key: SessionKey, session: Session, drafts: list[Draft]) -> Landed:
        """Store a turn, and hold it no longer, unless it may succeed another time."""
        assert self._turns is not None
        turn = self._turns.of(key)
        try:
            landed = self._append(key, session, drafts)
        except (errors.ConflictError, errors.NotFoundError, errors.AlreadyExistsError) as error:
            self._release(key)
            if turn is None:
                raise
            raise type(error)(
                f"{error}; {len(turn.drafts)} events that were held of the turn are dropped, and"
                " are to be appended again after that"
            ) from error
        self._release(key)
        return landed

    def _release(self, key: SessionKey) -> None:
        assert self._turns is not None
        self._turns.release(key)
        if not self.held():
            _holding.discard(self)

    def _append(self, key: SessionKey, session: Session, drafts: list[Draft]) -> Landed:
        marker = self._markers.parse(key.log, session._storage_update_marker)
        if marker is None:
            # Built by hand, or sent through JSON: current if it ends as the stored one does.
            held = {draft.event_id for draft in drafts}
            known = [event.id for event in session.events if event.id not in held]
            marker = self._lake.sessions.marker_at(key, known[-1] if known else None)
        landed = self._lake.sessions.append(key, marker, drafts, self._threshold)
        if any(row.payloads for row in landed.found):
            # Sent before, and shown now: with all their bytes.
            whole = self._lake.sessions.payloads.whole
            _, rows = whole(lambda: (None, landed.found), lambda: None)
            return replace(landed, found=tuple(rows))
        return landed


def _shown(
    landed: Landed, new: Sequence[Event], drafts: Sequence[Draft], held: Sequence[Draft]
) -> Appended:
    """Return what a session is to show: what was there already, in commit order, then the rest.

    Args:
        landed: What the append came to.
        new: The caller's events.
        drafts: One for each of `new`.
        held: What the session shows since it was held.
    """
    mine = {draft.event_id: (event, draft) for event, draft in zip(new, drafts, strict=True)}
    seen = {draft.event_id for draft in held}
    shown: list[tuple[Event, Draft]] = []
    for row in landed.found:
        event = to_event(row)
        if event.id not in seen:
            delta = delta_of(row)
            other = (event, Draft(event.id, row.event_json or "", delta, delta))
            shown.append(mine.pop(event.id, other))
    shown += mine.values()
    return Appended([event for event, _ in shown], [draft for _, draft in shown], landed.marker)


def check_events(events: object) -> None:
    """Refuse what is no list of events.

    Raises:
        InputError: it is not.
    """
    if not isinstance(events, Sequence):
        raise errors.InputError(
            f"events is a list of events; append_event takes one. type={type(events).__name__}"
        )
    for event in events:
        if not isinstance(event, Event):
            raise errors.InputError(f"only events can be appended. type={type(event).__name__}")
        # Pydantic does not check what is assigned to a field.
        given_id: object = event.id
        if not isinstance(given_id, str) or not given_id:
            raise errors.InputError(f"an event's id is a text. type={type(given_id).__name__}")


def key_of(session: Session) -> SessionKey:
    """Return the key of a session as ADK names it.

    Raises:
        InputError: it is no session, or one of its ids cannot be one.
    """
    if not isinstance(session, Session):
        raise errors.InputError(f"events are appended to a Session. type={type(session).__name__}")
    events: object = session.events
    state: object = session.state
    if not isinstance(events, list) or not isinstance(state, dict):
        raise errors.InputError(
            "a Session has a list of events and a dict of state."
            f" types={type(events).__name__}, {type(state).__name__}"
        )
    return session_key(session.app_name, session.user_id, session.id)


def session_key(app_name: str, user_id: str, session_id: object) -> SessionKey:
    """Return the key for ids as a caller gives them; blanks around a session id do not count.

    ADK's InMemorySessionService and SqliteSessionService strip session ids, so we do.

    Raises:
        InputError: one of them cannot be an id.
    """
    stripped = session_id.strip() if isinstance(session_id, str) else session_id
    return SessionKey(
        check_id("app_name", app_name),
        check_id("user_id", user_id),
        check_id("session_id", stripped),
    )


def _same(known: Event, event: Event) -> bool:
    # What was appended has lost its `temp:` keys; a copy that is sent again may have them still.
    # Never by comparing the events: values in them may compare in any way, or not at all.
    return known is event or to_draft(known).event_json == to_draft(event).event_json


@contextmanager
def adk_errors() -> Iterator[None]:
    """Raise what callers of ADK's services expect in place of errors of history."""
    try:
        yield
    except errors.ConflictError as error:
        raise StaleSessionError(str(error)) from error
    except errors.NotFoundError as error:
        raise SessionNotFoundError(str(error)) from error
    except errors.AlreadyExistsError as error:
        raise AlreadyExistsError(str(error)) from error


@atexit.register
def _write_all_held() -> None:
    for appender in list(_holding):
        if appender._pid == os.getpid():
            appender.write_all_held()
