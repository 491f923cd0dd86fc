"""The rules of the session state machine: which operations there are, and when they are refused.

How they are compared with the model is `tests.support.lake_against_model`'s; what they are given is
`tests.support.session_events`'.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.sessions import Session
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, multiple, rule

from lakestore.log.keys import Scope, SessionKey
from tests.support import session_events as generated
from tests.support.lake_against_model import Handle, LakeAgainstModel, as_dict
from tests.support.model import Ids
from tests.support.session_events import Said

SIDES = st.integers(0, 1)


class SessionRules(LakeAgainstModel):
    """Any order of operations through any handle is answered as the model answers it."""

    handles: Bundle[Handle] = Bundle("handles")

    # --- sessions come and go --------------------------------------------------------------

    @initialize(target=handles, names=generated.lookalikes, state=generated.states)
    def begin(self, names: tuple[str, str], state: dict[str, Any]) -> MultipleResults[Handle]:
        """Two sessions of one user are there, so that operations have something to meet in."""
        made = []
        for name in names:
            before = self.clock.wall()
            session = self.services[0].create_session(
                app_name=generated.APPS[0],
                user_id=generated.USERS[0],
                session_id=name,
                state=dict(state),
            )
            made.append(self.begun(0, session, state, before))
        return multiple(*made)

    @rule(
        target=handles,
        side=SIDES,
        handle=handles,
        ids=st.none() | generated.ids,
        blank=generated.blanks,
        state=generated.states,
    )
    def create(
        self, side: int, handle: Handle, ids: Ids | None, blank: str, state: dict[str, Any]
    ) -> Handle | MultipleResults[Handle]:
        """A living id is refused; any other, a deleted one too, begins a session."""
        ids = ids or handle.known.ids
        service, (app, user, name) = self.services[side], ids
        assert (self.get(service, ids) is not None) == self.model.alive(ids)
        before = self.clock.wall()
        try:
            session = service.create_session(
                app_name=app, user_id=user, session_id=blank + name + blank, state=dict(state)
            )
        except AlreadyExistsError:
            assert self.model.alive(ids)
            return multiple()
        assert not self.model.alive(ids)
        assert session.id == name
        return self.begun(side, session, state, before)

    @rule(target=handles, side=SIDES, handle=handles, state=generated.states)
    def create_unnamed(self, side: int, handle: Handle, state: dict[str, Any]) -> Handle:
        """Without an id, or with a blank one, a new one is made."""
        app, user, _ = handle.known.ids
        before = self.clock.wall()
        session = self.services[side].create_session(
            app_name=app, user_id=user, session_id=None if side else " ", state=dict(state)
        )
        assert (app, user, session.id) not in self.model.logs
        return self.begun(side, session, state, before)

    @rule(side=SIDES, handle=handles, blank=generated.blanks)
    def delete(self, side: int, handle: Handle, blank: str) -> None:
        """A deleted session is gone; deleting what is not there is no error."""
        app, user, name = handle.known.ids
        self.services[side].delete_session(app_name=app, user_id=user, session_id=blank + name)
        self.model.delete(handle.known.ids)
        assert self.get(self.services[side], handle.known.ids) is None

    # --- handles ---------------------------------------------------------------------------

    @rule(
        target=handles,
        side=SIDES,
        handle=handles,
        recent=generated.counts,
        after=generated.some_times,
    )
    def read(
        self, side: int, handle: Handle, recent: int | None, after: float | None
    ) -> Handle | MultipleResults[Handle]:
        """A read shows the chosen events in commit order, and the state of all scopes."""
        ids = handle.known.ids
        session = self.get(self.services[side], ids, recent, after)
        if session is None:
            assert not self.model.alive(ids)
            return multiple()
        return Handle(session, self.compare(session, ids, recent, after))

    @rule(target=handles, handle=handles, as_json=st.booleans())
    def copy(self, handle: Handle, as_json: bool) -> Handle:
        """A deep copy is as good as its original; through JSON only the marker is lost."""
        made = copy.deepcopy(handle)
        if as_json:
            made.session = Session.model_validate_json(handle.session.model_dump_json())
            made.known.version = None
        return made

    # --- appending -------------------------------------------------------------------------

    @rule(side=SIDES, handle=handles, said=generated.several_said)
    def append(self, side: int, handle: Handle, said: list[Said]) -> None:
        """Events go in one by one if the handle is current, and else nothing changes."""
        service = self.services[side]
        for each in said:
            event = each.event(self.new_id())
            append = partial(service.append_event, handle.session, event)
            self.deliver(side, handle, [event], append)

    @rule(side=SIDES, handle=handles, said=generated.several_said)
    def append_many(self, side: int, handle: Handle, said: list[Said]) -> None:
        """Several events go in as one, or not at all."""
        self.deliver_many(side, handle, [each.event(self.new_id()) for each in said])

    @rule(
        target=handles,
        side=SIDES,
        handle=handles,
        said=generated.several_said,
        again=st.none() | st.lists(generated.said, max_size=1),
    )
    def read_and_append(
        self, side: int, handle: Handle, said: list[Said], again: list[Said] | None
    ) -> Handle | MultipleResults[Handle]:
        """Whoever has just read is current, and leaves all others behind."""
        ids = handle.known.ids
        session = self.get(self.services[side], ids)
        if session is None:
            return multiple()
        fresh = Handle(session, self.compare(session, ids))
        overtaken = copy.deepcopy(fresh)
        events = [each.event(self.new_id()) for each in said]
        copies = copy.deepcopy(events)
        self.deliver_many(side, fresh, events)
        if again is not None:
            # As after a lost reply: who was overtaken by its own events takes them over.
            copies += [each.event(self.new_id()) for each in again]
            self.deliver_many(1 - side, overtaken, copies)
        return multiple(fresh, overtaken)

    @rule(side=SIDES, handle=handles, said=generated.said, draw=st.data())
    def deliver_again(self, side: int, handle: Handle, said: Said, draw: st.DataObject) -> None:
        """What was stored is taken once, by whoever holds it or comes right before it."""
        known = handle.known
        stored = self.model.logs.get(known.ids, [])
        after = [] if known.version is None else stored[known.version : known.version + 2]
        pool = [event for commit in after for event in commit.events] + known.events
        if not pool:
            return
        first = draw.draw(st.integers(0, len(pool) - 1))
        several = pool[first : first + draw.draw(st.integers(1, 3))]
        if draw.draw(st.booleans()):
            several.reverse()
        events = [Event.model_validate(each) for each in several]
        if draw.draw(st.booleans()):
            events[-1].actions.state_delta["temp:again"] = 1
        if draw.draw(st.booleans()):
            events.append(said.event(self.new_id()))
        self.deliver_many(side, handle, events)
        if known.events:
            # Other content under the id of an event that the handle holds is refused.
            other = said.event(known.events[-1]["id"])
            other.author = "someone else"
            self.deliver_many(side, handle, [other])

    # --- reading over sessions -------------------------------------------------------------

    @rule(
        side=SIDES,
        handle=handles,
        everyone=st.booleans(),
        order=st.sampled_from([None, "last_update_time", "session_id"]),
        descending=st.booleans(),
        limit=generated.counts,
        offset=generated.counts,
    )
    def page(
        self,
        side: int,
        handle: Handle,
        everyone: bool,
        order: Any,
        descending: bool,
        limit: int | None,
        offset: int | None,
    ) -> None:
        """A page is that part of the whole list, in the order asked for."""
        app, user = handle.known.ids[0], None if everyone else handle.known.ids[1]
        found = self.services[side].list_sessions(
            app_name=app,
            user_id=user,
            order_by=order,
            descending=descending,
            limit=limit,
            offset=offset,
        )
        living = self.in_order(app, user, order, descending=descending)
        end = None if limit is None else (offset or 0) + limit
        self.compare_list(found.sessions, living[offset or 0 : end])

    @rule(
        side=SIDES,
        handle=handles,
        since=generated.some_times,
        until=generated.some_times,
        limit=generated.counts,
    )
    def user_events(
        self, side: int, handle: Handle, since: float | None, until: float | None, limit: int | None
    ) -> None:
        """A user's events of all sessions come in time order, `since` exclusive."""
        app, user, _ = handle.known.ids
        found = self.services[side].get_user_events(
            app_name=app, user_id=user, since=since, until=until, limit=limit
        )
        expected = self.model.user_events(app, user, since, until, limit)
        assert [as_dict(event) for event in found] == expected

    # --- what changes no answer ------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 2.0, 301.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        """Time passes: what was seen gets old, and what is needless may be swept."""
        self.clock.advance(seconds)
        self.age_store(seconds)

    @rule(side=SIDES, handle=handles)
    def tidy(self, side: int, handle: Handle) -> None:
        """Rollups and folds, with the sweeps of what older ones cover, may come at any moment."""
        ids = handle.known.ids
        self.lakes[side].sessions.roll_up(SessionKey(*ids), force=True)
        if ids in self.rolled:
            self.model.swept.add(ids)
        self.rolled.add(ids)
        for user in (ids[1], None):
            self.lakes[side].sessions.shared.fold_entries(Scope(ids[0], user))

    @rule(side=SIDES)
    def query(self, side: int) -> None:
        """SQL over sessions and events sees the same."""
        self.compare_sql(self.lakes[side])

    @rule()
    def open_elsewhere(self) -> None:
        """A process that has just begun sees the same."""
        self.compare_cold()
