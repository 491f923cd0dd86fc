"""Internal views that the others are made from: all events, and what became of each.

What they join is one `GROUP BY` over a `UNION ALL`, with no table expression used twice: DuckDB
leaves that join out of aggregates that ask for no column of it. Where it does not, finding marks
reads two flags, and the JSON of rewinds and summaries alone (`tests/unit/catalog/test_lazy.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from lakestore.catalog.views.view import IDS

SESSION = ", ".join(IDS)
"""What names a session."""


def of(table: str) -> str:
    """Return what names a session in `table`."""
    return ", ".join(f"{table}.{name}" for name in IDS)


def same_session(one: str, other: str) -> str:
    """Return the condition that rows of two tables are of one session."""
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in IDS)


IS_REWOUND = "internal.is_within(marks.rewound, internal.position(event.version, event.ordinal))"
"""Whether a row of `event` was rewound, by its joined `marks`."""

IS_SUMMARISED = """NOT coalesce(event.is_compaction, false) AND internal.is_within(
  list_filter(marks.summarised, lambda summary: NOT internal.is_within(marks.rewound, summary.at)),
  epoch_us(event.event_time)
)"""
"""Whether a summary stands for a row of `event` by now, by its joined `marks`."""

JOIN_MARKS = f"LEFT JOIN internal.marks AS marks ON {same_session('event', 'marks')}"
"""Joins `marks` to `event`."""

# By ADK's rule (`_apply_rewinds`): going back from the last event, a rewind hides all from the
# first event of the turn that it names to itself, and what is hidden hides nothing.
_MARKS = f"""
WITH rewinds AS (
  FROM (
    SELECT {SESSION}, internal.position(version, ordinal) AS position,
      internal.rewind_target(event_json) AS target
    FROM internal.all_events WHERE is_rewind
  ) WHERE target <> ''
), ranges AS (
  SELECT {of("rewinds")}, position AS last,
    least(position, min(internal.position(event.version, event.ordinal))) AS first
  FROM rewinds LEFT JOIN internal.all_events AS event
    ON {same_session("event", "rewinds")} AND event.invocation_id = rewinds.target
  GROUP BY {of("rewinds")}, position
), hidden AS (
  SELECT {SESSION}, list_reduce(
    list([{{'first': first, 'last': last}}] ORDER BY last DESC),
    lambda found, earlier: CASE
      WHEN earlier[1].last < found[-1].first THEN found || earlier ELSE found
    END
  ) AS rewound
  FROM ranges GROUP BY {SESSION}
), summaries AS (
  SELECT {SESSION}, internal.position(version, ordinal) AS position,
    internal.summary_range(event_json) AS range
  FROM internal.all_events WHERE is_compaction
)
SELECT {SESSION}, any_value(rewound) AS rewound, any_value(summarised) AS summarised
FROM (
  SELECT {SESSION}, rewound, NULL AS summarised FROM hidden
  UNION ALL
  SELECT {SESSION}, NULL, list({{'first': range.first, 'last': range.last, 'at': position}})
  FROM summaries WHERE range.first <= range.last GROUP BY {SESSION}
)
GROUP BY {SESSION}
"""

_MARKED = f"""
SELECT event.*, {IS_REWOUND} AS is_rewound,
  {IS_SUMMARISED} AS is_summarised
FROM internal.all_events AS event {JOIN_MARKS}
"""

_INTERNAL = {
    "stored": "FROM internal.rows UNION ALL FROM internal.packed_rows",
    "all_events": "FROM internal.stored WHERE kind = 'event'",
    "marks": _MARKS,
    "marked": _MARKED,
}


def internal_views() -> Iterator[str]:
    """Yield the statements that make the internal views, each after those that it needs.

    `stored` has all rows that count, `all_events` the events of them, `marks` the sessions in which
    something was rewound or summarised, `marked` all events with what became of them.
    """
    for name, query in _INTERNAL.items():
        yield f"CREATE VIEW internal.{name} AS {query}"
