"""Pruning beside damage: what cannot be read stays as it is, and stops nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from lakestore.errors import FormatError
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact, prune_events, prune_sessions
from lakestore.log.keys import app_manifests, pack_key
from lakestore.storage import MemoryStore
from tests.support.aging import APP, AgingLake
from tests.support.clocks import ManualClock

USERS = ("ana", "ben", "cleo")


@pytest.fixture
def aging() -> AgingLake:
    """A lake with a session a user, each in a pack of its own, long ago."""
    clock = ManualClock()
    made = AgingLake(MemoryStore(clock=clock), clock)
    for user in USERS:
        session = made.create("s", user_id=user)
        for number in range(3):
            made.say(session, f"I say {number}")
    compact(made.lake, pack_bytes=1)
    made.pass_days(200)
    return made


def harmed(aging: AgingLake) -> Callable[[], None]:
    """Damage the pack of one user; return what undoes it."""
    archive = aging.lake.sessions.archive
    newest = archive.newest(app_manifests(APP))
    rows = {each.row.user_id: each.row for each in archive.sessions(newest)}
    key = pack_key(APP, EVENTS.name, rows["ben"].segments[0].pack)
    body = aging.store.get(key)
    aging.store.delete(key)
    aging.store.put_if_absent(key, body[:100] + bytes(200) + body[300:])

    def mend() -> None:
        aging.store.delete(key)
        aging.store.put_if_absent(key, body)

    return mend


@pytest.mark.parametrize(
    ("prune", "each"), [(prune_sessions, 1), (prune_events, 3)], ids=["sessions", "events"]
)
def test_what_cannot_be_read_stays(
    aging: AgingLake, prune: Callable[..., Any], each: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged session is left, named in the log, and pruned once it was restored."""
    mend = harmed(aging)
    lake = aging.open()
    with caplog.at_level(logging.ERROR):
        would = prune(lake, dry_run=True)
        done = prune(lake)
    assert would["deleted_count"] == done["deleted_count"] == 2 * each
    assert would["deleted_bytes"] == done["deleted_bytes"] > 0
    assert "packs/" in caplog.text
    with pytest.raises(FormatError):
        aging.service_of(aging.open()).get_session(app_name=APP, user_id="ben", session_id="s")
    mend()
    assert prune(aging.open())["deleted_count"] == each
