"""Histories into lakes, through the session service, at the times that they tell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.sessions import Session

from lakestore.adk.sessions import LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.clock import SystemClock
from lakestore.demo.histories.stories import Story
from lakestore.lake import Lake
from lakestore.storage import open_store

_PAUSE = 3_600.0
"""Events that lie further apart go into commits of their own."""


class StoryClock(SystemClock):
    """Tells the time of the story, and how much time really passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now: float | None = None
        """The time that it tells, in seconds since 1970 UTC; None for the machine's."""

    def wall(self) -> float:
        """Return the story's time."""
        return super().wall() if self.now is None else self.now


def open_history(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> tuple[Lake, StoryClock]:
    """Open a lake to write a history to, and the clock that it takes its times from.

    Raises:
        LakeError: as `Lake.open`.
    """
    clock = StoryClock()
    return Lake(open_store(url, dict(storage_options or {})), clock=clock), clock


def write_history(lake: Lake, stories: Iterable[Story], clock: StoryClock | None = None) -> int:
    """Write sessions one after the other; return how many events.

    A session is one commit, and one more for each long pause in it.

    Args:
        lake: Where to.
        stories: The sessions.
        clock: The lake's, as `open_history` gave it: what is written is as old then as it is told,
            for retention too. None: it is written now.

    Raises:
        AlreadyExistsError: a session is there already.
        LakeError: the lake could not be written.
    """
    written = 0
    with LakeSessionService(lake).sync as service:
        for story in stories:
            _write(service, story, clock)
            written += len(story.events)
    if clock is not None:
        clock.now = None
    return written


def _write(service: SyncSessionService, story: Story, clock: StoryClock | None) -> None:
    _set(clock, story.created_at)
    session: Session = service.create_session(
        app_name=story.app_name,
        user_id=story.user_id,
        session_id=story.session_id,
        state=dict(story.state),
    )
    first = 0
    for last, event in enumerate(story.events):
        following = story.events[last + 1 : last + 2]
        if not following or following[0].timestamp - event.timestamp > _PAUSE:
            _set(clock, event.timestamp)
            service.append_events(session, story.events[first : last + 1])
            first = last + 1


def _set(clock: StoryClock | None, now: float) -> None:
    if clock is not None:
        clock.now = now
