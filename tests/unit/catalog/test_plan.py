from __future__ import annotations

import pytest

from lakestore.catalog.plan import Wanted, in_chunks, tail_of
from lakestore.log.commits import LogFiles

LOG = "events/log/app=a/user=u/session=s/"


@pytest.mark.parametrize(
    ("commits", "rollups", "known", "rollup", "read", "gap"),
    [
        ([1, 2, 3], [], 0, None, [1, 2, 3], None),
        ([1, 2, 3], [], 2, None, [3], None),
        ([1, 2, 3, 4], [2], 0, 2, [3, 4], None),
        ([1, 2, 3, 4], [2], 1, 2, [3, 4], None),
        ([2, 3, 4], [2], 2, None, [3, 4], None),
        ([4, 5], [4], 2, 4, [5], None),
        ([3, 7, 8], [2, 7], 2, 7, [8], None),
        ([1, 2, 4], [], 1, None, [2], 3),
        ([9], [], 0, None, [], 1),
        ([9], [3], 0, None, [], 1),
        ([4, 7], [4], 1, 4, [], 5),
    ],
)
def test_what_a_listing_says_is_to_be_read(
    commits: list[int],
    rollups: list[int],
    known: int,
    rollup: int | None,
    read: list[int],
    gap: int | None,
) -> None:
    """The newest rollup above what is known, then the commits that follow without a gap."""
    tail = tail_of(LOG, LogFiles(commits, rollups), known)
    assert tail is not None
    expected = [] if rollup is None else [(rollup, known, True)]
    expected += [(version, version - 1, False) for version in read]
    assert [(one.version, one.above, one.is_rollup) for one in tail.wanted] == expected
    assert tail.gap == gap


@pytest.mark.parametrize(
    ("commits", "rollups", "known"), [([], [], 0), ([], [3], 0), ([1, 2], [], 2), ([2], [2], 5)]
)
def test_nothing_new(commits: list[int], rollups: list[int], known: int) -> None:
    """Where the last commit is known, or no commit is there, nothing is to be done."""
    assert tail_of(LOG, LogFiles(commits, rollups), known) is None


def test_chunks_are_bounded_by_weight() -> None:
    """Pieces keep the order and hold as much as fits, at least one object each."""
    wanted = [Wanted(LOG, version, 0, is_rollup=version == 50) for version in (1, 2, 50, 51, 52)]
    pieces = [[one.version for one in piece] for piece in in_chunks(wanted, 2)]
    assert pieces == [[1, 2], [50], [51, 52]]
    assert [*in_chunks([], 2)] == []
