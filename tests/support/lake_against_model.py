"""What the session state machine holds, how it appends, and how it compares; its rules are apart.

What is right is the model's (`tests.support.model`). Two lakes over one store work in turns, as two
processes would, on a clock that rules move.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from hypothesis.stateful import RuleBasedStateMachine

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.storage import ObjectStore
from tests.support.model import (
    EXISTS,
    MISSING,
    STALE,
    EventDict,
    Ids,
    KnownHandle,
    LakeModel,
    Plan,
    without_temp,
)
from tests.support.ticking_clock import TickingClock

REASONS: dict[type[Exception], str] = {
    StaleSessionError: STALE,
    SessionNotFoundError: MISSING,
    AlreadyExistsError: EXISTS,
}


@dataclass
class Handle:
    """A `Session` object that a caller holds, and what it should show."""

    session: Session
    known: KnownHandle


def as_dict(event: Event) -> EventDict:
    """Return the event as the model writes it."""
    return event.model_dump(mode="json", exclude_none=True)


def shown(session: Session) -> tuple[dict[str, Any], str | None]:
    """Return all there is in a `Session` object, its marker too."""
    return session.model_dump(), session._storage_update_marker


class LakeAgainstModel(RuleBasedStateMachine):
    """Two lakes over one store, and the model that they must agree with."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = TickingClock()
        self.store = self.open_store()
        self.model = self.new_model()
        self.lakes = [Lake(self.store, clock=self.clock) for _ in range(2)]
        self.services = [LakeSessionService(lake).sync for lake in self.lakes]
        self.sharers: set[int] = set()
        self.rolled: set[Ids] = set()
        self.queried: set[Lake] = set()
        self.made = 0

    def new_model(self) -> LakeModel:
        """Return the model of an empty lake."""
        return LakeModel(self.clock.wall)

    def open_store(self) -> ObjectStore:
        """Return an empty store; the machines of each store say how."""
        raise NotImplementedError

    def age_store(self, seconds: float) -> None:
        """Let objects be so much older, where the store has a clock of its own."""

    def teardown(self) -> None:
        """Compare everything, as both lakes and as a process that has just begun see it."""
        try:
            for service in self.services:
                self.compare_all(service)
            self.compare_cold()
            for lake in self.queried:
                self.compare_sql(lake)
        finally:
            for lake in self.lakes:
                lake.close()

    # --- writing ---------------------------------------------------------------------------

    def begun(self, side: int, session: Session, state: dict[str, Any], before: float) -> Handle:
        """Let the model follow a creation."""
        ids = (session.app_name, session.user_id, session.id)
        self.model.create(ids, state, session.last_update_time)
        self.note_sharing(side, state)
        assert session.events == []
        assert before - 1e-6 <= session.last_update_time <= self.clock.wall()
        expected = self.model.state(ids)
        if self.sharers <= {side}:
            assert session.state == expected
        else:
            # What another process shared within the last second may not be seen yet.
            assert session.state.keys() <= expected.keys()
        known = KnownHandle(ids, [], dict(session.state), len(self.model.logs[ids]))
        return Handle(session, known)

    def deliver_many(self, side: int, handle: Handle, events: list[Event]) -> None:
        """Append `events` in one call."""
        service = self.services[side]
        self.deliver(side, handle, events, lambda: service.append_events(handle.session, events))

    def deliver(
        self, side: int, handle: Handle, events: list[Event], call: Callable[[], object]
    ) -> None:
        """Run an append and hold it against the model's plan."""
        raw = [as_dict(event) for event in events if not event.partial]
        plan = self.model.plan_append(handle.known, [without_temp(event) for event in raw])
        before, given = shown(copy.deepcopy(handle.session)), copy.deepcopy(events)
        try:
            call()
        except tuple(REASONS) as error:
            reason = REASONS[type(error)]
        else:
            assert not plan.refused
            self.accepted(side, handle, plan, raw)
            return
        assert reason in ({STALE, MISSING} if plan.may_refuse else plan.refused)
        assert shown(handle.session) == before
        assert events == given

    def accepted(self, side: int, handle: Handle, plan: Plan, raw: list[EventDict]) -> None:
        """Let the model follow an append, and compare the handle."""
        self.model.carry_out(handle.known, plan, raw)
        for event in plan.stored:
            self.note_sharing(side, event["actions"]["state_delta"])
        session, known = handle.session, handle.known
        assert [as_dict(event) for event in session.events] == known.events
        assert session.state == known.state
        if plan.shown:
            assert session.last_update_time == plan.shown[-1]["timestamp"]

    def note_sharing(self, side: int, delta: dict[str, Any]) -> None:
        """Remember which lake has written shared state."""
        if any(key.startswith(("app:", "user:")) for key in delta):
            self.sharers.add(side)

    def new_id(self) -> str:
        """Return an event id that was never used."""
        self.made += 1
        return f"e{self.made}"

    # --- comparing -------------------------------------------------------------------------

    def get(
        self,
        service: SyncSessionService,
        ids: Ids,
        recent: int | None = None,
        after: float | None = None,
    ) -> Session | None:
        """Read a session."""
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        return service.get_session(
            app_name=ids[0], user_id=ids[1], session_id=ids[2], config=config
        )

    def compare(
        self, session: Session, ids: Ids, recent: int | None = None, after: float | None = None
    ) -> KnownHandle:
        """Compare a session that was read; return what its handle knows."""
        events = self.model.chosen(ids, recent, after)
        assert (session.app_name, session.user_id, session.id) == ids
        assert [as_dict(event) for event in session.events] == events
        assert session.state == self.model.state(ids)
        assert session.last_update_time == self.model.last_update_time(ids)
        return KnownHandle(ids, events, dict(session.state), len(self.model.logs[ids]))

    def compare_list(self, sessions: list[Session], expected: list[Ids]) -> None:
        """Compare a list of sessions, which show everything but their events."""
        assert [(each.app_name, each.user_id, each.id) for each in sessions] == expected
        for session, ids in zip(sessions, expected, strict=True):
            self.compare(session, ids, recent=0)

    def in_order(
        self, app: str, user: str | None, order: str | None = None, *, descending: bool = False
    ) -> list[Ids]:
        """Return the sessions that should be listed."""

        def rank(ids: Ids) -> tuple[Any, ...]:
            if order == "session_id":
                return (ids[2], ids[1])
            return (self.model.last_update_time(ids), ids[1], ids[2])

        return sorted(self.model.living(app, user), key=rank, reverse=descending)

    def compare_all(self, service: SyncSessionService) -> None:
        """Compare every session and scope that ever was."""
        for ids in self.model.logs:
            session = self.get(service, ids)
            assert (session is not None) == self.model.alive(ids)
            if session is not None:
                self.compare(session, ids)
        for app, user in {ids[:2] for ids in self.model.logs}:
            state = service.get_user_state(app_name=app, user_id=user)
            assert state == self.model.users.get((app, user), {})
            listed = service.list_sessions(app_name=app, user_id=user).sessions
            self.compare_list(listed, self.in_order(app, user))
        for app in {ids[0] for ids in self.model.logs}:
            listed = service.list_sessions(app_name=app).sessions
            self.compare_list(listed, self.in_order(app, None))

    def compare_cold(self) -> None:
        """Compare everything as a reader sees it that has just opened the lake."""
        with Lake(self.store, clock=self.clock, read_only=True) as lake:
            self.compare_all(LakeSessionService(lake).sync)

    def compare_sql(self, lake: Lake) -> None:
        """Compare what SQL sees: living sessions, and their events in commit order."""
        self.queried.add(lake)
        living = sorted(ids for ids in self.model.logs if self.model.alive(ids))
        rows = lake.sql(
            "select app_name, user_id, session_id, event_json from events"
            " order by app_name, user_id, session_id, version, ordinal"
        ).fetchall()
        events = [(*ids, event) for ids in living for event in self.model.events(ids)]
        found = [(*row[:3], as_dict(Event.model_validate_json(row[3]))) for row in rows]
        assert found == events

        rows = lake.sql(
            "select app_name, user_id, session_id, events, state, epoch_us(last_update_time)"
            " from sessions order by app_name, user_id, session_id"
        ).fetchall()
        assert [row[:3] for row in rows] == living
        for *_, count, state, micros in rows:
            ids = living.pop(0)
            assert count == len(self.model.events(ids))
            assert json.loads(state) == self.model.own_state(ids)
            assert abs(micros - self.model.last_update_time(ids) * 1e6) <= 1
