"""A lake to look at: twelve weeks of history, written where there is nothing yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakestore.clock import Clock, SystemClock
from lakestore.demo.histories.stories import history
from lakestore.demo.histories.writing import open_history, write_history

SESSIONS, DAYS, SEED = 400, 84, 7
# Some stories go on for a day after they began, for people are waited for.
_ENDS_BEFORE = timedelta(days=1)


def sample_lake(url: str, sessions: int = SESSIONS, clock: Clock | None = None) -> str:
    """Write a history to the lake at `url` unless it has sessions already; return `url`.

    The sessions are the same every time, and told as of the twelve weeks before today.

    Args:
        url: Where the lake is, or will be.
        sessions: How many sessions, of about 16 events each.
        clock: Says what today is.

    Raises:
        LakeError: the lake could not be opened or written.
    """
    until = datetime.fromtimestamp((clock or SystemClock()).wall(), UTC) - _ENDS_BEFORE
    lake, story_clock = open_history(url)
    with lake:
        if sessions and not lake.sessions.apps():
            told = history(sessions=sessions, seed=SEED, days=DAYS, until=until)
            write_history(lake, told, story_clock)
    return url
