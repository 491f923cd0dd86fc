"""The view `messages`: what was said, one row a message."""

from lakestore.catalog.views.view import (
    EVENT,
    EVENT_TIME,
    FLAG,
    IDS,
    MARKS,
    PLACE,
    TEXT,
    Column,
    View,
)

_COLUMNS = {
    **IDS,
    **PLACE,
    **EVENT,
    **EVENT_TIME,
    "role": Column(TEXT, "user or agent"),
    "author": Column(TEXT, "user, or the name of the agent"),
    "text": Column(TEXT, "what was said: the text parts that are not thoughts, by newlines"),
    "model": Column(TEXT, "the model that said it, null for users"),
    "is_final_response": Column(FLAG, "whether it ends a turn, by ADK's rule"),
    **MARKS,
}

MESSAGES = View(
    "one row an event that has a text",
    _COLUMNS,
    """
SELECT app_name, user_id, session_id, version, ordinal, event_id, invocation_id, event_time,
  CASE WHEN author = 'user' THEN 'user' ELSE 'agent' END AS role, author, text,
  model_version AS model, is_final_response, is_rewound, is_summarised
FROM internal.marked WHERE text <> ''
""",
)
