"""A private file of what was read of a lake's logs, so that a new process need not read it again.

Owns the file: what is in it, whose it is, and that one process has it open. It holds rows as they
arrived, and how far each log was read; all that SQL shows is made from them as if they had just
been read, and what jobs have packed is asked for anew. It may be deleted at any time.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow as pa

from lakestore.catalog.database import Database
from lakestore.catalog.process import SETTINGS, let_go, scratch
from lakestore.log.keys import MARKER_KEY, SessionKey, log_digest
from lakestore.log.marker import FORMAT_VERSION
from lakestore.storage import ObjectStore
from lakestore.tables.events import SCHEMA

logger = logging.getLogger(__name__)

CONTENT_VERSION = 1
"""What the tables of a file mean; a new one where an older file must not be used any more."""
LIFE = 25 * 86_400.0
"""Seconds after which all is read anew, in a process and in a file: 30 days after a session was
deleted the versions of its log may begin at 1 again, which who knows its last would not see."""

_ENDING = ".duckdb"
_BATCH_ROWS = 65_536
_SPARE_ROWS = 65_536

_TABLES = """
CREATE TABLE rows AS FROM arrived;
CREATE TABLE versions (log VARCHAR, version BIGINT);
CREATE TABLE erased (run VARCHAR);
CREATE TABLE about (made_at DOUBLE)
"""

_ENDED = "SELECT app_name, user_id, session_id, last FROM internal.ended"
_DELETE = {
    "ordinal": 0,
    "kind": "delete",
    "committed_at": 0,
    "token": "",
    "previous": "",
}
"""What stands for the end of a session besides its ids and version."""


@dataclass(slots=True)
class Loaded:
    """How far a file had come."""

    versions: dict[str, int]
    """Up to which version each log was read."""
    erased: set[str]
    """The runs of erased sessions that were known: nothing of what they say is in the file."""
    age: float = 0.0
    """Seconds since that was begun."""


class CacheFile:
    """The file of one lake, while this process has it open."""

    def __init__(
        self, path: Path, connection: duckdb.DuckDBPyConnection, *, is_filled: bool
    ) -> None:
        """Take an open one; `open_cache` opens it."""
        self.is_filled = is_filled
        """Whether it has what a refresh has made; else only `fill` is of use."""
        self._path = path
        self._connection = connection
        self._rows = 0
        """How many there are."""
        _open.add(path)
        self._leave = weakref.finalize(self, _leave, path, os.getpid())
        weakref.finalize(self, let_go, [connection], [], os.getpid())

    def load(self, now: float, database: Database) -> Loaded:
        """Bring what is in the file into an empty database, inside its `change`."""
        reader = self._connection.sql("FROM rows").to_arrow_reader(_BATCH_ROWS)
        for batch in reader:
            rows = pa.Table.from_batches([batch]).cast(SCHEMA)
            self._rows += rows.num_rows
            database.add(rows)
        versions = "SELECT log, max(version) FROM versions GROUP BY log"
        erased = self._connection.execute("FROM erased").fetchall()
        ((made_at,),) = self._connection.execute("FROM about").fetchall()
        reached = dict(self._connection.execute(versions).fetchall())
        return Loaded(reached, {run for (run,) in erased}, now - made_at)

    def append(
        self, tables: Iterable[pa.Table], versions: Mapping[str, int], gone: Collection[str]
    ) -> None:
        """Add rows that were read, and how far logs were that are not `gone`."""
        with self._change():
            for rows in tables:
                self._add(rows)
            self._reach(versions, gone)

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
            self._connection.commit()
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.rollback()
            raise

    def _add(self, rows: pa.Table) -> None:
        self._insert("rows", rows)
        self._rows += rows.num_rows

    def _reach(self, versions: Mapping[str, int], gone: Collection[str]) -> None:
        kept = {log: at for log, at in versions.items() if not gone or log_digest(log) not in gone}
        if kept:
            columns = {"log": list(kept), "version": list(kept.values())}
            self._insert("versions", pa.table(columns))

    def is_wasteful(self, database: Database) -> bool:
        """Tell whether most of the rows in it are not needed any more."""
        ((needed,),) = database.writer.execute("SELECT count(*) FROM internal.rows").fetchall()
        return bool(self._rows > 2 * needed + _SPARE_ROWS)

    def fill(self, now: float, database: Database, loaded: Loaded, gone: Collection[str]) -> None:
        """Put what a database shows of fresh rows into an empty file.

        Args:
            now: Seconds since 1970 UTC.
            database: Has no rows of sessions that were erased.
            loaded: How far it is.
            gone: The digests of erased sessions' logs; neither these nor their ids are put in.
        """
        ended = [
            {"app_name": app_name, "user_id": user_id, "session_id": session_id, "version": last}
            for app_name, user_id, session_id, last in database.writer.execute(_ENDED).fetchall()
            if log_digest(SessionKey(app_name, user_id, session_id).log) not in gone
        ]
        with self._change():
            self._connection.execute("INSERT INTO about VALUES (?)", [now - loaded.age])
            for batch in database.writer.sql("FROM internal.rows").to_arrow_reader(_BATCH_ROWS):
                self._add(pa.Table.from_batches([batch]))
            self._add(pa.Table.from_pylist([{**_DELETE, **each} for each in ended], SCHEMA))
            self._reach(loaded.versions, gone)
            self._insert("erased", pa.table({"run": pa.array(sorted(loaded.erased), pa.string())}))
        self.is_filled = True

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._connection.register("given", rows)
        self._connection.execute(f"INSERT INTO {table} BY NAME FROM given")
        self._connection.unregister("given")

    def remove(self) -> None:
        """Delete the file: its bytes are gone when this returns."""
        with suppress(duckdb.Error):
            self._connection.execute("CHECKPOINT")
        _delete(self._path)
        self.close()

    def close(self) -> None:
        """Let others open it."""
        self._connection.close()
        self._leave()


_open: set[Path] = set()
"""Files that this process has open: DuckDB would share them."""


def _leave(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        _open.discard(path)


def cache_path(folder: Path, store: ObjectStore) -> Path:
    """Return where the file of a lake is: another name for each lake, and for what may be in it."""
    lake = sha256(store.url.encode() + b"\0" + store.get(MARKER_KEY)).hexdigest()[:24]
    versions = (CONTENT_VERSION, FORMAT_VERSION, duckdb.__version__, SCHEMA)
    content = sha256("\n".join(map(str, versions)).encode()).hexdigest()[:8]
    return folder.resolve() / f"{lake}-{content}{_ENDING}"


def open_cache(path: Path, now: float) -> CacheFile | None:
    """Open the file of a lake, or make an empty one; None, with a warning, if that cannot be.

    Its folder is made for its owner alone; files of this lake that another version made go.

    Args:
        path: Where it is, as `cache_path` says.
        now: Seconds since 1970 UTC.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in path.parent.glob(f"{path.name.partition('-')[0]}-*{_ENDING}"):
            if other.name != path.name:
                _delete(other)
        return _opened(path, now)
    except (OSError, duckdb.Error) as error:
        logger.warning("the catalog's cache cannot be used. path=%r reason=%s", str(path), error)
        return None


def _opened(path: Path, now: float) -> CacheFile | None:
    if path in _open:
        logger.warning("the catalog's cache is in use in this process. path=%r", str(path))
        return None
    try:
        connection = _connect(path)
    except duckdb.IOException as error:
        if "lock" in str(error):
            logger.warning("the catalog's cache is in use by another process. path=%r", str(path))
            return None
        connection = None  # damaged
    if connection is not None:
        if _is_whole(connection, now):
            return CacheFile(path, connection, is_filled=True)
        connection.close()
    _delete(path)
    return _made(path)


def _made(path: Path) -> CacheFile:
    connection = _connect(path)
    connection.register("arrived", SCHEMA.empty_table())
    connection.execute(_TABLES)
    connection.unregister("arrived")
    return CacheFile(path, connection, is_filled=False)


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(path), config={**SETTINGS, "temp_directory": scratch()})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _is_whole(connection: duckdb.DuckDBPyConnection, now: float) -> bool:
    """Tell whether a file was filled, and not too long ago."""
    try:
        made = connection.execute("FROM about").fetchall()
    except duckdb.Error:
        return False
    return len(made) == 1 and 0 <= now - made[0][0] < LIFE


def _delete(path: Path) -> None:
    for each in (path, path.with_name(path.name + ".wal")):
        each.unlink(missing_ok=True)
