"""Artifacts in DuckDB: what is fresh is held, one row an artifact, and runs are scanned.

Owns the statements, and which versions live. What is to be read is `lakestore.catalog.artifacts`',
what a row of the view means the view's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakestore.catalog.views import literal
from lakestore.log.keys import ArtifactKey
from lakestore.tables.artifacts import RUN_SCHEMA, ArtifactRow, Commit, to_table

Place = tuple[str, str, str]
"""App, user, and what names an artifact among that user's."""

_IDS = "app_name, user_id, session_id, filename"
_PLACE = "app_name, user_id, key"
_HELD = pa.schema(
    [
        *RUN_SCHEMA,
        pa.field("log", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("packed", pa.int64(), nullable=False),
    ]
)
"""Of an artifact its newest commit: what an earlier one than `first` saved does not live, and up to
`packed` runs tell."""
_SAME = " AND ".join(f"fresh.{name} = run.{name}" for name in _PLACE.split(", "))

_LIVING = f"""
WITH run AS ({{runs}}), living AS (
  SELECT {", ".join(f"coalesce(fresh.{name}, run.{name}) AS {name}" for name in _IDS.split(", "))},
    list_filter(list_concat(
      list_filter(run.saves, lambda saved: saved.version >= coalesce(fresh.first, 0)),
      list_filter(fresh.saves, lambda saved: saved.version > fresh.packed)
    ), lambda saved: {{was_there}}) AS saves
  FROM run FULL JOIN internal.fresh_artifacts AS fresh ON {_SAME}
)
SELECT {_IDS}, len(saves) AS versions, unnest(list_transform(saves, lambda saved, place:
  struct_insert(saved, is_latest := place = len(saves)))) AS saved
FROM living
"""

_WANTED = f"""
SELECT wanted.log, run.version FROM ({{runs}}) AS run
JOIN wanted USING ({_PLACE})
"""


@dataclass(frozen=True, slots=True)
class Held:
    """What a commit says of an artifact that is not packed."""

    log: str
    """The prefix of its log."""
    commit: Commit
    packed: int
    """Up to which version its row in runs tells, 0 without one."""


class ArtifactTables:
    """The table and view of one database; `writer` is in a transaction but while it is made."""

    def __init__(self, writer: duckdb.DuckDBPyConnection, as_of: int | None = None) -> None:
        """Show what was saved `as_of` a time, in microseconds since 1970 UTC; None for all."""
        self._writer = writer
        self._was_there = "true" if as_of is None else f"epoch_us(saved.committed_at) <= {as_of}"
        self._runs = _newest_rows([])
        self.changes = 0
        """How often what is shown may have changed."""

    def create(self) -> None:
        """Make the table and the view, which show nothing yet."""
        self._with(
            "held", _HELD.empty_table(), "CREATE TABLE internal.fresh_artifacts AS FROM held"
        )
        self.scan([])

    def scan(self, runs: Sequence[Sequence[str]]) -> None:
        """Show what lives of artifacts by what is held, and by runs.

        Args:
            runs: The paths of each app's, the newest first.
        """
        self._runs = _newest_rows(runs)
        living = _LIVING.format(runs=self._runs, was_there=self._was_there)
        self._writer.execute(f"CREATE OR REPLACE VIEW internal.artifact_versions AS {living}")
        self.changes += 1

    def versions(self, wanted: Mapping[str, Place]) -> dict[str, int]:
        """Return up to which version runs tell of some artifacts, by log; without those of none.

        Args:
            wanted: By log where their rows are.
        """
        if not wanted:
            return {}
        rows = [(log, *place) for log, place in wanted.items()]
        names = ["log", *_PLACE.split(", ")]
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        self._writer.register("wanted", pa.table(columns, names=names))
        found = self._writer.execute(_WANTED.format(runs=self._runs)).fetchall()
        self._writer.unregister("wanted")
        return dict(found)

    def packed_keys(self, logs: Collection[str]) -> dict[str, ArtifactKey]:
        """Return whose rows in runs some logs are, by reading the names of all; few are damaged."""
        found = self._writer.execute(f"SELECT {_IDS} FROM ({self._runs})") if logs else None
        keys = (ArtifactKey(*ids) for ids in (found.fetchall() if found else ()))
        return {key.log: key for key in keys if key.log in logs}

    def held(self) -> dict[str, Place]:
        """Return by log which artifacts are held."""
        found = self._writer.execute(f"SELECT log, {_PLACE} FROM internal.fresh_artifacts")
        return {log: (app, user, key) for log, app, user, key in found.fetchall()}

    def hold(self, commits: Sequence[Held]) -> None:
        """Hold commits in place of what was held of their artifacts."""
        if commits:
            self.drop([each.log for each in commits])
            table = to_table([_row(each.commit) for each in commits])
            for name, values in (
                ("log", pa.array([each.log for each in commits], pa.string())),
                ("first", pa.array([each.commit.first for each in commits], pa.int64())),
                ("packed", pa.array([each.packed for each in commits], pa.int64())),
            ):
                table = table.append_column(name, values)
            self._with("held", table, "INSERT INTO internal.fresh_artifacts FROM held")

    def drop(self, logs: Sequence[str]) -> None:
        """Hold nothing of some artifacts."""
        if logs:
            gone = pa.table({"log": pa.array(logs, pa.string())})
            delete = "DELETE FROM internal.fresh_artifacts WHERE log IN (FROM gone)"
            self._with("gone", gone, delete)

    def note_packed(self, versions: Mapping[str, int]) -> None:
        """Note up to which version runs tell of artifacts that are held; those told of whole go."""
        if versions:
            told = pa.table(
                {
                    "log": pa.array(versions, pa.string()),
                    "version": pa.array(versions.values(), pa.int64()),
                }
            )
            self._with(
                "told",
                told,
                "UPDATE internal.fresh_artifacts AS fresh SET packed = told.version"
                " FROM told WHERE told.log = fresh.log",
                "DELETE FROM internal.fresh_artifacts WHERE version <= packed",
            )

    def clear(self) -> None:
        """Hold nothing, and scan nothing."""
        self._writer.execute("DELETE FROM internal.fresh_artifacts")
        self.scan([])

    def _with(self, name: str, table: pa.Table, *statements: str) -> None:
        self._writer.register(name, table)
        for statement in statements:
            self._writer.execute(statement)
        self._writer.unregister(name)
        self.changes += 1


def _row(commit: Commit) -> ArtifactRow:
    ids = (commit.app_name, commit.user_id, commit.session_id, commit.filename)
    said = (commit.version, commit.token, commit.committed_at)
    return ArtifactRow(*ids, *said, saves=commit.saves)


def _newest_rows(runs: Sequence[Sequence[str]]) -> str:
    """Return the query of the rows that count: of each artifact that of the newest run of its app.

    What nothing newer has is streamed.
    """
    columns, found = f"{_IDS}, key, version, saves", []
    for paths in runs:
        scans = [f"read_parquet({literal(path)}, hive_partitioning = false)" for path in paths]
        for age, scan in enumerate(scans):
            newer = (f" ANTI JOIN {each} USING (user_id, key)" for each in scans[:age])
            found.append(f"SELECT {columns} FROM {scan} AS run{''.join(newer)}")
    return " UNION ALL ".join(found) or (
        f"SELECT {columns} FROM internal.fresh_artifacts WHERE false"
    )
