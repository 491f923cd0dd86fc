"""Stamps: hybrid logical clock times that order writes to shared keys. Owns no storage.

A stamp is later than every stamp its process has read in that scope, so what was written after
reading sorts after it whatever the clocks say; writes that never read each other are ordered by
their writers' clocks.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from lakestore.clock import Clock, NewToken
from lakestore.log.keys import Scope

_SCOPES_REMEMBERED = 65_536
_LAST_MICROSECOND = 10**17 - 10**6
"""Some seconds before what 17 digits hold, so that there are always later ones."""


def stamp_text(micros: int, counter: int, token: str) -> str:
    """Return a stamp: 17 digits of microseconds since 1970, 6 of a counter, 16 of a random token.

    Stamps of one scope compare as texts.
    """
    return f"{micros:017}-{counter:06}-{token}"


class Stamper:
    """Makes stamps, each later than all that were seen in its scopes."""

    def __init__(self, clock: Clock, new_token: NewToken) -> None:
        self._clock = clock
        self._new_token = new_token
        self._lock = Lock()
        self._seen: OrderedDict[Scope, tuple[int, int]] = OrderedDict()
        # What is forgotten of single scopes is kept as one bound for all of them.
        self._floor = (0, 0)

    def see(self, scope: Scope, stamp: str) -> None:
        """Note that `stamp` was read in `scope`."""
        micros, counter, _ = stamp.split("-")
        with self._lock:
            self._note(scope, (int(micros), int(counter)))

    def stamp(self, scopes: list[Scope]) -> str:
        """Return a stamp that is later than all seen in each of `scopes`."""
        now = (min(max(0, int(self._clock.wall() * 1_000_000)), _LAST_MICROSECOND), 0)
        with self._lock:
            latest = max(self._seen.get(scope, self._floor) for scope in scopes)
            time = now if now > latest else (latest[0], latest[1] + 1)
            if time[1] > 999_999:
                time = (time[0] + 1, 0)
            for scope in scopes:
                self._note(scope, time)
        return stamp_text(*time, self._new_token())

    def _note(self, scope: Scope, time: tuple[int, int]) -> None:
        self._seen[scope] = max(time, self._seen.get(scope, self._floor))
        self._seen.move_to_end(scope)
        if len(self._seen) > _SCOPES_REMEMBERED:
            _, forgotten = self._seen.popitem(last=False)
            self._floor = max(self._floor, forgotten)
