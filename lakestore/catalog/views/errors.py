"""The view `errors`: whatever went wrong, in models, agents and tools."""

from lakestore.catalog.views.marks import (
    IS_REWOUND,
    IS_SUMMARISED,
    JOIN_MARKS,
    SESSION,
    of,
    same_session,
)
from lakestore.catalog.views.view import (
    EVENT,
    EVENT_TIME,
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
    "source": Column(
        TEXT,
        "event: the model or the run failed; tool: a tool reports a failure; telemetry: a call or"
        " a run has raised what no event of its turn tells of",
    ),
    "author": Column(TEXT, "the agent, or user"),
    "error_code": Column(TEXT, "the code, null for tools; of telemetry the class that was raised"),
    "error_message": Column(TEXT, "what it says of itself"),
    "model": Column(TEXT, "the model that answered, if one did"),
    "tool_name": Column(
        TEXT, "the tool; of events, with telemetry, the one that raised what ended the run"
    ),
    "call_id": Column(TEXT, "the id of the call that failed; of events the same"),
    **MARKS,
}

ERRORS = View(
    "one row an event with an error code or message, or a failure that a tool or telemetry tells",
    _COLUMNS,
    f"""
WITH event AS (
  SELECT {of("told")}, version, ordinal, event_id, told.invocation_id, event_time,
    'event' AS source, author, error_code, error_message, model_version AS model,
    cause.call.tool_name AS tool_name, cause.call.call_id AS call_id, is_compaction
  FROM internal.all_events AS told LEFT JOIN internal.measured_causes AS cause
    ON {same_session("told", "cause")} AND told.invocation_id = cause.invocation_id
    AND told.error_code = cause.error_type
  WHERE error_code IS NOT NULL OR error_message IS NOT NULL
  UNION ALL
  SELECT {SESSION}, version, ordinal, event_id, invocation_id, event_time, 'tool', author, NULL,
    part.error, NULL, part.answer.name, part.answer.id, is_compaction
  FROM (
    SELECT *, unnest(internal.failed(internal.tools(event_json))) AS part
    FROM internal.all_events WHERE contains(event_json, '"function')
  )
  UNION ALL
  SELECT {SESSION}, version, 0, event_id, invocation_id,
    started_at + to_microseconds(coalesce(duration_us, 0)), 'telemetry', agent, error_type,
    error_message, model, tool_name, call_id, false
  FROM internal.measured AS row WHERE error_type IS NOT NULL AND cause_id IS NULL
    AND NOT EXISTS (
      FROM internal.all_events AS told WHERE {same_session("told", "row")}
        AND told.invocation_id = row.invocation_id AND told.error_code = row.error_type
    ) AND NOT EXISTS (
      FROM (
        SELECT {SESSION}, invocation_id, unnest(internal.failed(internal.tools(event_json))) AS part
        FROM internal.all_events WHERE contains(event_json, '"function')
      ) AS told WHERE {same_session("told", "row")}
        AND told.invocation_id = row.invocation_id AND told.part.answer.id = row.call_id
    )
)
SELECT event.* EXCLUDE (is_compaction), {IS_REWOUND} AS is_rewound, {IS_SUMMARISED} AS is_summarised
FROM event {JOIN_MARKS}
""",
)
