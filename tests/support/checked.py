"""A lake with objects of every kind for a check to read, and what is done to them."""

from __future__ import annotations

from collections.abc import Callable

from lakestore.errors import LakeError
from lakestore.jobs import CheckReport, compact, sweep
from lakestore.log.keys import Scope, SessionKey
from tests.support.histories import said, several
from tests.support.sites import APP, LIMIT, Site

OLD = SessionKey(APP, "ana", "old")
"""All of it is packed."""
BOTH = SessionKey(APP, "ana", "both")
"""Its first commits are packed."""
LONG = SessionKey(APP, "Bo", "long")
"""It has a rollup."""
NEW = SessionKey(APP, "Bo", "new")
"""Nothing of it is packed."""


def full_site() -> Site:
    """Return a lake with objects of every kind, and nothing wrong."""
    site = Site()
    sessions = site.lake.sessions
    for key in (OLD, BOTH):
        marker = sessions.create(key, {"a": 1, "user:old": 1, "app:old": 1}, generated=True).marker
        for draft in several(3):
            marker = sessions.append(key, marker, [draft]).marker
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    sessions.append(BOTH, sessions.load(BOTH).marker, [said("fresh", {"b": 2, "user:both": 2})])
    for key in (LONG, NEW):
        marker = sessions.create(key, {"a": 1, f"user:{key.session_id}": 1}, generated=True).marker
        for draft in several(3):
            marker = sessions.append(key, marker, [draft]).marker
    sessions.roll_up(LONG, force=True)
    sessions.append(LONG, sessions.load(LONG).marker, [said("after", {"app:long": 3})])
    sessions.shared.fold_entries(Scope(APP, "Bo"))
    site.clock.advance(LIMIT)
    return site


def flipped(body: bytes) -> bytes:
    """Return `body` with a run of bytes changed in its middle."""
    half = len(body) // 2
    return body[:half] + bytes(byte ^ 0xFF for byte in body[half : half + 8]) + body[half + 8 :]


def truncated(body: bytes) -> bytes:
    """Return the first half of `body`."""
    return body[: len(body) // 2]


def change(site: Site, key: str, how: Callable[[bytes], bytes] | None) -> None:
    """Change an object behind everyone's back, or (None) delete it."""
    body = site.store.get(key)
    site.store.delete(key)
    if how is not None:
        site.store.put_if_absent(key, how(body))


def told(report: CheckReport) -> list[tuple[str, str]]:
    """Return severity and kind of all findings."""
    return sorted({(each.severity, each.kind) for each in report.findings})


def readable(site: Site) -> set[SessionKey]:
    """Return the sessions that a new process can read, with all events."""
    found = set()
    with site.open(read_only=True) as lake:
        for key in (OLD, BOTH, LONG, NEW):
            try:
                if lake.sessions.read(key) is not None:
                    lake.user_events(key.app_name, key.user_id, session_ids=[key.session_id])
                    found.add(key)
            except LakeError:
                pass
    return found
