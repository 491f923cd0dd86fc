"""The view `artifacts`: versions of files that agents saved, one row a version that lives.

Which event saved one is told by the deltas of events, whose JSON is opened only if it is asked for.
"""

from lakestore.catalog.views.view import COUNT, FLAG, IDS, TEXT, TIME, Column, View, literal

_COLUMNS = {
    **IDS,
    "session_id": Column(TEXT, "the session; null for one that all sessions of the user share"),
    "filename": Column(TEXT, "its name, with `user:` before it where the user's sessions share it"),
    "version": Column(COUNT, "the number of the version, from 0"),
    "versions": Column(COUNT, "how many versions of it there are"),
    "is_latest": Column(FLAG, "whether no later version is there"),
    "mime_type": Column(TEXT, "as it was saved; null for none"),
    "size": Column(COUNT, "bytes of the payload; null where it only points at something"),
    "sha256": Column(TEXT, "of the payload, in hexadecimal"),
    "canonical_uri": Column(TEXT, "where the payload is, as fsspec opens it"),
    "file_uri": Column(TEXT, "what it points at; null where it has a payload"),
    "display_name": Column(TEXT, "as it was saved; null for none"),
    "custom_metadata": Column(TEXT, "JSON object, null for none"),
    "created_at": Column(TIME, "when it was saved, by the writer's clock"),
    "event_id": Column(
        TEXT, "the last event of the session (of the user) that says it saved it; opens the JSON"
    ),
    "invocation_id": Column(TEXT, "the turn of that event; opens the JSON"),
}

ARTIFACT_EVENTS = """
SELECT app_name, user_id,
  CASE WHEN starts_with(saved.key, 'user:') THEN '' ELSE session_id END AS session_id,
  saved.key AS filename, saved.value AS version,
  arg_max(event_id, (committed_at, ordinal)) AS event_id,
  arg_max(invocation_id, (committed_at, ordinal)) AS invocation_id
FROM (
  SELECT app_name, user_id, session_id, event_id, invocation_id, committed_at, ordinal,
    unnest(internal.saved_files(event_json)) AS saved
  FROM internal.all_events WHERE contains(event_json, '"artifact')
)
GROUP BY ALL
"""
"""Which event saved which version: one row a session (or user), file name and number."""

ARTIFACTS = View(
    "one row a version of an artifact that was not deleted",
    _COLUMNS,
    """
SELECT app_name, user_id, living.session_id, filename, version, versions,
  saved.is_latest AS is_latest, saved.mime_type AS mime_type, saved.size AS size,
  saved.sha256 AS sha256, internal.uri(saved.payload) AS canonical_uri,
  saved.file_uri AS file_uri, saved.display_name AS display_name,
  saved.custom_metadata AS custom_metadata, saved.committed_at AS created_at,
  event.event_id, event.invocation_id
FROM (
  SELECT *, saved.artifact_version AS version, coalesce(session_id, '') AS scope
  FROM internal.artifact_versions
) AS living
LEFT JOIN (SELECT * RENAME (session_id AS scope) FROM internal.artifact_events) AS event
  USING (app_name, user_id, scope, filename, version)
""",
)


def uri_macro(root: str) -> str:
    """Return the statement that lets views tell where objects are whose keys they know.

    Args:
        root: What comes before the keys.
    """
    return f"CREATE OR REPLACE MACRO internal.uri(key) AS {literal(root)} || key"
