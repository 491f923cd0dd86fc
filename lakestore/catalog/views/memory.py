"""The view `memory`: what agents remember, one row a memory."""

from lakestore.catalog.views.view import FLAG, TEXT, TIME, Column, View

_COLUMNS = {
    "app_name": Column(TEXT, "the app"),
    "user_id": Column(TEXT, "whose memory it is; null for what all users of the app share"),
    "scope": Column(TEXT, "user, or app for what all users of the app share"),
    "id": Column(TEXT, "names it among those of its session and user; of an event that event's"),
    "session_id": Column(TEXT, "the session that it came from; null for none"),
    "source_user_id": Column(TEXT, "the user whom it came from, whosesoever memory it is"),
    "event_id": Column(TEXT, "the event that it came from; null for none"),
    "invocation_id": Column(TEXT, "the turn of that event"),
    "author": Column(TEXT, "user, or the name of the agent"),
    "tool_call_id": Column(TEXT, "the function call that it came from, or answers"),
    "event_time": Column(TIME, "when it happened; null where nobody said"),
    "added_at": Column(TIME, "when it was added first, as its writer stamped it"),
    "inserted_at": Column(TIME, "when it was stored as it is now, by the writer's clock"),
    "text": Column(TEXT, "what is searched: the text parts, joined by newlines"),
    "content": Column(TEXT, "ADK's Content as JSON"),
    "custom_metadata": Column(TEXT, "JSON object, null for none"),
    "extracted": Column(FLAG, "whether a rebuild made it, so that the next one replaces it"),
}

MEMORY = View(
    "one row a memory that was added and not forgotten",
    _COLUMNS,
    """
SELECT app_name, user_id, CASE WHEN user_id IS NULL THEN 'app' ELSE 'user' END AS scope, id,
  session_id, source_user_id, event_id, invocation_id, author, tool_call_id, event_time,
  make_timestamptz(TRY_CAST(left(place, 17) AS BIGINT)) AS added_at, inserted_at, text, content,
  custom_metadata, extracted
FROM internal.memory_rows
""",
)
