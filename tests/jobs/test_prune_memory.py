"""Pruning memory: by age and scope, exactly what a dry run tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakestore.errors import InputError
from lakestore.jobs import (
    RetentionPolicy,
    check,
    compact,
    prune_memory,
    rebuild_memory,
    restore_memory,
)
from tests.support.aging import APP, USER
from tests.support.rebuilding import Remembering, memories_of, summary


@pytest.fixture
def kept() -> Iterator[Remembering]:
    """What two users said 100 days ago, and what one says today; facts of both days."""
    made = Remembering()
    made.fill(1)
    made.by_hand()
    made.aging.pass_days(100)
    session = made.aging.create("today")
    made.aging.say(session, "tea today")
    made.memories.add_session_to_memory(session)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("options", "count", "left"),
    [
        ({}, 4 + 4 + 1, ["tea by hand of app", "tea today"]),
        ({"scope": "app"}, 1, None),
        ({"scope": "all"}, 4 + 4 + 1 + 1, ["tea today"]),
        ({"app_name": APP, "user_id": "ben"}, 4, None),
        ({"older_than_days": 101}, 0, None),
        ({"app_name": "other"}, 0, None),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_old_goes(
    kept: Remembering, options: dict[str, Any], count: int, left: list[str] | None, is_packed: bool
) -> None:
    """By the time of the event, or of adding where there is none; a dry run tells the same."""
    if is_packed:
        compact(kept.lake)
    before = kept.found(limit=50)
    dry = prune_memory(kept.lake, **options, dry_run=True)
    assert kept.found() == before
    report = prune_memory(kept.lake, **options)
    assert (report["table"], report["deleted_count"]) == ("memory", count)
    assert {**dry, "dry_run": False, "elapsed_ms": 0} == {**report, "elapsed_ms": 0}
    if left is not None:
        assert kept.said() == left
    assert prune_memory(kept.lake, **options)["deleted_count"] == 0
    assert check(kept.lake).findings == ()


def test_others_notice(kept: Remembering) -> None:
    """A process that has read the memories before shows them for the view age limit at most."""
    warm = kept.aging.open()
    service = memories_of(warm)

    def found() -> int:
        return len(
            service.search_memory(app_name=APP, user_id=USER, query="tea order java").memories
        )

    assert found() == 7
    prune_memory(kept.lake, scope="all")
    kept.aging.clock.advance(warm.environment.limits.view_age + 1)
    assert found() == 1


def test_what_was_pruned_is_not_restored(kept: Remembering) -> None:
    """What a rebuild has put aside is pruned alike; what was forgotten is still known to be."""
    kept.memories.delete_memory(app_name=APP, user_id=USER, memory_id="hand-user")
    rebuild_memory(kept.lake, APP, extractor=summary)
    prune_memory(kept.lake)
    restore_memory(kept.lake, APP)
    assert kept.said() == ["tea by hand of app", "tea today"]
    kept.by_hand()
    assert kept.said() == ["tea by hand of app", "tea today"]


def test_a_policy_prunes_memory_too(kept: Remembering) -> None:
    """Of users and of apps, in the same pass as packing."""
    report = compact(kept.lake, policy=RetentionPolicy(memory_older_than_days=90))
    assert [(one["table"], one["deleted_count"]) for one in report.pruned] == [("memory", 10)]
    assert kept.said() == ["tea today"]


def test_wrong_arguments_are_refused(kept: Remembering) -> None:
    """Before anything is read."""
    for options, says in (
        ({"older_than_days": 0}, "1 or more"),
        ({"scope": "session"}, "scope is one of"),
        ({"scope": "app", "app_name": APP, "user_id": USER}, "without a user_id"),
        ({"user_id": USER}, "app_name is needed"),
    ):
        with pytest.raises(InputError, match=says):
            prune_memory(kept.lake, **options)
