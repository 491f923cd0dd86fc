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

    def __init__(self, capacity: int, *, always_last: bool = False) -> None:
        """Keep up to `capacity` bytes; 0 keeps nothing.

        Args:
            capacity: Bytes.
            always_last: Also keep a larger value, by itself and until another one is put: it was
                in memory anyway, and takes long to make.
        """
        self._capacity = capacity
        self._least = 1 if always_last and capacity else 0
        self._lock = Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values kept."""
        return self._used

    def get(self, key: K) -> V | None:
        """Return the value, None when it is not kept."""
        with self._lock:
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
            if nbytes > self._capacity and not self._least:
                return
            self._values[key] = (value, nbytes)
            self._used += nbytes
            while self._used > self._capacity and len(self._values) > self._least:
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

    def _remove(self, key: K) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._used -= found[1]
