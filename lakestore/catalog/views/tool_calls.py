"""The view `tool_calls`: each call of a tool, with what came of it."""

from lakestore.catalog.views.marks import (
    IS_REWOUND,
    IS_SUMMARISED,
    JOIN_MARKS,
    SESSION,
    of,
    same_session,
)
from lakestore.catalog.views.view import (
    COUNT,
    EVENT,
    FLAG,
    IDS,
    MARKS,
    NUMBER,
    PLACE,
    TEXT,
    TIME,
    Column,
    View,
)

_COLUMNS = {
    **IDS,
    **PLACE,
    "place": Column(COUNT, "place of the call among the parts of its event, from 1"),
    **EVENT,
    "called_at": Column(TIME, "time of the event that calls"),
    "agent": Column(TEXT, "the agent that calls"),
    "branch": Column(TEXT, "the path of agents that led to it"),
    "call_id": Column(TEXT, "the call's id, null in some events of older versions"),
    "tool_name": Column(TEXT, "the function that is called"),
    "arguments": Column(TEXT, "JSON object of its arguments"),
    "transfer_to": Column(TEXT, "the agent that the call hands over to, null for other tools"),
    "is_long_running": Column(FLAG, "whether the call waits for people or another system"),
    "status": Column(
        TEXT,
        "ok, error, or pending: not answered, as a call that was cancelled; of a long-running call,"
        " not by the user as yet;"
        " error also without an answer, where telemetry tells that the call has raised",
    ),
    "answers": Column(COUNT, "how often it was answered; a long-running call mostly twice"),
    "answered_at": Column(TIME, "time of the last answer"),
    "answer_event_id": Column(TEXT, "the event of the last answer"),
    "result": Column(TEXT, "JSON of the last answer"),
    "error": Column(
        TEXT, "what the tool says went wrong, or what it raised; null when nothing is known to have"
    ),
    "gap_seconds": Column(
        NUMBER,
        "seconds from the call to the answer that settled it, null while pending; calls side by"
        " side are answered by one event and share it: duration_ms is each one's own",
    ),
    "duration_ms": Column(
        NUMBER,
        "milliseconds that the tool itself took, the last time that it ran for this call;"
        " null without telemetry",
    ),
    **MARKS,
}

# An answer belongs to the last call of its id before it, for ids may come again. Calls without an
# id are matched by name within their turn, the n-th answer to the n-th call.
TOOL_CALLS = View(
    "one row a call of a tool, matched to its answers by id",
    _COLUMNS,
    f"""
WITH found AS (
  SELECT {SESSION}, version, ordinal, event_id, invocation_id, event_time, author, branch,
    is_compaction, internal.tools(event_json) AS read
  FROM internal.all_events WHERE contains(event_json, '"function')
), parts AS (
  SELECT * EXCLUDE (read, part), part.place, part.call.id, part.call.name, part.call.args AS body,
    true AS is_call, part.is_long_running, false AS is_asking, NULL AS error
  FROM (SELECT *, unnest(internal.calls(read)) AS part FROM found)
  UNION ALL
  SELECT * EXCLUDE (read, part), part.place, part.answer.id, part.answer.name,
    part.answer.response, false, false, part.is_asking, part.error
  FROM (SELECT *, unnest(internal.answers(read)) AS part FROM found)
), keyed AS (
  SELECT *, CASE WHEN id <> '' THEN [id] ELSE [invocation_id, name] END AS key,
    count(*) FILTER (is_call OR coalesce(id, '') = '') OVER (
      PARTITION BY {SESSION}, key, CASE WHEN coalesce(id, '') = '' THEN is_call END
      ORDER BY version, ordinal, place ROWS UNBOUNDED PRECEDING
    ) AS nth
  FROM parts
), matched AS (
  SELECT {SESSION}, key,
    any_value({{'version': version, 'ordinal': ordinal, 'place': place, 'event_id': event_id,
      'invocation_id': invocation_id, 'time': event_time, 'agent': author, 'branch': branch,
      'id': id, 'name': name, 'long': is_long_running, 'compacts': is_compaction
    }}) FILTER (is_call) AS call,
    any_value(body) FILTER (is_call) AS arguments,
    count(*) FILTER (NOT is_call) AS answers,
    arg_max({{'time': event_time, 'event_id': event_id}}, (version, ordinal, place))
      FILTER (NOT is_call) AS last,
    arg_max(body, (version, ordinal, place)) FILTER (NOT is_call) AS result,
    arg_max({{'time': event_time, 'error': error}}, (version, ordinal, place))
      FILTER (NOT is_call AND NOT is_asking) AS settled,
    arg_max({{'time': event_time, 'error': error}}, (version, ordinal, place))
      FILTER (NOT is_call AND NOT is_asking AND (author = 'user' OR error IS NOT NULL))
      AS settled_by_user
  FROM keyed GROUP BY {SESSION}, key, nth
), event AS (
  SELECT {SESSION}, call.version AS version, call.ordinal AS ordinal, call.place AS place,
    call.event_id AS event_id, call.invocation_id AS invocation_id, call.time AS event_time,
    call.agent AS agent, call.branch AS branch, call.id AS call_id, call.name AS tool_name,
    arguments::VARCHAR AS arguments,
    CASE WHEN call.name = 'transfer_to_agent' THEN arguments ->> 'agent_name' END AS transfer_to,
    call.long AS is_long_running, call.compacts AS is_compaction, answers, last.time AS answered_at,
    last.event_id AS answer_event_id, result::VARCHAR AS result,
    CASE WHEN call.long THEN settled_by_user ELSE settled END AS settling,
    count(*) OVER (PARTITION BY {SESSION}, key) = 1 AS is_only
  FROM matched WHERE call IS NOT NULL
), measured AS (
  SELECT event.* , CASE WHEN is_only THEN executions ELSE list_filter(executions,
      lambda one: one.invocation_id = event.invocation_id) END[-1] AS execution
  FROM event LEFT JOIN internal.measured_tools AS measured
    ON {same_session("event", "measured")} AND event.call_id = measured.call_id
)
SELECT {of("event")}, version, ordinal, place,
  event_id, invocation_id, event_time AS called_at, agent, branch, call_id, tool_name, arguments,
  transfer_to, is_long_running,
  CASE WHEN settling IS NULL THEN CASE WHEN execution.error IS NULL THEN 'pending' ELSE 'error' END
    WHEN settling.error IS NULL THEN 'ok' ELSE 'error' END AS status,
  answers, answered_at, answer_event_id, result,
  CASE WHEN settling IS NULL THEN execution.error ELSE settling.error END AS error,
  (epoch_us(settling.time) - epoch_us(event_time)) / 1000000 AS gap_seconds,
  execution.duration_ms AS duration_ms,
  {IS_REWOUND} AS is_rewound, {IS_SUMMARISED} AS is_summarised
FROM measured AS event {JOIN_MARKS}
""",
)
