"""Rows that wait to be stored, so many at most; storing is done aside and delays nobody.

Owns the bound, what is dropped and when it is told. What the rows are is not its business.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock

from lakestore.errors import StorageError
from lakestore.storage import Pool
from lakestore.tables.telemetry import TelemetryRow

logger = logging.getLogger(__name__)


class Outbox:
    """Holds rows and stores them in a thread of its own. Safe to use from many threads."""

    def __init__(
        self, put: Callable[[Sequence[TelemetryRow]], None], most: int, batch: int
    ) -> None:
        """Begin empty.

        Args:
            put: Stores rows, and may be called again with some of them when it failed.
            most: How many rows may wait, those that are being stored among them.
            batch: How many are stored together, and when that many wait, at once.
        """
        self._put = put
        self._most = most
        self._batch = batch
        self._pool = Pool(1, "telemetry")
        self._lock = Lock()
        self._storing = Lock()
        self._waiting: deque[TelemetryRow] = deque()
        self._under_way = 0
        self._is_asked = False
        self._has_failed = False
        self._is_closed = False
        self.dropped = 0
        """How many rows were dropped, since there was no room for more, or no lake any more."""

    def add(self, row: TelemetryRow) -> None:
        """Take a row, or drop it where there is no room, or no lake any more."""
        with self._lock:
            is_closed = self._is_closed
            has_room = not is_closed and len(self._waiting) + self._under_way < self._most
            if has_room:
                self._waiting.append(row)
            is_full = len(self._waiting) >= self._batch
        if is_closed:
            self._drop(1, "the lake was closed")
        elif not has_room:
            self._drop(1, "more waits than may; is the store slow, or not there?")
        if is_full:
            self.flush_soon()

    def _drop(self, rows: int, reason: str) -> None:
        with self._lock:
            is_first = not self.dropped
            self.dropped += rows
        if is_first:
            logger.warning("telemetry is dropped from now on; %s", reason)

    def flush_soon(self) -> None:
        """Have what waits stored, soon and by another thread."""
        with self._lock:
            if self._is_asked or not self._waiting:
                return
            self._is_asked = True
        self.begin_flush()

    def begin_flush(self) -> Future[bool]:
        """As `flush_soon`; return what says when that was done."""
        return self._pool.submit(self._flush)

    def _flush(self) -> bool:
        with self._lock:
            self._is_asked = False
        return self.flush()

    def flush(self) -> bool:
        """Store all that waits, and return whether that was done. Blocking; raises nothing."""
        with self._storing:
            while rows := self._take():
                if not self._store(rows):
                    return False
        return True

    def _store(self, rows: Sequence[TelemetryRow]) -> bool:
        try:
            self._put(rows)
        except StorageError as error:
            self._give_back(rows, error)
            return False
        except Exception as error:  # noqa: BLE001 - whoever is measured must not suffer
            self._drop(len(rows), str(error))
        with self._lock:
            self._under_way = 0
            self._has_failed = False
        return True

    def _take(self) -> list[TelemetryRow]:
        with self._lock:
            count = min(len(self._waiting), self._batch)
            self._under_way = count
            return [self._waiting.popleft() for _ in range(count)]

    def _give_back(self, rows: Sequence[TelemetryRow], error: Exception) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(rows))
            self._under_way = 0
            is_first, self._has_failed = not self._has_failed, True
        if is_first:
            logger.warning("telemetry was not stored, and is tried again: %s", error)

    def close(self) -> None:
        """Store what waits, and drop what cannot be. Blocking; raises nothing."""
        self.flush()
        self._pool.close()
        with self._lock:
            self._is_closed = True
            left = len(self._waiting)
            self._waiting.clear()
        if left:
            self._drop(left, "the lake was closed")
