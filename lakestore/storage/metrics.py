"""Counters of what a lake asked of its store and how it went. Owns no clock and no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock


class Metrics:
    """Counters since the lake was opened; safe to read and add to from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def request(self, kind: str, *, written: int = 0) -> None:
        """Count a request of `kind` (GET, PUT, LIST, HEAD, DELETE) that sends `written` bytes."""
        with self._lock:
            self._requests[kind] += 1
            self._counts["bytes_written"] += written

    def received(self, read: int) -> None:
        """Count `read` bytes received."""
        self.add("bytes_read", read)

    def add(self, name: str, amount: int = 1) -> None:
        """Count `amount` more of `name` (`retries`, `conflicts`, `cache_hits`, `cache_misses`)."""
        with self._lock:
            self._counts[name] += amount

    @property
    def requests(self) -> dict[str, int]:
        """Requests by kind."""
        with self._lock:
            return dict(self._requests)

    def requests_since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return the requests by kind that came after `requests` was `before`, without zeros."""
        made = {kind: n - before.get(kind, 0) for kind, n in self.requests.items()}
        return {kind: n for kind, n in made.items() if n}

    @property
    def bytes_read(self) -> int:
        """Bytes received from the store."""
        return self._counts["bytes_read"]

    @property
    def bytes_written(self) -> int:
        """Bytes sent to the store, those of refused writes included."""
        return self._counts["bytes_written"]

    @property
    def retries(self) -> int:
        """Times that something was read or sent again."""
        return self._counts["retries"]

    @property
    def conflicts(self) -> int:
        """Commits that another writer's commit refused."""
        return self._counts["conflicts"]

    @property
    def cache_hits(self) -> int:
        """Reads of a session or scope that continued from the cache."""
        return self._counts["cache_hits"]

    @property
    def cache_misses(self) -> int:
        """Reads of a session or scope that began with nothing cached."""
        return self._counts["cache_misses"]

    def snapshot(self) -> dict[str, int]:
        """Return all counters at this moment, requests as `requests_get` and so on."""
        with self._lock:
            kinds = {f"requests_{kind.lower()}": n for kind, n in self._requests.items()}
            return {**kinds, **self._counts}

    def __repr__(self) -> str:
        return f"Metrics({self.snapshot()})"
