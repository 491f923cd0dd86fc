"""The SQL by which rows come into the catalog's database and go again. Owns its tables.

Those of `{table}` are for `rows`, `changes` and `ended` alike.
"""

from __future__ import annotations

from lakestore.log.keys import PACK_ENDING
from lakestore.tables import runs
from lakestore.tables.parquet import lean

TABLES = """
CREATE SCHEMA internal;
CREATE TABLE internal.rows AS FROM arrived;
CREATE TABLE internal.changes (
  app_name VARCHAR, user_id VARCHAR, session_id VARCHAR, version BIGINT, ordinal INTEGER,
  place INTEGER, key VARCHAR, value VARCHAR
);
CREATE TABLE internal.ended (
  app_name VARCHAR, user_id VARCHAR, session_id VARCHAR, last BIGINT, goes_on BOOLEAN
);
CREATE TABLE internal.prices AS FROM given;
CREATE TABLE internal.packed_sessions AS FROM packed WHERE false;
CREATE VIEW internal.packed_rows AS FROM internal.rows WHERE false;
CREATE VIEW internal.packed AS FROM internal.packed_sessions AS session
  WHERE alive AND NOT EXISTS (
    FROM internal.ended WHERE ended.app_name = session.app_name
      AND ended.user_id = session.user_id AND ended.session_id = session.session_id
      AND ended.last >= session.version
  );
"""
"""`rows` hold what is fresh, `changes` the state of sessions of which some is, `prices` what the
user gave, `packed_sessions` what runs say of each session, `ended` up to which version fresh rows
end it, or hide what is packed of one that goes on (`Past`); `packed` are the sessions that live,
with their segments."""

ADD_ROWS = "INSERT INTO internal.rows FROM arrived WHERE kind IN ('create', 'event')"

ADD_PRICES = "INSERT INTO internal.prices BY NAME FROM given"

ADD_CHANGES = "INSERT INTO internal.changes FROM changed"

ADD_ENDED = """
INSERT INTO internal.ended
SELECT app_name, user_id, session_id,
  max(CASE kind WHEN 'delete' THEN version ELSE version - 1 END) AS last, false
FROM ended GROUP BY app_name, user_id, session_id
"""

PAYLOADS = (
    'STRUCT("path" VARCHAR, "key" VARCHAR, sha256 VARCHAR, size BIGINT, mime_type VARCHAR,'
    ' "encoding" VARCHAR)[]'
)
"""The type of the column that packs have only where a row needs it."""

PACK_SESSIONS = f"""
INSERT INTO internal.packed_sessions
SELECT {", ".join(f"run.{name}" for name in lean(runs.SCHEMA).names)}
FROM read_parquet($paths, filename = true, hive_partitioning = false) AS run
JOIN aged ON aged.path = run.filename
QUALIFY row_number() OVER (
  PARTITION BY run.app_name, run.user_id, run.session_id ORDER BY aged.age
) = 1
"""

DROP_PACKED = """
DELETE FROM internal.{table} AS fresh USING internal.packed_sessions AS session
WHERE fresh.app_name = session.app_name AND fresh.user_id = session.user_id
  AND fresh.session_id = session.session_id AND fresh.{version} <= session.version
"""

WHOLE_PACKS = """
SELECT {columns} FROM read_parquet({paths}, hive_partitioning = false) AS stored
"""

UNLESS_ENDED = """
WHERE NOT EXISTS (
  FROM internal.ended WHERE ended.app_name = stored.app_name
    AND ended.user_id = stored.user_id AND ended.session_id = stored.session_id
    AND ended.last >= stored.version
)
"""
"""Where nothing is ended this is left out: DuckDB would read four columns more to find nobody."""

IS_ANY_ENDED = "SELECT EXISTS (FROM internal.ended)"

PACKS_IN_PART = f"""
SELECT {{columns}}
FROM read_parquet({{paths}}, filename = true, hive_partitioning = false) AS stored
SEMI JOIN (
  SELECT app_name, user_id, session_id, unnest(segments, recursive := true) FROM internal.packed
) AS segment
ON segment.app_name = stored.app_name AND segment.user_id = stored.user_id
  AND segment.session_id = stored.session_id
  AND stored.version BETWEEN segment.first_version AND segment.last_version
  AND ends_with(split_part(stored.filename, '?', 1), '/' || segment.pack || '{PACK_ENDING}')
"""

RANGES = """
SELECT DISTINCT start, length
FROM (SELECT unnest(segments, recursive := true) FROM internal.packed) WHERE pack = ?
"""

PACKED_VERSIONS = """
SELECT app_name, user_id, session_id, version FROM internal.packed_sessions
SEMI JOIN wanted USING (app_name, user_id, session_id)
"""

FRESH_SESSIONS = """
SELECT app_name, user_id, session_id FROM internal.rows
UNION SELECT app_name, user_id, session_id FROM internal.changes
"""

APPS = """
SELECT app_name FROM internal.rows UNION SELECT app_name FROM internal.changes
UNION SELECT app_name FROM internal.ended
"""

DROP_APPS = "DELETE FROM internal.{table} WHERE app_name IN $gone"

LONG_IDS = """
SELECT app_name, user_id, session_id, version FROM internal.packed_sessions
WHERE greatest(strlen(app_name), strlen(user_id), strlen(session_id)) >= 40
"""

END_SESSIONS = """
DELETE FROM internal.{table} AS gone USING (
  SELECT app_name, user_id, session_id,
    max(CASE kind WHEN 'delete' THEN version ELSE version - 1 END) AS last
  FROM ended GROUP BY app_name, user_id, session_id
) AS over
WHERE gone.app_name = over.app_name AND gone.user_id = over.user_id
  AND gone.session_id = over.session_id AND gone.version <= over.last
"""
