"""A cache bounded by bytes. Owns what is dropped, not whether it is still true."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """What can be cached."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Sized)


class ByteCache(Generic[K, V]):
    """Keeps what was used last, as much as fits; values must never change."""

    def __init__(self, capacity: int, *, keeps_larger: bool = False) -> None:
        """Keep up to `capacity` bytes; 0 keeps nothing.

        Args:
            capacity: Bytes.
            keeps_larger: Also keep one value that is larger, beside what fits and until another
                such is put: it was in memory anyway, and takes long to make.
        """
        self._capacity = capacity
        self._keeps_larger = keeps_larger and capacity > 0
        self._larger: tuple[K, V] | None = None
        self._lock = Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values kept, but of the larger one."""
        return self._used

    def get(self, key: K) -> V | None:
        """Return the value, None when it is not kept."""
        with self._lock:
            if self._larger is not None and self._larger[0] == key:
                return self._larger[1]
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep `value` under `key`, dropping what was not used for longest to make room."""
        nbytes = value.nbytes
        with self._lock:
            self._remove(key)
            if nbytes > self._capacity:
                self._larger = (key, value) if self._keeps_larger else None
                return
            self._values[key] = (value, nbytes)
            self._used += nbytes
            while self._used > self._capacity:
                self._remove(next(iter(self._values)))

    def drop(self, key: K) -> None:
        """Keep it no longer."""
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._values.clear()
            self._used = 0
            self._larger = None

    def _remove(self, key: K) -> None:
        if self._larger is not None and self._larger[0] == key:
            self._larger = None
        found = self._values.pop(key, None)
        if found is not None:
            self._used -= found[1]
