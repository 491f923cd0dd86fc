"""The view `state_changes`: what set which key of the state, one row a key that was set."""

from lakestore.catalog.views.marks import IS_REWOUND, JOIN_MARKS, SESSION
from lakestore.catalog.views.view import EVENT, FLAG, IDS, PLACE, TEXT, TIME, Column, View

_COLUMNS = {
    **IDS,
    **PLACE,
    **EVENT,
    "author": Column(TEXT, "user, or the name of the agent; null for the initial state"),
    "changed_at": Column(TIME, "time of the event; of the initial state, when it was stored"),
    "scope": Column(TEXT, "whose state it is: session, user or app"),
    "key": Column(TEXT, "the key, without `user:` and `app:`"),
    "before": Column(TEXT, "JSON of the value that it replaces, null when there is none"),
    "after": Column(TEXT, "JSON of the value that was set"),
    "is_rewound": Column(
        FLAG, "whether a later rewind took the event out; the rewind's own changes undo it"
    ),
}

# Keys and values are taken from the delta as lists and put side by side: joining the delta to its
# keys would repeat it for each of them.
STATE_CHANGES = View(
    "one row a key that an event, or the initial state of a session, sets",
    _COLUMNS,
    f"""
WITH keys AS (
  SELECT {SESSION}, version, ordinal, event_id, invocation_id, author, stamp, event_time,
    coalesce(event_time, committed_at) AS changed_at,
    unnest(list_zip(
      TRY(json_keys(state_delta)), TRY(json_extract(state_delta, '$.*'))
    )) AS entry
  FROM internal.stored WHERE state_delta IS NOT NULL
), scoped AS (
  SELECT * EXCLUDE (entry), entry[1] AS full_key, entry[2]::VARCHAR AS after,
    CASE WHEN starts_with(full_key, 'app:') THEN 'app'
      WHEN starts_with(full_key, 'user:') THEN 'user' ELSE 'session' END AS scope,
    CASE scope WHEN 'app' THEN full_key[5:] WHEN 'user' THEN full_key[6:] ELSE full_key END AS key
  FROM keys WHERE NOT starts_with(full_key, 'temp:')
), event AS (
  SELECT *, lag(after) OVER (
    PARTITION BY app_name, scope, key, CASE WHEN scope <> 'app' THEN user_id END,
      CASE WHEN scope = 'session' THEN session_id END
    ORDER BY CASE WHEN scope <> 'session' THEN stamp END, version, ordinal
  ) AS before FROM scoped
)
SELECT event.app_name, event.user_id, event.session_id, version, ordinal, event_id, invocation_id,
  author, changed_at, scope, key, before, after, {IS_REWOUND} AS is_rewound
FROM event {JOIN_MARKS}
""",
)
