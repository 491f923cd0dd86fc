"""The views that SQL sees: their columns, what each means, and the queries behind them.

Owns what a view promises; the tables behind them are `lakestore.catalog.database`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_TEXT = "VARCHAR"
_TIME = "TIMESTAMP WITH TIME ZONE"
_COUNT = "BIGINT"
_FLAG = "BOOLEAN"


class Column(NamedTuple):
    """One column of a view."""

    type: str
    """As DuckDB's DESCRIBE shows it."""
    meaning: str


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    meaning: str
    """What a row is."""
    columns: Mapping[str, Column]
    """Names in their order."""
    query: str
    """What it selects from `internal.rows` and `internal.changes`."""


_IDS = {
    "app_name": Column(_TEXT, "the app"),
    "user_id": Column(_TEXT, "the user"),
    "session_id": Column(_TEXT, "the session; names one only together with app and user"),
}

_EVENT_COLUMNS = {
    **_IDS,
    "version": Column(_COUNT, "number of the commit in its session; (version, ordinal) orders"),
    "ordinal": Column("INTEGER", "place of the event in its commit, from 0"),
    "event_id": Column(_TEXT, "the event's id"),
    "invocation_id": Column(_TEXT, "the turn that the event belongs to"),
    "author": Column(_TEXT, "user, or the name of the agent"),
    "branch": Column(_TEXT, "the path of agents that led to the event"),
    "event_time": Column(_TIME, "when it happened, to the microsecond; the JSON has the float"),
    "committed_at": Column(_TIME, "when it was stored, by the writer's clock; orders nothing"),
    "text": Column(_TEXT, "the text parts that are not thoughts, joined by newlines"),
    "model_version": Column(_TEXT, "the model that answered"),
    "finish_reason": Column(_TEXT, "why the model stopped"),
    "error_code": Column(_TEXT, "what went wrong, null when nothing did"),
    "error_message": Column(_TEXT, "the same for people"),
    "prompt_tokens": Column(_COUNT, "tokens of the prompt"),
    "output_tokens": Column(_COUNT, "tokens of the answer"),
    "thought_tokens": Column(_COUNT, "tokens of the model's thoughts"),
    "cached_tokens": Column(_COUNT, "tokens of the prompt that came from a cache"),
    "total_tokens": Column(_COUNT, "all tokens, as the model counted them"),
    "tool_names": Column("VARCHAR[]", "names of the functions that the event calls, in order"),
    "is_final_response": Column(_FLAG, "whether the event ends a turn, by ADK's rule"),
    "is_compaction": Column(_FLAG, "whether it carries a summary of earlier events"),
    "is_rewind": Column(_FLAG, "whether it undoes earlier turns"),
    "state_delta": Column(_TEXT, "JSON object of the state keys it sets, null when none"),
    "event_json": Column(_TEXT, "the whole event as JSON"),
    "token": Column(_TEXT, "internal: the commit's random token"),
    "stamp": Column(_TEXT, "internal: orders shared state, null when the commit sets none"),
}

_SESSION_COLUMNS = {
    **_IDS,
    "created_at": Column(_TIME, "when it was created, by the creator's clock"),
    "last_update_time": Column(_TIME, "the last event's time; without events, created_at"),
    "events": Column(_COUNT, "how many events it has"),
    "state": Column(_TEXT, "JSON object of its own state; app: and user: keys are not in it"),
    "version": Column(_COUNT, "number of its last commit"),
}

# Every query reads one table of rows by column, so that DuckDB skips what is not asked for. The
# state comes from keys that were taken apart once, when their rows arrived: to take the JSON of
# every row apart in each query costs ten times as much.
_SESSIONS_QUERY = """
WITH fresh AS (
  SELECT app_name, user_id, session_id,
    min(committed_at) FILTER (kind = 'create') AS created_at,
    arg_max(event_time, (version, ordinal)) AS last_event_time,
    count(*) FILTER (kind = 'event') AS events,
    max(version) AS version, NULL AS state
  FROM internal.rows
  GROUP BY app_name, user_id, session_id
), packed AS (
  SELECT app_name, user_id, session_id, created_at,
    make_timestamptz(CAST(round(last_event_time * 1000000) AS BIGINT)) AS last_event_time,
    events, version, state
  FROM internal.packed
), folded AS (
  SELECT app_name, user_id, session_id, min(created_at) AS created_at,
    arg_max(last_event_time, version) AS last_event_time, sum(events)::BIGINT AS events,
    max(version) AS version, any_value(state) AS packed_state
  FROM (FROM fresh UNION ALL FROM packed)
  GROUP BY app_name, user_id, session_id
), changes AS (
  FROM internal.changes
  UNION ALL
  SELECT packed.app_name, packed.user_id, packed.session_id, packed.version, -1, key, value::VARCHAR
  FROM packed SEMI JOIN internal.changes USING (app_name, user_id, session_id),
    json_each(packed.state)
), latest AS (
  SELECT app_name, user_id, session_id, key, arg_max(value, (version, ordinal)) AS value
  FROM changes
  GROUP BY app_name, user_id, session_id, key
), states AS (
  SELECT app_name, user_id, session_id,
    '{' || string_agg(to_json(key)::VARCHAR || ':' || value, ',' ORDER BY key) || '}' AS state
  FROM latest
  GROUP BY app_name, user_id, session_id
)
SELECT folded.app_name, folded.user_id, folded.session_id, created_at,
  coalesce(last_event_time, created_at) AS last_update_time,
  events, coalesce(state, packed_state, '{}') AS state, version
FROM folded LEFT JOIN states ON folded.app_name = states.app_name
  AND folded.user_id = states.user_id AND folded.session_id = states.session_id
"""

VIEWS: Mapping[str, View] = {
    "events": View(
        "one row an event of a session that was not deleted",
        _EVENT_COLUMNS,
        " UNION ALL ".join(
            f"SELECT {', '.join(_EVENT_COLUMNS)} FROM internal.{table} WHERE kind = 'event'"
            for table in ("rows", "packed_rows")
        ),
    ),
    "sessions": View("one row a session that was not deleted", _SESSION_COLUMNS, _SESSIONS_QUERY),
}
"""All views by name."""


def definitions() -> Iterator[str]:
    """Yield the statements that create all views, each with its meaning as a comment."""
    for name, view in VIEWS.items():
        yield f"CREATE VIEW {quoted(name)} AS {view.query}"
        yield f"COMMENT ON VIEW {quoted(name)} IS {_literal(view.meaning)}"
        for column, (_, meaning) in view.columns.items():
            target = f"{quoted(name)}.{quoted(column)}"
            yield f"COMMENT ON COLUMN {target} IS {_literal(meaning)}"


def quoted(name: str) -> str:
    """Return `name` as SQL spells an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
