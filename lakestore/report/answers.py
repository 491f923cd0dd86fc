"""What a report asks of a lake, in SQL. Owns the questions, not how their answers look.

All is asked of one connection, so that figures of one report agree while agents write. Rows are
counted in SQL: what comes out is a row a day, a model, a tool. Times are cut in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakestore.lake import Lake
from lakestore.report.selection import Selection
from lakestore.report.words import Step

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = list[dict[str, Any]]

MODELS = 7
"""So many models, and so many failing tools, have a colour of their own; the others share one."""
COHORT_WEEKS = 12
"""For so many weeks returning users are shown."""
MESSAGES = 20
TOOLS = 40
SESSIONS = 20

# A picture with more bars than that has none that could be told apart.
_STEPS: tuple[tuple[int, Step], ...] = ((100, "day"), (700, "week"), (7_000, "month"))
_PERCENTILES = "quantile_cont(seconds, 0.5) AS p50, quantile_cont(seconds, 0.9) AS p90, \
quantile_cont(seconds, 0.99) AS p99"


class Answers:
    """What a selection of a lake has, as it is when this is made."""

    def __init__(self, lake: Lake, selection: Selection) -> None:
        """Count what most questions go by.

        Raises:
            StorageError: the store failed.
        """
        self._connection = lake.connect()
        self._selection = selection
        self.step: Step = "day"
        """What a bar stands for."""
        self._make("activity", "events", "event_time", _ACTIVITY)
        (span,) = self._ask("SELECT date_diff('day', min(day), max(day)) AS days FROM activity")
        days = span["days"] or 0
        self.step = next((step for most, step in _STEPS if days <= most), "year")
        self._make("calls", "costs", "event_time", _CALLS)
        self._make("tools", "tool_calls", "called_at", _TOOL_CALLS)
        self._make("durations", "turns", "started_at", _DURATIONS)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def overview(self) -> Row:
        """Return how much of everything there is, and from when to when."""
        return self._ask(_OVERVIEW)[0]

    def activity(self) -> Rows:
        """Return users, sessions and turns of each step; only years without any are left out."""
        return self._ask(_ACTIVE)

    def models(self) -> Rows:
        """Return calls, tokens and costs of each model."""
        return self._ask(_MODELS)

    def models_without_price(self) -> list[str]:
        """Return the models that no price is for, whatever its time."""
        return [row["name"] for row in self._ask(_MODELS_WITHOUT_PRICE)]

    def prices_without_model(self) -> list[str]:
        """Return the names in prices that fit no model, as they were given."""
        return [row["name"] for row in self._ask(_PRICES_WITHOUT_MODEL)]

    def has_prices(self) -> bool:
        """Return whether any price was given."""
        return bool(self._ask("SELECT 1 AS one FROM internal.prices LIMIT 1"))

    def tokens(self) -> Rows:
        """Return tokens and costs of each step and model."""
        return self._ask(_TOKENS, [MODELS])

    def durations(self) -> Rows:
        """Return percentiles of how long turns took, of each step."""
        return self._ask(
            f"SELECT day, count(*) AS turns, {_PERCENTILES} FROM durations"
            " WHERE NOT waits AND day IS NOT NULL GROUP BY day ORDER BY day"
        )

    def durations_of_apps(self) -> Rows:
        """Return percentiles of how long turns took, of each app."""
        return self._ask(
            f"SELECT app_name, count(*) AS turns, {_PERCENTILES}, max(seconds) AS longest"
            " FROM durations WHERE NOT waits GROUP BY app_name ORDER BY turns DESC, app_name"
        )

    def speeds(self) -> Rows:
        """Return how fast models answered, of answers that telemetry has measured."""
        where, values = self._selection.where("event_time")
        return self._ask(_SPEEDS.format(where=where), [*values, TOOLS])

    def tools(self) -> Rows:
        """Return calls, failures and gaps of each tool, those that are called most."""
        return self._ask(_TOOLS, [TOOLS])

    def failures(self) -> Rows:
        """Return failed calls of each step and tool."""
        return self._ask(_FAILURES, [MODELS])

    def errors(self) -> Rows:
        """Return the most frequent errors; `all` is how many there are that differ."""
        where, values = self._selection.where("event_time")
        return self._ask(_ERRORS.format(where=where), [*values, MESSAGES])

    def cohorts(self) -> Rows:
        """Return how many users of each first week came how many weeks later, 0 too.

        A user's first week is that of the whole lake, not of what is selected.
        """
        where, values = self._selection.from_the_beginning.where("event_time")
        weeks = [COHORT_WEEKS - 1, self._selection.since]
        return self._ask(_COHORTS.format(where=where), [*values, *weeks])

    def largest_sessions(self) -> Rows:
        """Return the sessions with the most events."""
        return self._ask(_LARGEST, [SESSIONS])

    def _make(self, table: str, view: str, time: str, query: str) -> None:
        where, values = self._selection.where(time)
        # The step is one of ours, and no value of anyone's.
        select = query.format(where=where, view=view, step=self.step)
        self._connection.execute(f"CREATE TEMP TABLE {table} AS {select}", values)

    def _ask(self, query: str, values: Sequence[Any] = ()) -> Rows:
        text = query.replace("{step}", self.step)
        answer = self._connection.execute(text, list(values))
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


_UNNAMED = "(not named)"
"""Stands for the model of answers that name none."""
_SESSION = "app_name, user_id, session_id"

_ACTIVITY = f"""
SELECT {_SESSION}, date_trunc('day', event_time) AS day, count(*) AS events,
  sum(total_tokens)::DOUBLE AS tokens, min(event_time) AS first, max(event_time) AS last
FROM {{view}} WHERE {{where}} GROUP BY ALL"""

_CALLS = f"""
SELECT date_trunc('{{step}}', event_time) AS day, coalesce(model, '{_UNNAMED}') AS model,
  count(*) AS calls, sum(prompt_tokens)::DOUBLE AS prompt, sum(output_tokens)::DOUBLE AS output,
  sum(thought_tokens)::DOUBLE AS thought, sum(cached_tokens)::DOUBLE AS cached,
  sum(total_tokens)::DOUBLE AS tokens, sum(cost) AS cost, count(cost) AS priced
FROM {{view}} WHERE {{where}} GROUP BY ALL"""

_TOOL_CALLS = f"""
SELECT {_SESSION}, invocation_id, date_trunc('{{step}}', called_at) AS day, tool_name AS tool,
  status, is_long_running, gap_seconds, duration_ms / 1000 AS took
FROM {{view}} WHERE {{where}}"""

_DURATIONS = f"""
SELECT app_name, date_trunc('{{step}}', started_at) AS day, duration_seconds AS seconds,
  waiting.app_name IS NOT NULL AS waits
FROM {{view}} LEFT JOIN (
  SELECT DISTINCT {_SESSION}, invocation_id FROM tools WHERE is_long_running
) AS waiting USING ({_SESSION}, invocation_id)
WHERE {{where}}"""

_OVERVIEW = f"""
SELECT count(DISTINCT ({_SESSION})) AS sessions, count(DISTINCT (app_name, user_id)) AS users,
  count(DISTINCT app_name) AS apps, coalesce(sum(events), 0)::BIGINT AS events,
  min(first) AS first, max(last) AS last,
  (SELECT coalesce(sum(calls), 0)::BIGINT FROM calls) AS calls,
  (SELECT sum(tokens) FROM calls) AS tokens, (SELECT sum(cost) FROM calls) AS cost,
  (SELECT coalesce(sum(calls - priced), 0)::BIGINT FROM calls) AS unpriced,
  (SELECT count(*) FROM durations) AS turns,
  (SELECT count(*) FROM durations WHERE waits) AS waiting,
  (SELECT quantile_cont(seconds, 0.5) FROM durations WHERE NOT waits) AS p50,
  (SELECT count(*) FROM tools) AS tool_calls,
  (SELECT count(*) FROM tools WHERE status = 'error') AS tool_failures
FROM activity"""

_ACTIVE = f"""
WITH active AS (
  SELECT date_trunc('{{step}}', day) AS day, count(DISTINCT (app_name, user_id)) AS users,
    count(DISTINCT ({_SESSION})) AS sessions
  FROM activity WHERE day IS NOT NULL GROUP BY 1
), days AS (
  SELECT unnest(CASE WHEN '{{step}}' = 'year' THEN list(day)
    ELSE generate_series(min(day), max(day), INTERVAL 1 {{step}}) END) AS day FROM active
), turned AS (
  SELECT day, count(*) AS turns FROM durations GROUP BY day
)
SELECT day, coalesce(users, 0) AS users, coalesce(sessions, 0) AS sessions,
  coalesce(turns, 0) AS turns
FROM days LEFT JOIN active USING (day) LEFT JOIN turned USING (day) ORDER BY day"""

_MODELS = """
SELECT model, sum(calls)::BIGINT AS calls, sum(prompt) AS prompt, sum(output) AS output,
  sum(thought) AS thought, sum(cached) AS cached, sum(tokens) AS tokens,
  CASE WHEN sum(prompt) > 0 THEN coalesce(sum(cached), 0) / sum(prompt) END AS hit_rate,
  sum(cost) AS cost
FROM calls GROUP BY model ORDER BY tokens DESC NULLS LAST, model"""

_FITS = "(model = price.name OR (price.is_prefix AND starts_with(model, price.name)))"
_MODELS_WITHOUT_PRICE = f"""
SELECT DISTINCT model AS name FROM calls WHERE model <> '{_UNNAMED}'
  AND NOT EXISTS (FROM internal.prices AS price WHERE {_FITS}) ORDER BY name"""
_PRICES_WITHOUT_MODEL = f"""
SELECT DISTINCT name || CASE WHEN is_prefix THEN '*' ELSE '' END AS name
FROM internal.prices AS price WHERE NOT EXISTS (FROM calls WHERE {_FITS}) ORDER BY 1"""

_TOKENS = """
WITH ranked AS (
  SELECT model, row_number() OVER (ORDER BY sum(tokens) DESC NULLS LAST, model) AS place
  FROM calls GROUP BY model
)
SELECT day, CASE WHEN place <= ? THEN model ELSE 'others' END AS model,
  min(place) AS place, coalesce(sum(tokens), 0) AS tokens, coalesce(sum(cost), 0) AS cost
FROM calls JOIN ranked USING (model) WHERE day IS NOT NULL
GROUP BY 1, 2 ORDER BY day, place"""

_SPEEDS = f"""
SELECT coalesce(model, '{_UNNAMED}') AS model, count(*) AS answers,
  quantile_cont(time_to_first_token_ms / 1000, 0.5) AS first,
  quantile_cont(latency_ms / 1000, 0.5) AS p50, quantile_cont(latency_ms / 1000, 0.95) AS p95
FROM llm_calls WHERE latency_ms IS NOT NULL AND {{where}}
GROUP BY ALL ORDER BY answers DESC, model LIMIT ?"""

_TOOLS = """
SELECT tool, count(*) AS calls, count(*) FILTER (status = 'error') AS failures,
  count(*) FILTER (status = 'error') / count(*) AS failure_rate,
  count(*) FILTER (status = 'pending') AS pending, quantile_cont(gap_seconds, 0.5) AS p50,
  quantile_cont(gap_seconds, 0.95) AS p95, quantile_cont(took, 0.5) AS took,
  count(*) OVER () AS all
FROM tools GROUP BY tool ORDER BY calls DESC, tool LIMIT ?"""

_FAILURES = """
WITH ranked AS (
  SELECT tool, row_number() OVER (ORDER BY count(*) DESC, tool) AS place
  FROM tools WHERE status = 'error' GROUP BY tool
)
SELECT day, CASE WHEN place <= ? THEN tool ELSE 'others' END AS tool, min(place) AS place,
  count(*) AS failures
FROM tools JOIN ranked USING (tool) WHERE status = 'error' AND day IS NOT NULL
GROUP BY 1, 2 ORDER BY day, place"""

_ERRORS = """
SELECT source, coalesce(tool_name, model, author) AS of, error_code AS code,
  left(error_message, 300) AS message, count(*) AS times, max(event_time) AS last,
  count(*) OVER () AS all
FROM errors WHERE {where} GROUP BY 1, 2, 3, 4
ORDER BY times DESC, last DESC, message LIMIT ?"""

_COHORTS = """
WITH active AS (
  SELECT app_name, user_id, date_trunc('week', event_time) AS week
  FROM events WHERE event_time IS NOT NULL AND {where} GROUP BY ALL
), known AS (
  SELECT week, min(week) OVER (PARTITION BY app_name, user_id) AS cohort,
    max(week) OVER () AS newest
  FROM active
), counted AS (
  SELECT cohort, date_diff('week', cohort, week) AS weeks_later, count(*) AS users
  FROM known
  WHERE cohort >= newest - to_weeks(?)
    AND cohort >= coalesce(date_trunc('week', ?::TIMESTAMPTZ), cohort)
  GROUP BY 1, 2
), sizes AS (
  SELECT cohort, users AS cohort_users,
    unnest(range(1, date_diff('week', cohort, (SELECT max(newest) FROM known)) + 1)) AS weeks_later
  FROM counted WHERE weeks_later = 0
)
SELECT cohort, weeks_later, cohort_users, coalesce(users, 0) AS users,
  coalesce(users, 0) / cohort_users AS share
FROM sizes LEFT JOIN counted USING (cohort, weeks_later) ORDER BY cohort, weeks_later"""

_LARGEST = f"""
SELECT {_SESSION}, sum(events)::BIGINT AS events, sum(tokens) AS tokens,
  min(first) AS first, max(last) AS last
FROM activity GROUP BY ALL ORDER BY events DESC, {_SESSION} LIMIT ?"""
