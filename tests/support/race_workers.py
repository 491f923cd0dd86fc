"""Writers, compactions and sweeps in processes of their own, over one folder with short limits.

What they have been told is theirs to return; the test compares it with what is there.
"""

from __future__ import annotations

import json
import time
from random import Random

from lakestore import Lake
from lakestore.errors import AlreadyExistsError, ConflictError, StorageError, UnknownOutcomeError
from lakestore.jobs import compact, sweep
from lakestore.log.commits import Marker
from lakestore.log.keys import SessionKey
from tests.support.histories import said
from tests.support.processes import at_once

APP, USER = "travel", "ana"
PACK_BYTES = 30_000

Told = tuple[dict[SessionKey, list[str]], set[str], int]
"""The events that were acknowledged by session, those whose outcome is not known, and the number
of the last one whose shared state was."""


def event_ids(lake: Lake, key: SessionKey) -> list[str]:
    """Return the ids of a session's events, as a reader gets them."""
    table = lake.user_events(key.app_name, key.user_id, session_ids=[key.session_id])
    return [json.loads(event)["id"] for event in table["event_json"].to_pylist()]


def work(url: str, role: str, number: int, seconds: float) -> Told | int:
    """Write, compact or sweep for some seconds; return what was acknowledged, or deleted."""
    lake, random, end = Lake.open(url), Random(number), time.monotonic() + seconds
    at_once()
    with lake:
        if role == "write":
            return _Writer(lake, number, random).run(end)
        deleted = 0
        while time.monotonic() < end:
            try:
                if role == "compact":
                    compact(lake, pack_bytes=PACK_BYTES)
                else:
                    report = sweep(lake)
                    assert report.failures == 0, report.reasons
                    deleted += report.objects
            except ConflictError:  # overtaken, or taken for dead: the limits are that short
                pass
            time.sleep(random.random() / 5)
        return deleted


class _Writer:
    """Appends to a few sessions, rests now and then for too long, and reads back what it wrote."""

    def __init__(self, lake: Lake, number: int, random: Random) -> None:
        self._lake = lake
        self._sessions = lake.sessions
        self._name = f"w{number}"
        self._random = random
        self._acknowledged: dict[SessionKey, list[str]] = {}
        self._unknown: set[str] = set()
        self._markers: dict[SessionKey, Marker] = {}
        self._last = 0

    def run(self, end: float) -> Told:
        """Write until then."""
        count = 0
        while time.monotonic() < end:
            count += 1
            key = SessionKey(APP, USER, f"{self._name}-{self._random.randrange(4)}")
            try:
                self._write(key, count)
            except (ConflictError, AlreadyExistsError, UnknownOutcomeError) as error:
                if isinstance(error, UnknownOutcomeError):
                    self._unknown.add(f"{self._name}-{count}")
                self._markers[key] = self._sessions.load(key).marker
                self._acknowledged.setdefault(key, [])
            except StorageError:  # it was told that nothing was written
                pass
            chance = self._random.random()
            if chance < 0.02:
                time.sleep(1.2 * self._random.random())
            elif chance < 0.06:
                known = [each for each in event_ids(self._lake, key) if each not in self._unknown]
                assert known == self._acknowledged[key]
        return self._acknowledged, self._unknown, self._last

    def _write(self, key: SessionKey, count: int) -> None:
        if key not in self._markers:
            self._markers[key] = self._sessions.create(key, {}, generated=False).marker
            self._acknowledged.setdefault(key, [])
        name = f"{self._name}-{count}"
        draft = said(name, {"n": count, f"user:{self._name}": count, "app:any": name})
        self._markers[key] = self._sessions.append(key, self._markers[key], [draft]).marker
        self._acknowledged[key].append(name)
        self._last = count
