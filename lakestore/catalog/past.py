"""What a lake held at a time: a session is shown up to its last commit before the first later one.

Owns which rows came later, by `committed_at`, and below which time what was there is not known any
more. Nothing is stored for it: rows that are packed, and logs as they are, tell. Which keyed rows
were there is `lakestore.catalog.keyed_tables`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakestore.catalog.changes import changes_of
from lakestore.catalog.database import Database
from lakestore.catalog.views.view import IDS
from lakestore.checks import check_time
from lakestore.errors import InputError
from lakestore.log.manifests import Manifest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH).total_seconds() // 1
_DAY = 86_400 * 1_000_000
_KEPT = 30 * _DAY
"""For how long rows of deleted sessions stay in runs at least (FORMAT.md, section 10)."""

_KEYS = ", ".join(IDS)
_AT = "make_timestamptz($at)"

# What of each kind is known no more, each with the time from which on it does not matter.
_LOST = f"""
SELECT max(epoch_us(since)) FROM (
  -- The rows of a session that was deleted and packed are gone, or nobody's.
  SELECT active_at AS since FROM internal.packed_sessions WHERE NOT alive
  UNION ALL
  -- Versions go on when a session begins anew: there was a former life, of unknown end.
  SELECT created_at FROM internal.packed_sessions WHERE alive AND segments[1].first_version > 1
  UNION ALL
  -- What stands for events that were pruned has the time of the last of them.
  SELECT committed_at FROM internal.packed_rows AS stored
  JOIN internal.packed_sessions AS session USING ({_KEYS})
  WHERE author = 'lakestore' AND session.created_at <= {_AT}
    AND TRY(json_extract(event_json, '$.customMetadata.lakestore_pruned')) IS NOT NULL
) WHERE since > {_AT}
"""

_CUT = f"""
CREATE TEMP TABLE cut AS
SELECT {_KEYS}, min(version) AS version
FROM internal.packed_rows WHERE committed_at > {_AT} GROUP BY {_KEYS}
"""

_DROP_LATER = f"""
DELETE FROM internal.{{table}} AS fresh USING cut
WHERE ({", ".join(f"fresh.{name}" for name in IDS)}) = ({", ".join(f"cut.{name}" for name in IDS)})
  AND fresh.version >= {{version}}
"""

_TAKE_PACKED = f"""
INSERT INTO internal.rows
SELECT stored.* FROM internal.packed_rows AS stored JOIN cut USING ({_KEYS})
WHERE stored.version < cut.version
"""

_HIDE_PACKED = f"""
INSERT INTO internal.ended
SELECT {_KEYS}, session.version, true
FROM internal.packed_sessions AS session JOIN cut USING ({_KEYS})
"""

_DELTAS = f"""
SELECT {_KEYS}, version, ordinal, kind, state_delta FROM internal.rows
SEMI JOIN cut USING ({_KEYS}) WHERE state_delta IS NOT NULL
"""


def micros(as_of: datetime | float | None) -> int | None:
    """Return a time in microseconds since 1970 UTC, None for None.

    Raises:
        InputError: it is no time, or has no zone.
    """
    seconds = check_time("as_of", as_of)
    return None if seconds is None else round(min(max(seconds, 0), _LATEST) * 1_000_000)


class Past:
    """What a lake held at a time. For one refresh of a database that is empty."""

    def __init__(self, at: int) -> None:
        """Look at a time, in microseconds since 1970 UTC."""
        self._at = at
        self._cut: dict[tuple[str, str, str], bool] = {}
        """Of all sessions of which rows have come, whether a later one has."""
        self._lost = 0
        """From when on all is known; 0 where nothing says that something is not."""

    def keep(self, rows: pa.Table) -> pa.Table:
        """Return the rows, each log's in its order, that were there then."""
        columns = [rows[name].to_pylist() for name in (*IDS, "version", "kind")]
        times = rows["committed_at"].cast(pa.int64()).to_pylist()
        kept = []
        for app_name, user_id, session_id, version, kind, at in zip(*columns, times, strict=True):
            key = (app_name, user_id, session_id)
            is_cut = self._cut.get(key)
            # A checkpoint has the time at which somebody rolled up what had been there.
            if at > self._at and not is_cut and kind != "checkpoint":
                if is_cut is None and kind == "create" and version > 1:
                    self._lost = max(self._lost, at)  # its former life was swept
                is_cut = True
            self._cut[key] = bool(is_cut)
            kept.append(not is_cut)
        return rows.filter(pa.array(kept, pa.bool_()))

    def show(self, database: Database, manifests: Iterable[Manifest]) -> None:
        """Let a database that was brought up to date show what was there then, inside `change`.

        Raises:
            InputError: that is not known any more; the error says from when on it is.
        """
        writer, values = database.writer, {"at": self._at}
        ((packed,),) = writer.execute(_LOST, values).fetchall()
        departed = (each.looked - _KEPT for each in manifests if each.looked)
        lost = max(self._lost, packed or 0, *departed, 0)
        if lost > self._at:
            raise InputError(
                "what the lake held then is not known any more: some of it was deleted, or pruned,"
                f" and packed since. as_of={_shown(self._at)} earliest={_shown(lost)}"
            )
        writer.execute(_CUT, values)
        writer.execute(_DROP_LATER.format(table="rows", version="cut.version"))
        writer.execute(_DROP_LATER.format(table="changes", version="0"))
        writer.execute(_TAKE_PACKED)
        database.add_changes(changes_of(writer.sql(_DELTAS).to_arrow_table()))
        writer.execute(_HIDE_PACKED)
        writer.execute("DROP TABLE cut")


def _shown(at: int) -> str:
    return (_EPOCH + timedelta(microseconds=at)).isoformat()
