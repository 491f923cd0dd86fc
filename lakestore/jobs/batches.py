"""Cutting sessions into batches that are read together. Owns how much memory a batch may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lakestore.history.archive import Packed

T = TypeVar("T")

_GROUPS = 8
"""Row groups of packs: each is made of 16 MB at most, or of one row."""
_FRESH_BYTES = 64 * 2**20


def batches(
    sessions: Iterable[T], of: Callable[[T], tuple[Packed | None, int]], most: int
) -> Iterator[list[T]]:
    """Yield `sessions` in batches of at most `most`, and of fewer where they hold much.

    Args:
        sessions: In the order of packs, so that neighbours share row groups.
        of: Returns what is packed of one, and how many bytes of memory it holds itself.
        most: See above.
    """
    batch: list[T] = []
    groups: set[tuple[str, int]] = set()
    held = 0
    for each in sessions:
        packed, nbytes = of(each)
        own = _groups_of(packed)
        too_much = len(groups | own) > _GROUPS or held + nbytes > _FRESH_BYTES
        if batch and (len(batch) >= most or too_much):
            yield batch
            batch, groups, held = [], set(), 0
        batch.append(each)
        groups |= own
        held += nbytes
    if batch:
        yield batch


def _groups_of(packed: Packed | None) -> set[tuple[str, int]]:
    return {
        (segment.pack, number)
        for segment in (packed.row.segments if packed else ())
        for number in range(segment.group, segment.group + segment.groups)
    }
