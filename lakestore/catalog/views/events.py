"""The view `events`: one row an event, as it is stored."""

from lakestore.catalog.views.view import (
    EVENT,
    EVENT_TIME,
    FLAG,
    IDS,
    PLACE,
    TEXT,
    TEXTS,
    TIME,
    TOKENS,
    Column,
    View,
)

_PARTS = (
    'uri VARCHAR, path VARCHAR, mime_type VARCHAR, size BIGINT, sha256 VARCHAR, "encoding" VARCHAR'
)

_VALUES = {
    "payloads": "[{'uri': internal.uri(payload.key), 'path': payload.path,"
    " 'mime_type': payload.mime_type, 'size': payload.size, 'sha256': payload.sha256,"
    " 'encoding': payload.encoding} FOR payload IN payloads] AS payloads"
}

_COLUMNS = {
    **IDS,
    **PLACE,
    **EVENT,
    "author": Column(TEXT, "user, or the name of the agent"),
    "branch": Column(TEXT, "the path of agents that led to the event"),
    **EVENT_TIME,
    "committed_at": Column(TIME, "when it was stored, by the writer's clock; orders nothing"),
    "text": Column(TEXT, "the text parts that are not thoughts, joined by newlines"),
    "model_version": Column(TEXT, "the model that answered"),
    "finish_reason": Column(TEXT, "why the model stopped"),
    "error_code": Column(TEXT, "what went wrong, null when nothing did"),
    "error_message": Column(TEXT, "the same for people"),
    **TOKENS,
    "tool_names": Column(TEXTS, "names of the functions that the event calls, in order"),
    "is_final_response": Column(FLAG, "whether the event ends a turn, by ADK's rule"),
    "is_compaction": Column(FLAG, "whether it carries a summary of earlier events"),
    "is_rewind": Column(FLAG, "whether it undoes earlier turns"),
    "state_delta": Column(TEXT, "JSON object of the state keys it sets, null when none"),
    "event_json": Column(TEXT, "the whole event as JSON, without the bytes of `payloads`"),
    "payloads": Column(
        f"STRUCT({_PARTS})[]", "the bytes that are stored beside the event, null where none are"
    ),
    "token": Column(TEXT, "internal: the commit's random token"),
    "stamp": Column(TEXT, "internal: orders shared state, null when the commit sets none"),
}

EVENTS = View(
    "one row an event of a session that was not deleted",
    _COLUMNS,
    f"SELECT {', '.join(_VALUES.get(name, name) for name in _COLUMNS)} FROM internal.all_events",
)
