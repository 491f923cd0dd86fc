"""Reading many things in portions that fit into memory, though none tells its size beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_FIRST = 16


class Portions(Generic[T]):
    """Cuts items into portions: small at first, then by what those before turned out to hold.

    Stored sizes would tell little, for texts may be compressed to a hundredth.
    """

    def __init__(self, items: Sequence[T], nbytes: int) -> None:
        """Cut `items` into portions that hold about `nbytes` bytes of memory, or one item each."""
        self._items = items
        self._nbytes = nbytes
        self._held = 0

    def __iter__(self) -> Iterator[Sequence[T]]:
        """Yield the portions; each is at most twice as long as the one before."""
        start, count = 0, _FIRST
        while start < len(self._items):
            self._held = 0
            yield self._items[start : start + count]
            start += count
            fitting = self._nbytes * count // max(1, self._held)
            count = max(1, min(2 * count, fitting))

    def note(self, nbytes: int) -> None:
        """Note that something of the present portion holds as many bytes."""
        self._held += nbytes
