"""All events of one user, over all sessions, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lakestore.checks import check_texts, check_time
from lakestore.history.sessions import Sessions
from lakestore.log.keys import SessionKey, check_id
from lakestore.tables.events import EventRow, event_of


def event_rows(
    sessions: Sessions,
    app_name: str,
    user_id: str,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    session_ids: Sequence[str] | None = None,
) -> list[EventRow]:
    """Return the event rows of a user's living sessions.

    Args:
        sessions: Where they are.
        app_name: The app.
        user_id: The user.
        since: Only events after this time (exclusive).
        until: Only events up to this time (inclusive).
        session_ids: Only these sessions.

    Returns:
        Session by session, ordered by id, each in commit order.

    Raises:
        InputError: an id or time makes no sense.
        FormatError: an object of one of `session_ids` is damaged.
        StorageError: the store failed.
    """
    check_id("app_name", app_name)
    check_id("user_id", user_id)
    after, upto = check_time("since", since), check_time("until", until)
    wanted = None if session_ids is None else set(check_texts("session_ids", session_ids))
    found: dict[str, list[EventRow]] = {}
    for view in sessions.read_all(app_name, user_id):
        if wanted is None or view.key.session_id in wanted:
            found[view.key.session_id] = view.events()
    for session_id in (wanted or set()).difference(found):
        # Listings pass over what is damaged; of a session that was asked for that must be told.
        sessions.load(SessionKey(app_name, user_id, check_id("session_id", session_id)))
    rows = [row for _, events in sorted(found.items()) for row in events]
    if after is None and upto is None:
        return rows
    return [row for row in rows if _is_between(row, after, upto)]


def event_time(row: EventRow) -> float:
    """Return the event's exact time in seconds since 1970 UTC; 0.0 when it has none."""
    found = event_of(row).get("timestamp")
    try:
        return float(found) if isinstance(found, int | float) else 0.0
    except OverflowError:
        return 0.0


def _is_between(row: EventRow, after: float | None, upto: float | None) -> bool:
    time = event_time(row)
    return (after is None or time > after) and (upto is None or time <= upto)
