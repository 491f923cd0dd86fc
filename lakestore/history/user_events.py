"""All events of one user, over all sessions, in one pass."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from lakestore.checks import check_texts, check_time
from lakestore.errors import LakeError
from lakestore.history.reading import Wanted
from lakestore.history.sessions import Sessions
from lakestore.log.ids import check_id
from lakestore.log.keys import SessionKey
from lakestore.tables.events import EventRow, event_time

logger = logging.getLogger(__name__)

_SESSIONS_AT_ONCE = 1_024


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
    views = (
        view
        for view in sessions.read_all(app_name, user_id)
        if wanted is None or view.key.session_id in wanted
    )
    found: dict[str, list[EventRow]] = {}
    while some := list(islice(views, _SESSIONS_AT_ONCE)):
        rows_of = sessions.events(some, Wanted(after=after))
        for view, rows in zip(some, rows_of, strict=True):
            if isinstance(rows, LakeError):
                if wanted is not None:
                    raise rows
                logger.error("a session cannot be read and was passed over: %s", rows)
            else:
                found[view.key.session_id] = rows
    for session_id in (wanted or set()).difference(found):
        # Listings pass over what is damaged; of a session that was asked for that must be told.
        sessions.load(SessionKey(app_name, user_id, check_id("session_id", session_id)))
    rows = [row for _, events in sorted(found.items()) for row in events]
    if after is None and upto is None:
        return rows
    return [row for row in rows if _is_between(row, after, upto)]


def _is_between(row: EventRow, after: float | None, upto: float | None) -> bool:
    time = event_time(row)
    return (after is None or time > after) and (upto is None or time <= upto)
