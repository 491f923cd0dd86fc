"""What all of `history` works with: the store, time, randomness, threads, limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from lakestore.clock import Clock, NewToken
from lakestore.errors import AlreadyExistsError, StorageError, UnknownOutcomeError
from lakestore.log.marker import Limits
from lakestore.storage import Metrics, ObjectStore, Pool

_UNKNOWN_TYPE = "application/octet-stream"
_CONTENT_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+( *;[\x20-\x7e]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Environment:
    """Passed to everything that reads or writes history, so that tests decide each part."""

    store: ObjectStore
    clock: Clock
    new_token: NewToken
    limits: Limits
    metrics: Metrics
    pool: Pool
    """Runs requests side by side."""
    upkeep: Callable[[Callable[[], None]], None]
    """Runs, soon and in some thread, work that nobody waits for (rollups, folds, their sweeps)."""
    writable: bool
    """False in a lake opened with read_only=True."""
    rollups: bool
    """Whether this process writes rollups of long logs and folds of many entries."""
    cache_bytes: int
    """Bytes that each of the caches may hold: of sessions, of row groups of packs, of artifacts, of
    payloads of events."""

    def put_new(self, key: str, body: bytes) -> None:
        """Create an object under a name that was just drawn.

        Whoever has that name taken is this very request, which the client has sent twice.

        Raises:
            StorageError: it was not created, or (`UnknownOutcomeError`) it may have been.
        """
        with suppress(AlreadyExistsError):
            self.store.put_if_absent(key, body)

    def upload_new(self, key: str, parts: Iterable[bytes], mime_type: str | None) -> None:
        """Store a payload under a name that was just drawn.

        Args:
            key: The name.
            parts: Its bytes.
            mime_type: What the store is told of it; one that no header can hold counts as unknown.

        Raises:
            StorageError: it is not known to be there. No commit refers to it, so that nothing is
                in doubt but whether a sweep has something to do.
            Exception: what `parts` raised; nothing was stored.
        """
        known = _CONTENT_TYPE.fullmatch(mime_type or "")
        try:
            self.store.upload(key, parts, content_type=known[0] if known else _UNKNOWN_TYPE)
        except (AlreadyExistsError, UnknownOutcomeError) as error:
            raise StorageError(f"a payload could not be stored. {key=} reason={error}") from error

    def is_young(self, seen: float | None) -> bool:
        """Tell whether what was confirmed at `seen` may still be decided on."""
        return seen is not None and self.clock.elapsed() - seen <= self.limits.view_age
