"""The view `sessions`: one row a session, with its state, what it did and what it took.

What is packed of a session is known from the runs, so that lists and states read no event. Totals
are counted from events, when a query asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakestore.catalog.views.marks import SESSION, of, same_session
from lakestore.catalog.views.turns import COUNTED, COUNTS, IS_SPOKEN
from lakestore.catalog.views.view import (
    COUNT,
    IDS,
    TEXT,
    TEXTS,
    TIME,
    Column,
    View,
    literal,
    quoted,
)
from lakestore.errors import InputError

_KNOWN = {
    **IDS,
    "created_at": Column(TIME, "when it was created, by the creator's clock"),
    "last_update_time": Column(TIME, "the last event's time; without events, created_at"),
    "events": Column(COUNT, "how many events it has"),
    "state": Column(
        TEXT, "JSON object of its own state, keys as they came; without `app:` and `user:` keys"
    ),
    "version": Column(COUNT, "number of its last commit"),
}

_STATE_COLUMN = Column(TEXT, "the state key of this name, as text; JSON if it is none")

_TOTALS = {
    "turns": Column(COUNT, "how many turns it has: rows of `turns`"),
    "first_activity": Column(TIME, "time of the earliest event; null without events"),
    "last_activity": Column(TIME, "time of the latest event; null without events"),
    "user_messages": Column(COUNT, "texts by the user"),
    **COUNTS,
    "models": Column(TEXTS, "the models that answered, each once, sorted"),
    "artifacts": Column(COUNT, "versions of artifacts that were saved; opens the JSON"),
    "rewinds": Column(COUNT, "how often it was rewound"),
    "compactions": Column(COUNT, "how many summaries of earlier events it has"),
}

# Every query reads one table of rows by column, so that DuckDB skips what is not asked for. The
# state comes from keys that were taken apart once, when their rows arrived: to take the JSON of
# every row apart in each query costs ten times as much. Its text is that of a run, in which keys
# stand in the order in which they were first set.
_PARTS = f"""
WITH fresh AS (
  SELECT {SESSION}, min(committed_at) FILTER (kind = 'create') AS created_at,
    arg_max(event_time, (version, ordinal)) AS last_event_time,
    count(*) FILTER (kind = 'event') AS events, max(version) AS version,
    NULL AS packed_state, NULL AS state
  FROM internal.rows GROUP BY {SESSION}
), packed AS (
  SELECT {SESSION}, created_at,
    make_timestamptz(internal.microseconds(last_event_time)) AS last_event_time,
    events, version, state AS packed_state, NULL AS state
  FROM internal.packed
), latest AS (
  SELECT {SESSION}, key, arg_max(value, (version, ordinal)) AS value,
    min((version, ordinal, place)) AS place
  FROM internal.changes GROUP BY {SESSION}, key
), states AS (
  SELECT {SESSION}, NULL, NULL, NULL, NULL, NULL,
    '{{' || string_agg(key || ':' || value, ',' ORDER BY place) || '}}' AS state
  FROM latest GROUP BY {SESSION}
), known AS (
  SELECT {SESSION}, min(created_at) AS created_at,
    arg_max(last_event_time, version) AS last_event_time, sum(events)::BIGINT AS events,
    internal.in_utf8(coalesce(any_value(state), any_value(packed_state), '{{}}')) AS state,
    max(version) AS version
  FROM (FROM fresh UNION ALL FROM packed UNION ALL FROM states)
  GROUP BY {SESSION}
), totals AS (
  SELECT {SESSION},
    coalesce(len(list_distinct(list(invocation_id) FILTER ({IS_SPOKEN}))), 0) AS turns,
    min(event_time) AS first_activity, max(event_time) AS last_activity,
    count(*) FILTER (author = 'user' AND text <> '') AS user_messages, {COUNTED},
    coalesce(list_sort(list_distinct(list(model_version) FILTER (model_version <> ''))), [])
      AS models,
    coalesce(sum(internal.artifacts(event_json)), 0)::BIGINT AS artifacts,
    count(*) FILTER (is_rewind) AS rewinds, count(*) FILTER (is_compaction) AS compactions
  FROM internal.all_events GROUP BY {SESSION}
)
"""


def _total(name: str, column: Column) -> str:
    """Return what selects a total; a session without events has it too."""
    if column.type == TEXTS:
        return f"coalesce(totals.{name}, []) AS {name}"
    if column.type == COUNT and not name.endswith("_tokens"):
        return f"coalesce(totals.{name}, 0) AS {name}"
    return f"totals.{name}"


def sessions(state_columns: Sequence[str] = ()) -> View:
    """Return the view, with a column for each of these keys of the sessions' own state.

    Raises:
        InputError: a key is shared state, or the name of another column.
    """
    keys = dict.fromkeys(_checked(state_columns), _STATE_COLUMN)
    selected = [
        *(_total(name, column) for name, column in _TOTALS.items()),
        *(f"{_state(key)} AS {quoted(key)}" for key in keys),
    ]
    return View(
        "one row a session that was not deleted",
        {**_KNOWN, **_TOTALS, **keys},
        f"""{_PARTS}
SELECT {of("known")}, created_at, coalesce(last_event_time, created_at) AS last_update_time,
  known.events, state, version, {", ".join(selected)}
FROM known LEFT JOIN totals ON {same_session("known", "totals")}""",
    )


def _checked(keys: Sequence[str]) -> Sequence[str]:
    taken = {*_KNOWN, *_TOTALS}
    for key in keys:
        if key.startswith(("app:", "user:", "temp:")):
            raise InputError(f"state_columns are keys of sessions' own state. {key=}")
        name = key.lower()  # SQL does not tell upper from lower case
        if not key or name in taken:
            raise InputError(f"there is a column of that name already. {key=}")
        taken.add(name)
    return keys


def _state(key: str) -> str:
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    return f"json_extract_string(state, {literal(pointer)})"
