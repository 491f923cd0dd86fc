"""A lake that jobs work on: histories by one writer, and stores that delete what is packed.

Owns which histories there are; each has what makes packing hard.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import Session
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.history.archive import STATE
from lakestore.history.entries import decode_entry
from lakestore.log.commits import list_logs
from lakestore.log.keys import (
    EVENT_LOGS,
    STATE_ENTRIES,
    SessionKey,
    app_manifests,
    parse_log_name,
)
from lakestore.log.manifests import Manifest
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.clocks import ManualClock

APP = "travel"
ODD_USERS = ("ana", "Ana", "ü/3", "🙂", "z" * 200, "a%2fb", "~", "-")
"""Of some only a digest is in keys, and keys sort otherwise than the ids do."""


def event(number: int, **delta: Any) -> Event:
    """Return an event that sets some state."""
    return Event(
        id=f"e{number}",
        author="user" if number % 2 else "agent",
        invocation_id=f"i{number // 2}",
        timestamp=1_000.0 + number / 3,
        content=types.Content(role="user", parts=[types.Part(text=f"hello {number}")]),
        actions=EventActions(state_delta=delta),
    )


class Busy:
    """A service under which sessions come, grow, end and come again, at random but always alike."""

    def __init__(self, lake: Lake, users: tuple[str, ...] = ODD_USERS, seed: int = 1) -> None:
        self.lake = lake
        self.users = users
        self.service: SyncSessionService = LakeSessionService(lake).sync
        self.sessions: dict[tuple[str, str], Session] = {}
        self._chance = random.Random(seed)
        self._ended: list[tuple[str, str]] = []
        self._number = 0

    def work(self, steps: int) -> None:
        """Do that many things."""
        for _ in range(steps):
            user = self._chance.choice(self.users)
            mine = [key for key in self.sessions if key[0] == user]
            chance = self._chance.random()
            if not mine or chance < 0.12:
                self._create(user)
            elif chance < 0.2:
                self._delete(self._chance.choice(mine))
            else:
                self._append(self._chance.choice(mine))

    def _create(self, user: str) -> None:
        self._number += 1
        again = [session_id for owner, session_id in self._ended if owner == user]
        session_id = again[-1] if again else f"s/{self._number:03}" + "x" * (self._number % 3 * 60)
        state = {"begun": self._number, f"user:{self._number % 5}": self._number}
        self.sessions[user, session_id] = self.service.create_session(
            app_name=APP, user_id=user, session_id=session_id, state=state
        )
        if again:
            self._ended.remove((user, session_id))

    def _delete(self, key: tuple[str, str]) -> None:
        self.service.delete_session(app_name=APP, user_id=key[0], session_id=key[1])
        del self.sessions[key]
        self._ended.append(key)

    def _append(self, key: tuple[str, str]) -> None:
        number = self._number = self._number + 1
        session = self.sessions[key]
        delta: dict[str, Any] = {f"k{number % 4}": number} if number % 2 else {}
        if number % 3 == 0:
            delta |= {"user:last": number, "app:last": number, f"app:{number % 7}": number}
        if number % 5 == 0:
            batch = [event(number, **delta), event(number + 1), event(number + 2, k0=None)]
            self._number += 2
            self.service.append_events(session, batch)
        else:
            self.service.append_event(session, event(number, **delta))


def newest(lake: Lake, app: str = APP) -> Manifest:
    """Return the newest manifest of an app."""
    return lake.sessions.archive.newest(app_manifests(app))


def delete_packed(lake: Lake, store: ObjectStore, app: str = APP) -> int:
    """Delete all that the newest manifest makes needless, grace or not; return how many objects."""
    manifest = newest(lake, app)
    packed = {each.key.log: each.row.version for each in lake.sessions.archive.sessions(manifest)}
    gone = [doomed.key for doomed in manifest.doomed]
    gone += [each.key for each in store.list(STATE_ENTRIES) if _is_packed(lake, each.key, store)]
    for log, _ in list(list_logs(store, EVENT_LOGS)):
        for stored in list(store.list(log)):
            version, _ = parse_log_name(stored.key.removeprefix(log)) or (0, False)
            if version <= packed.get(log, 0):
                gone.append(stored.key)
    for key in gone:
        store.delete(key)
    return len(gone)


def _is_packed(lake: Lake, entry: str, store: ObjectStore) -> bool:
    rows = {STATE.place(row): row for row in decode_entry(entry, store.get(entry))}
    app = next(iter(rows.values())).app_name
    packed = lake.sessions.archive.rows_at(STATE, newest(lake, app), rows)
    return all(place in packed and not packed[place].precedes(rows[place]) for place in rows)


class Site:
    """One lake in memory, and the hosts that have it open."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore("site", clock=self.clock)
        self._lakes: list[Lake] = []

    def lake(self, store: ObjectStore | None = None, **options: Any) -> Lake:
        """Open the lake once more, with nothing known; `store` may do faulty things."""
        lake = Lake(store or self.store, clock=self.clock, **options)
        self._lakes.append(lake)
        return lake

    def close(self) -> None:
        """Close what was opened."""
        for lake in self._lakes:
            lake.close()


def keys_of(sessions: dict[tuple[str, str], Session]) -> Iterator[SessionKey]:
    """Yield the keys of sessions."""
    return (SessionKey(APP, user, session_id) for user, session_id in sessions)
