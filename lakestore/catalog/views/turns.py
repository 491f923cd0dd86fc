"""The view `turns`: one row an invocation, from what a user said to what came of it."""

from lakestore.catalog.views.marks import SESSION, of, same_session
from lakestore.catalog.views.view import (
    COUNT,
    FLAG,
    IDS,
    NUMBER,
    TEXT,
    TEXTS,
    TIME,
    Column,
    View,
)

IS_SPOKEN = """(
  text <> '' OR NOT is_final_response OR len(tool_names) > 0 OR model_version IS NOT NULL
  OR error_code IS NOT NULL OR total_tokens IS NOT NULL
) AND NOT is_compaction AND NOT is_rewind AND invocation_id <> ''"""
"""Whether an event makes its invocation a turn. Bookkeeping does not: state that is set from
outside, summaries, rewinds."""

COUNTS = {
    "llm_calls": Column(COUNT, "events with a model version or counted tokens"),
    "prompt_tokens": Column(COUNT, "sum; null where none was counted, as for all tokens"),
    "output_tokens": Column(COUNT, "sum"),
    "thought_tokens": Column(COUNT, "sum"),
    "cached_tokens": Column(COUNT, "sum"),
    "total_tokens": Column(COUNT, "sum"),
    "tool_calls": Column(COUNT, "how often a tool was called"),
    "tools": Column(TEXTS, "the tools that were called, each once, sorted"),
    "agents": Column(TEXTS, "who took part but the user, each once, sorted"),
    "errors": Column(COUNT, "events with an error code or message"),
    "tool_errors": Column(
        COUNT,
        "answers of tools that report a failure; opens the JSON; a call that raised and was never"
        " answered is in errors, and an error in tool_calls, but not here",
    ),
}
"""What turns and sessions count alike."""

COUNTED = """
  count(*) FILTER (model_version IS NOT NULL OR coalesce(
    prompt_tokens, output_tokens, thought_tokens, cached_tokens, total_tokens) IS NOT NULL)
    AS llm_calls,
  internal.total(prompt_tokens) AS prompt_tokens,
  internal.total(output_tokens) AS output_tokens,
  internal.total(thought_tokens) AS thought_tokens,
  internal.total(cached_tokens) AS cached_tokens,
  internal.total(total_tokens) AS total_tokens,
  coalesce(sum(len(tool_names)), 0)::BIGINT AS tool_calls,
  list_sort(list_distinct(flatten(list(tool_names)))) AS tools,
  coalesce(list_sort(list_distinct(list(author) FILTER (author <> 'user'))), []) AS agents,
  count(*) FILTER (error_code IS NOT NULL OR error_message IS NOT NULL) AS errors,
  coalesce(sum(internal.tool_errors(event_json)), 0)::BIGINT AS tool_errors"""
"""The columns of `COUNTS` over a group of events."""

_COLUMNS = {
    **IDS,
    "turn": Column(COUNT, "number of the turn in its session, from 1"),
    "invocation_id": Column(TEXT, "the invocation"),
    "started_at": Column(TIME, "time of the earliest event"),
    "ended_at": Column(TIME, "time of the latest event"),
    "duration_seconds": Column(
        NUMBER, "seconds from the one to the other; a call that waits for people counts whole"
    ),
    "user_text": Column(TEXT, "what the user said, by newlines; null without text"),
    "final_answer": Column(TEXT, "the text of the last final response; null without"),
    "events": Column(COUNT, "how many events it has"),
    **COUNTS,
    "run_ms": Column(
        NUMBER, "milliseconds that its runs took together, by the plugin; null without telemetry"
    ),
    "model_ms": Column(NUMBER, "milliseconds of all its calls of models; the same"),
    "tool_ms": Column(NUMBER, "milliseconds of all its calls of tools, side by side or not"),
    "outcome": Column(TEXT, "of the last run: ok, error, unfinished; null without telemetry"),
    "is_rewound": Column(FLAG, "whether a later rewind took all of it out of the conversation"),
    "is_summarised": Column(FLAG, "whether models get a summary in place of all of it by now"),
}

TURNS = View(
    "one row an invocation in which something was said, called, answered or failed",
    _COLUMNS,
    f"""
SELECT {of("turn")}, row_number() OVER (PARTITION BY {of("turn")} ORDER BY first) AS turn,
  turn.invocation_id, started_at, ended_at,
  (epoch_us(ended_at) - epoch_us(started_at)) / 1000000 AS duration_seconds,
  turn.* EXCLUDE ({SESSION}, invocation_id, started_at, ended_at, first, is_rewound, is_summarised),
  run_ms, model_ms, tool_ms, outcome, is_rewound, is_summarised
FROM (
  SELECT {SESSION}, invocation_id, min(internal.position(version, ordinal)) AS first,
    min(event_time) AS started_at, max(event_time) AS ended_at,
    string_agg(text, chr(10) ORDER BY version, ordinal) FILTER (author = 'user' AND text <> '')
      AS user_text,
    arg_max(text, internal.position(version, ordinal))
      FILTER (is_final_response AND author IS DISTINCT FROM 'user' AND text <> '')
      AS final_answer,
    count(*) AS events, {COUNTED},
    bool_and(is_rewound) AS is_rewound, bool_and(is_summarised) AS is_summarised
  FROM internal.marked
  GROUP BY {SESSION}, invocation_id
  HAVING bool_or({IS_SPOKEN})
) AS turn LEFT JOIN internal.measured_turns AS measured
  ON {same_session("turn", "measured")} AND turn.invocation_id = measured.invocation_id
""",
)
