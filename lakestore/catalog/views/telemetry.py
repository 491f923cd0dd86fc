"""The view `telemetry`, and what other views join of it.

Each of these is a `GROUP BY` over what it is joined by. DuckDB leaves such a join out of aggregates
that ask for none of its columns, but of two joins only the outer one. So as long as nothing was
measured, `answers` joins nothing; after that, what such an aggregate still joins is marks.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakestore.catalog.views.marks import SESSION, of, same_session
from lakestore.catalog.views.view import COUNT, IDS, NUMBER, TEXT, TIME, Column, View

_COLUMNS = {
    **IDS,
    "id": Column(TEXT, "names the row among the user's"),
    "kind": Column(TEXT, "model: one call of a model; tool: one of a tool; run: one of a Runner"),
    "version": Column(
        COUNT, "the session's last commit when it began; 0 where it is in no session of the lake"
    ),
    "invocation_id": Column(TEXT, "the turn that it is part of"),
    "agent": Column(TEXT, "the agent that called; of a run, the one that it began with"),
    "event_id": Column(TEXT, "of a model: the event of its answer; null without"),
    "call_id": Column(TEXT, "of a tool: the id of the call"),
    "model": Column(TEXT, "the model that answered; else the one that was asked"),
    "tool_name": Column(TEXT, "the tool"),
    "started_at": Column(TIME, "when it began, by the clock of the agent's machine"),
    "duration_ms": Column(NUMBER, "milliseconds until it ended; null while unfinished"),
    "time_to_first_token_ms": Column(
        NUMBER, "milliseconds to the first piece of an answer; null for one that came whole"
    ),
    "prompt_tokens": Column(COUNT, "as the model counted; here also of agents that are tools"),
    "output_tokens": Column(COUNT, "the same"),
    "total_tokens": Column(COUNT, "the same"),
    "outcome": Column(TEXT, "ok, error, or unfinished: cancelled, or nobody saw it end"),
    "error_type": Column(TEXT, "the class of what was raised"),
    "error_message": Column(
        TEXT, "what it says, cut to 1,000 characters unless the plugin was told otherwise"
    ),
    "cause_id": Column(TEXT, "of a run: the row of the call that raised what ended it"),
}

_OUTCOME = """CASE WHEN error_type IS NOT NULL THEN 'error'
  WHEN duration_us IS NULL THEN 'unfinished' ELSE 'ok' END"""

TELEMETRY = View(
    "one row a call of a model or tool, or a run, that `LakeTelemetryPlugin` has measured",
    _COLUMNS,
    f"""
SELECT {SESSION}, id, kind, version, invocation_id, agent, event_id, call_id, model, tool_name,
  started_at, duration_us / 1000 AS duration_ms, first_token_us / 1000 AS time_to_first_token_ms,
  prompt_tokens, output_tokens, total_tokens, {_OUTCOME} AS outcome, error_type, error_message,
  cause_id
FROM internal.measured
""",
)

# Of a session that was begun anew under the same ids, what was measured before it is not shown.
_MEASURED = f"""
FROM internal.telemetry_rows AS row
WHERE NOT EXISTS (
  FROM internal.ended WHERE {same_session("ended", "row")} AND ended.last >= row.version
    AND NOT ended.goes_on
) AND NOT EXISTS (
  FROM internal.packed_sessions AS packed WHERE {same_session("packed", "row")}
    AND CASE WHEN packed.alive
      THEN row.version > 0 AND row.version < packed.segments[1].first_version
      ELSE row.version <= packed.version END
)
"""

_MODELS = f"""
SELECT {SESSION}, event_id, max(duration_us) / 1000 AS latency_ms,
  max(first_token_us) / 1000 AS time_to_first_token_ms
FROM internal.telemetry_rows WHERE kind = 'model' AND event_id IS NOT NULL
GROUP BY {SESSION}, event_id
"""

_TOOLS = f"""
SELECT {SESSION}, call_id, list({{
    'invocation_id': invocation_id, 'duration_ms': duration_us / 1000,
    'error': CASE WHEN error_type IS NOT NULL
      THEN coalesce(nullif(error_message, ''), error_type) END
  }} ORDER BY started_at, id) AS executions
FROM internal.telemetry_rows WHERE kind = 'tool' AND call_id IS NOT NULL
GROUP BY {SESSION}, call_id
"""

_TURNS = f"""
SELECT {SESSION}, invocation_id,
  sum(duration_us) FILTER (kind = 'run') / 1000 AS run_ms,
  sum(duration_us) FILTER (kind = 'model') / 1000 AS model_ms,
  sum(duration_us) FILTER (kind = 'tool') / 1000 AS tool_ms,
  arg_max({_OUTCOME}, (started_at, id)) FILTER (kind = 'run') AS outcome
FROM internal.telemetry_rows GROUP BY {SESSION}, invocation_id
"""

_CAUSES = f"""
SELECT {of("run")}, run.invocation_id, run.error_type,
  arg_max({{'tool_name': call.tool_name, 'call_id': call.call_id}}, (run.started_at, run.id))
    AS call
FROM internal.telemetry_rows AS run JOIN internal.telemetry_rows AS call
  ON {same_session("run", "call")} AND run.cause_id = call.id
WHERE run.kind = 'run' AND call.kind = 'tool'
GROUP BY {of("run")}, run.invocation_id, run.error_type
"""

_ANSWERS = f"""
SELECT event.*, latency_ms, time_to_first_token_ms
FROM internal.marked AS event LEFT JOIN internal.measured_models AS measured
  ON {same_session("event", "measured")} AND event.event_id = measured.event_id
"""
_NOTHING = "NULL::DOUBLE AS latency_ms, NULL::DOUBLE AS time_to_first_token_ms"


def answers(measured: bool) -> str:
    """Return the statement that makes `internal.answers`: marked events, with how long models took.

    Args:
        measured: Whether there is any telemetry.
    """
    query = _ANSWERS if measured else f"SELECT *, {_NOTHING} FROM internal.marked"
    return f"CREATE OR REPLACE VIEW internal.answers AS {query}"


MEASURED: Mapping[str, str] = {
    "measured": _MEASURED,
    "measured_models": _MODELS,
    "measured_tools": _TOOLS,
    "measured_turns": _TURNS,
    "measured_causes": _CAUSES,
}
"""Internal views by name: what was measured of sessions that were not deleted, and by answer, by
call of a tool and by turn, and by turn and error the call of a tool that ended a run by it."""
