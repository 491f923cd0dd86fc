"""Sending again what a store far away refused for the moment. The one place that does so.

Owns how often and after which pauses. What a failure means stands in `failures`; a creation whose
outcome is not known is none of this module's: only who knows the content may send it again. An
upload is sent again, for its name is nobody else's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from typing_extensions import override

from lakestore.clock import Clock, NewToken
from lakestore.errors import StorageError
from lakestore.storage.failures import TransientError
from lakestore.storage.metrics import Metrics
from lakestore.storage.store import ObjectStore, StoredObject
from lakestore.storage.uploads import AroundUpload, Upload
from lakestore.storage.wrappers import Wrapper

logger = logging.getLogger(__name__)

R = TypeVar("R")

ATTEMPTS = 7
LONGEST_SECONDS = 60.0
"""After which nothing is begun again, however few the attempts were."""
_FIRST_PAUSE_SECONDS = 0.1


class RetryingStore(Wrapper):
    """Repeats a request that did nothing, up to `ATTEMPTS` times, with pauses that double.

    A pause is between half of its bound and the bound, so that many writers do not come back at
    once. Put it around a store that counts, and what is sent again is counted again.
    """

    def __init__(
        self, inner: ObjectStore, metrics: Metrics, clock: Clock, new_token: NewToken
    ) -> None:
        super().__init__(inner)
        self._metrics = metrics
        self._clock = clock
        self._new_token = new_token

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        self._repeat(lambda: self._inner.put_if_absent(key, body))

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        upload = super().open_upload(key, content_type)
        return AroundUpload(upload, lambda _kind, _written, call: self._repeat(call))

    @override
    def get(self, key: str) -> bytes:
        return self._repeat(lambda: self._inner.get(key))

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._repeat(lambda: self._inner.get_range(key, start, length))

    @override
    def size(self, key: str) -> int:
        return self._repeat(lambda: self._inner.size(key))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        return self._listing(lambda last: self._inner.list(prefix, last), after)

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        return (stored.key for stored in self.list(prefix, after))

    @override
    def delete(self, key: str) -> None:
        self._repeat(lambda: self._inner.delete(key))

    def _listing(
        self, list_after: Callable[[str], Iterator[StoredObject]], after: str
    ) -> Iterator[StoredObject]:
        """Yield from a listing that goes on after the last key when it breaks off."""
        last, found = after, list_after(after)
        broken = False

        def step() -> StoredObject | None:
            nonlocal found, broken
            if broken:
                found = list_after(last)
            broken = True
            stored = next(found, None)
            broken = False
            return stored

        while (stored := self._repeat(step)) is not None:
            last = stored.key
            yield stored

    def _repeat(self, call: Callable[[], R]) -> R:
        began = self._clock.elapsed()
        for attempt in count(1):
            try:
                return call()
            except TransientError as error:
                pause = self._pause(attempt)
                late = self._clock.elapsed() + pause - began > LONGEST_SECONDS
                if attempt == ATTEMPTS or late:
                    raise StorageError(f"{error} attempts={attempt}") from error
                logger.info("a request is sent again. attempt=%d reason=%s", attempt, error)
            self._metrics.add("retries")
            self._clock.sleep(pause)
        raise AssertionError

    def _pause(self, attempt: int) -> float:
        bound = _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
        return bound * (0.5 + int(self._new_token(), 16) / 2**65)
