"""A lake: opens a URL, holds the threads and caches, and is the face of all rooms below.

Owns how the parts are put together, once per process; a forked process puts them together anew.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from io import BufferedReader
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from lakestore.analytics import Analytics
from lakestore.checks import check_flag, check_folder, check_number, check_options, check_texts
from lakestore.clock import Clock, NewToken, SystemClock, new_token
from lakestore.errors import InputError, raise_first
from lakestore.history.artifact_opening import open_payload
from lakestore.history.artifact_references import Target
from lakestore.history.artifacts import Artifacts
from lakestore.history.environment import Environment
from lakestore.history.sessions import Sessions
from lakestore.log.filenames import artifact_key, check_version
from lakestore.log.keys import SessionKey
from lakestore.log.marker import Limits, open_lake
from lakestore.storage import (
    ClientName,
    Gate,
    Metrics,
    ObjectStore,
    Pool,
    layered,
    open_store,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestore.catalog import Queries

R = TypeVar("R")

_opened: weakref.WeakSet[Lake] = weakref.WeakSet()


class Lake(Analytics):
    """Everything under one URL. Safe to use from many threads and event loops; fork when you like.

    Open it with `Lake.open`, close it with `close` or a `with` block.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        read_only: bool = False,
        rollups: bool = True,
        limits: Limits | None = None,
        cache_bytes: int = 256 * 2**20,
        max_concurrency: int = 32,
        state_columns: Sequence[str] = (),
        catalog_cache: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        new_token: NewToken = new_token,
        pools: Callable[[int, str, Gate], Pool] = Pool,
    ) -> None:
        """Take a store; `Lake.open` takes a URL. `pools` makes a pool of so many threads."""
        _check_settings(read_only, rollups, limits, cache_bytes, max_concurrency)
        self.url = store.url
        self.storage_options: Mapping[str, Any] = {}
        """What the store needs besides its URL, as `open` was given it; may hold credentials."""
        self.client: ClientName = "fsspec"
        """Who talks to a bucket, as `open` was told."""
        self.read_only = read_only
        self._clock = clock or SystemClock()
        self._new_token = new_token
        self._pools = pools
        self._inner = store
        self._count()
        self._limits = open_lake(self._store, limits, self._clock, new_token, read_only=read_only)
        if not read_only:
            store.clear_leftovers(self._limits.grace)
        self._rollups = rollups and not read_only
        self._state_columns = check_texts("state_columns", state_columns)
        self._catalog_cache = check_folder("catalog_cache", catalog_cache)
        self._cache_bytes = cache_bytes
        self._max_concurrency = max_concurrency
        self._closed = False
        self._writers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._resets: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._build()
        _opened.add(self)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        client: ClientName = "fsspec",
        read_only: bool = False,
        rollups: bool = True,
        limits: Limits | None = None,
        cache_bytes: int = 256 * 2**20,
        max_concurrency: int = 32,
        state_columns: Sequence[str] = (),
        catalog_cache: str | os.PathLike[str] | None = None,
    ) -> Lake:
        """Open the lake at `url`, creating it where there is none.

        Args:
            url: A path (taken as it stands but for a leading `~`), `file://<path>`,
                `s3://<bucket>/<prefix>`, `gs://<bucket>/<prefix>` or `memory://<name>`.
            storage_options: What the store needs besides, by the names fsspec gives them.
            client: Who talks to a bucket: fsspec's s3fs and gcsfs, or obstore, which is an extra.
            read_only: Never write anything. The lake must exist. What fsspec can list and read
                will do, such as `sftp://` or `zip://`.
            rollups: Let this process write rollups of long session logs and sweep what they cover.
            limits: The two times of a new lake; an existing one keeps its own.
            cache_bytes: What each of the caches may hold; one larger index is kept besides.
            max_concurrency: Requests under way at once.
            state_columns: Keys of sessions' own state that become columns of `sessions`.
            catalog_cache: A folder of yours where `sql`, `scan` and `scan_polars` keep what they
                have read of logs, for the next process; one at a time has it, others do without.

        Raises:
            InputError: the URL or an option makes no sense.
            NotFoundError: there is no lake, and `read_only`.
            FormatError: the lake was written by a newer version.
            UnsupportedStoreError: the store cannot create objects exclusively.
            StorageError: the store failed.
        """
        options = check_options("storage_options", storage_options)
        lake = cls(
            open_store(url, options, read_only=read_only, client=client),
            read_only=read_only,
            rollups=rollups,
            limits=limits,
            cache_bytes=cache_bytes,
            max_concurrency=max_concurrency,
            state_columns=state_columns,
            catalog_cache=catalog_cache,
        )
        lake.storage_options, lake.client = options, client
        return lake

    def _count(self) -> None:
        self.metrics = Metrics()
        """Counters since the lake was opened, or since this process was forked."""
        self._gate = Gate()
        self._store = layered(
            *(self._inner, self.metrics, self._gate, self._clock, self._new_token),
            read_only=self.read_only,
        )

    def _build(self) -> None:
        """Put together what holds threads, locks and connections: none of it survives a fork."""
        self._calls = self._pools(self._max_concurrency, "call", self._gate)
        self._requests = self._pools(self._max_concurrency, "io", self._gate)
        self._upkeep = self._pools(1, "upkeep", self._gate)
        self._ask_anew()
        self.environment = Environment(
            store=self._store,
            clock=self._clock,
            new_token=self._new_token,
            limits=self._limits,
            metrics=self.metrics,
            pool=self._requests,
            upkeep=self._run_upkeep,
            writable=not self.read_only,
            rollups=self._rollups,
            cache_bytes=self._cache_bytes,
        )
        """What sessions and jobs of this lake work with."""
        self._sessions = Sessions(self.environment)
        self._artifacts = Artifacts(self.environment, self._sessions.archive)

    @property
    def artifacts(self) -> Artifacts:
        """All artifacts of the lake, without ADK.

        Raises:
            InputError: the lake is closed.
        """
        self._check_open()
        return self._artifacts

    @property
    def sessions(self) -> Sessions:
        """All sessions of the lake, without ADK.

        Raises:
            InputError: the lake is closed.
        """
        self._check_open()
        return self._sessions

    def before_close(self, write: Callable[[], None]) -> None:
        """Let `close` call the method `write` first, as long as its object lives."""
        self._writers.append(weakref.WeakMethod(write))

    def after_fork(self, reset: Callable[[], None]) -> None:
        """Let a forked process call the method `reset` first, as long as its object lives."""
        self._resets.append(weakref.WeakMethod(reset))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def clock(self) -> Clock:
        """Where the lake takes time from."""
        return self._clock

    async def run(self, call: Callable[[], R]) -> R:
        """Await blocking `call`, which runs in one of the lake's threads.

        Cancelling the await does not stop the thread: a write that began may still land.
        """
        context = contextvars.copy_context()
        return await asyncio.wrap_future(self.submit(lambda: context.run(call)))

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Run blocking `call` in one of the lake's threads.

        Raises:
            InputError: the lake is closed.
        """
        self._check_open()
        return self._calls.submit(lambda: self._gate.inside(call))

    def _run_upkeep(self, work: Callable[[], None]) -> None:
        if not self._closed:
            self._upkeep.submit(work)

    def user_events(
        self,
        app_name: str,
        user_id: str,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        session_ids: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return all events of a user over all sessions, by one listing and no query per session.

        Args:
            app_name: The app.
            user_id: The user.
            since: Only events after this time (exclusive).
            until: Only events up to this time (inclusive).
            session_ids: Only these sessions.

        Returns:
            Rows in `lakestore.tables.events.SCHEMA` without `previous`, session by session (ordered
            by id) in commit order, as they are stored: where bytes are beside an event, `payloads`
            names them. Deleted sessions have none.

        Raises:
            InputError: an id or time makes no sense.
            FormatError: an object of one of `session_ids` is damaged.
            StorageError: the store failed.
        """
        from lakestore.history.user_events import event_rows
        from lakestore.tables.events import to_table

        self._check_open()
        rows = event_rows(self.sessions, app_name, user_id, since, until, session_ids)
        return to_table(rows).drop_columns(["previous"])

    def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> BufferedReader:
        """Open the payload of an artifact as a binary file that can seek, read range by range.

        References are followed as `load_artifact` does, but the digest is not looked at.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As it was saved, or is listed.
            session_id: The session; None for an artifact that all sessions of the user share.
            version: Its number; None for the latest.

        Raises:
            InputError: an argument makes no sense, or the version points at something else.
            NotFoundError: there is no such artifact, or version.
            FormatError: the artifact's log is damaged, or the payload is gone or cut.
            StorageError: the store failed.
        """
        key = artifact_key(app_name, user_id, filename, session_id)
        target = Target(key, session_id, check_version(version))
        return open_payload(self.artifacts, self._store, target)

    @override
    def _new_queries(self) -> Queries:
        from lakestore.catalog import Catalog, Queries

        parts = (self._store, self._requests, self._clock, self.metrics, self._limits)
        new_catalog = partial(Catalog, *parts, self._note_stamp, self._state_columns)
        return Queries(new_catalog, self._prices, self._catalog_cache)

    def _note_stamp(self, app_name: str, user_id: str, stamp: str) -> None:
        self._sessions.shared.note_read(SessionKey(app_name, user_id, ""), [stamp])

    @override
    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"the lake is closed. url={self.url!r}")

    def close(self) -> None:
        """Write what services hold, finish what runs, and release threads and connections.

        Raises:
            Exception: what a service held could not be written; the lake is closed all the same,
                and all that others held is written. What failed besides is in its notes.
        """
        if self._closed:
            return
        try:
            failures = self._write_all()
        finally:
            self._closed = True
            self._release()
        raise_first(failures)

    def _write_all(self) -> list[Exception]:
        """Let each service write what it holds; return why some could not."""
        failures = []
        for writer in self._writers:
            write = writer()
            if write is not None:
                try:
                    write()
                except Exception as error:  # noqa: BLE001 - the others write first
                    failures.append(error)
        return failures

    def _release(self) -> None:
        for pool in (self._upkeep, self._calls, self._requests):
            pool.close()
        self._stop_asking()
        self._store.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self.url!r}{', read_only=True' if self.read_only else ''})"


def _check_settings(
    read_only: object, rollups: object, limits: object, cache_bytes: object, max_concurrency: object
) -> None:
    check_flag("read_only", read_only)
    check_flag("rollups", rollups)
    check_number("cache_bytes", cache_bytes)
    check_number("max_concurrency", max_concurrency, least=1)
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits are lakestore.Limits(...). type={type(limits).__name__}")


def _begin_anew() -> None:
    for lake in list(_opened):
        lake._catalog_cache = None  # it is the parent's
        lake._count()
        lake._build()
        for reset in lake._resets:
            call = reset()
            if call is not None:
                call()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
