"""A lake as plain dicts: the oracle of the session state machine.

It knows ADK's words (ids, events and state as JSON dicts) and the rules of the contract, and shares
no code with lakestore, so that a mistake there cannot hide here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Ids = tuple[str, str, str]
"""App, user and session."""
EventDict = dict[str, Any]
State = dict[str, Any]

STALE = "stale"
MISSING = "missing"
EXISTS = "exists"


@dataclass
class Shown:
    """An event as readers see it."""

    event: EventDict
    ordinal: int
    """Its place in its commit."""
    stands_for: int = 0
    """How many events that were pruned it stands for; 0 for one as it was."""


@dataclass
class Commit:
    """One step of a session's history."""

    kind: str
    """`create`, `event` or `delete`."""
    events: list[EventDict] = field(default_factory=list)
    """As they were sent, pruned ones too."""
    state: State = field(default_factory=dict)
    """A creation's own keys."""
    at: float = 0.0
    """When it was made."""
    shown: list[Shown] = field(init=False)

    def __post_init__(self) -> None:
        self.shown = [Shown(event, ordinal) for ordinal, event in enumerate(self.events)]


@dataclass
class KnownHandle:
    """What a `Session` object that a caller holds should show."""

    ids: Ids
    events: list[EventDict]
    state: State
    version: int | None
    """How many commits it knows; None when it has lost its marker."""


@dataclass
class Plan:
    """What an append should do, before it is done."""

    refused: frozenset[str] = frozenset()
    """One of these errors must be raised; empty: it must succeed, unless `may_refuse`."""
    may_refuse: bool = False
    """What it would recognise as its own may have been swept or have ended since."""
    shown: list[EventDict] = field(default_factory=list)
    """What the handle shows besides, afterwards."""
    stored: list[EventDict] = field(default_factory=list)
    """What is new in the lake."""
    version: int | None = None
    """How many commits the handle knows before `stored` is one more."""


def without_temp(event: EventDict) -> EventDict:
    """Return the event as it is to be stored."""
    actions = dict(event["actions"])
    actions["state_delta"] = {
        key: value
        for key, value in actions.get("state_delta", {}).items()
        if not key.startswith("temp:")
    }
    return {**event, "actions": actions}


def time_of(event: EventDict) -> float:
    """Return the event's timestamp."""
    return float(event["timestamp"])


class LakeModel:
    """Sessions and the state of three scopes."""

    def __init__(self, wall: Callable[[], float] = float) -> None:
        self.wall = wall
        self.logs: dict[Ids, list[Commit]] = {}
        self.users: dict[tuple[str, str], State] = {}
        self.set_at: dict[tuple[str, str, str], float] = {}
        """When each key of a user of an app was set last."""
        self.apps: dict[str, State] = {}
        self.born: dict[Ids, float] = {}
        self.swept: set[Ids] = set()
        """Sessions of which old commits may be gone."""

    # --- what should be read ---------------------------------------------------------------

    def alive(self, ids: Ids) -> bool:
        """Tell whether the session exists now."""
        log = self.logs.get(ids, [])
        return bool(log) and log[-1].kind != "delete"

    def living(self, app: str, user: str | None) -> list[Ids]:
        """Return the sessions that exist, of one user or of all."""
        return [
            ids for ids in self.logs if ids[0] == app and user in (None, ids[1]) and self.alive(ids)
        ]

    def events(self, ids: Ids) -> list[EventDict]:
        """Return the events of the session's present life."""
        return [shown.event for commit in self.life(ids) for shown in commit.shown]

    def chosen(self, ids: Ids, recent: int | None, after: float | None) -> list[EventDict]:
        """Return the events that a read with these limits shows."""
        events = self.events(ids)
        if after is not None:
            events = [event for event in events if time_of(event) >= after]
        if recent is None:
            return events
        return [] if recent == 0 else events[-recent:]

    def state(self, ids: Ids) -> State:
        """Return the state of all three scopes, as a session shows it."""
        merged = self.own_state(ids)
        app, user, _ = ids
        merged.update({"app:" + key: value for key, value in self.apps.get(app, {}).items()})
        shared = self.users.get((app, user), {})
        merged.update({"user:" + key: value for key, value in shared.items()})
        return merged

    def own_state(self, ids: Ids) -> State:
        """Return the state that is the session's alone."""
        own: State = {}
        for commit in self.life(ids):
            own.update(own_part(commit.state))
            for event in commit.events:
                own.update(own_part(event["actions"]["state_delta"]))
        return own

    def last_update_time(self, ids: Ids) -> float:
        """Return the time of the last event, or of the creation."""
        events = self.events(ids)
        return time_of(events[-1]) if events else self.born[ids]

    def user_events(
        self, app: str, user: str, since: float | None, until: float | None, limit: int | None
    ) -> list[EventDict]:
        """Return the events of all the user's sessions, chronologically."""
        found = [
            event
            for ids in sorted(self.living(app, user), key=lambda ids: ids[2])
            for event in self.events(ids)
            if (since is None or time_of(event) > since)
            and (until is None or time_of(event) <= until)
        ]
        found.sort(key=time_of)
        return found if limit is None else found[max(0, len(found) - limit) :]

    def life(self, ids: Ids) -> list[Commit]:
        """Return the commits since the session was last deleted."""
        log = self.logs.get(ids, [])
        deleted = [place for place, commit in enumerate(log) if commit.kind == "delete"]
        return log[deleted[-1] + 1 :] if deleted else log

    # --- what should be written ------------------------------------------------------------

    def create(self, ids: Ids, state: State, born: float) -> None:
        """Begin a session, which must not exist."""
        assert not self.alive(ids)
        self.logs.setdefault(ids, []).append(Commit("create", state=state, at=self.wall()))
        self.born[ids] = born
        self._share(ids, state)

    def delete(self, ids: Ids) -> None:
        """End a session, if it exists."""
        if self.alive(ids):
            self.logs[ids].append(Commit("delete", at=self.wall()))

    def plan_append(self, handle: KnownHandle, events: list[EventDict]) -> Plan:
        """Return what appending `events` through `handle` should do."""
        fresh: list[EventDict] = []
        for event in events:
            held = [each for each in [*fresh, *handle.events] if each["id"] == event["id"]]
            if held and held[0] != event:
                return Plan(refused=frozenset({EXISTS}))
            if not held:
                fresh.append(event)
        if not fresh:
            return Plan(version=handle.version)
        version = handle.version
        if version is None:
            refused = self._refuses_unmarked(handle, fresh)
            if refused:
                return Plan(refused=frozenset({refused}))
            version = len(self.logs[handle.ids])
        return self._plan_from(handle.ids, version, fresh)

    def _refuses_unmarked(self, handle: KnownHandle, fresh: list[EventDict]) -> str:
        """A handle without a marker is current when it ends as the stored session does."""
        if not self.alive(handle.ids):
            return MISSING
        known = [event["id"] for event in handle.events if event not in fresh]
        stored = [event["id"] for event in self.events(handle.ids)]
        return "" if known[-1:] == stored[-1:] else STALE

    def _plan_from(self, ids: Ids, version: int, fresh: list[EventDict]) -> Plan:
        log, pending, at = self.logs[ids], list(fresh), version
        # Who was overtaken and whose session has ended meanwhile may be told either of the two.
        ended = any(commit.kind == "delete" for commit in log[version:])
        found: list[EventDict] = []
        while pending and at < len(log):
            there = log[at]
            if not any(event in pending for event in there.events):
                reason = MISSING if there.kind == "delete" else STALE
                return Plan(refused=frozenset({MISSING, STALE} if ended else {reason}))
            # Whoever has sent one of its events has sent this commit, with all that is in it.
            found += there.events
            pending = [event for event in pending if event not in there.events]
            at += 1
        may_refuse = at > version and (ended or ids in self.swept)
        return Plan(may_refuse=may_refuse, shown=found + pending, stored=pending, version=at)

    def carry_out(self, handle: KnownHandle, plan: Plan, raw: list[EventDict]) -> None:
        """Do what `plan` says; `raw` are its events with their `temp:` keys."""
        if plan.stored:
            self.logs[handle.ids].append(Commit("event", plan.stored, at=self.wall()))
            for event in plan.stored:
                self._share(handle.ids, event["actions"]["state_delta"])
        if not plan.shown:
            return
        assert plan.version is not None
        handle.version = plan.version + bool(plan.stored)
        handle.events += plan.shown
        given = {event["id"]: event for event in raw}
        for event in plan.shown:
            actions = given.get(event["id"], event)["actions"]
            handle.state.update(actions.get("state_delta", {}))

    def _share(self, ids: Ids, delta: State) -> None:
        app, user, _ = ids
        for key, value in delta.items():
            if key.startswith("app:"):
                self.apps.setdefault(app, {})[key[len("app:") :]] = value
            elif key.startswith("user:"):
                name = key[len("user:") :]
                self.users.setdefault((app, user), {})[name] = value
                self.set_at[app, user, name] = self.wall()


def own_part(delta: State) -> State:
    """Return the keys that are a session's alone."""
    shared = ("app:", "user:", "temp:")
    return {key: value for key, value in delta.items() if not key.startswith(shared)}
