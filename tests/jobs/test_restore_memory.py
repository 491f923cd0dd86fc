"""What a rebuild of memory has put aside: brought back, kept for a month, erased."""

from __future__ import annotations

import pytest

from lakestore.errors import NotFoundError
from lakestore.jobs import (
    check,
    erase_user,
    rebuild_memory,
    restore_memory,
    sweep,
)
from lakestore.log.keys import MEMORY_DRAFTS
from tests.support.aging import APP, USER
from tests.support.erasures import mentions
from tests.support.rebuilding import Remembering, Stopped, stopping_at, summary


def test_a_restore_brings_all_back(kept: Remembering) -> None:
    """What was there before is there again, once; what came since stays."""
    before = kept.found()
    rebuild_memory(kept.lake, APP, extractor=summary)
    kept.by_hand()
    report = restore_memory(kept.lake, APP)
    assert (report.comparison.before, report.comparison.after) == (4, 16)
    assert [one for one in kept.found() if "by hand" not in one[1]] == before
    assert len(kept.found()) == len(before) + 2
    with pytest.raises(NotFoundError, match="no rebuild has put memories aside"):
        restore_memory(kept.lake, APP)
    assert check(kept.lake).findings == ()


def test_one_that_changes_nothing_leaves_what_was_put_aside(kept: Remembering) -> None:
    """Where every session fails, or there is nothing to look at, the rebuild before is undone."""
    before = kept.found()
    rebuild_memory(kept.lake, APP, extractor=summary)
    assert len(rebuild_memory(kept.lake, APP, extractor=lambda _: None).failures) == 4
    rebuild_memory(kept.lake, APP, extractor=summary, since=2e9)
    assert restore_memory(kept.lake, APP).comparison.after == 16
    assert kept.found() == before


def test_a_user_goes_back_apart_from_the_app(kept: Remembering) -> None:
    """Whoever was rebuilt alone after all others goes back one step, and the others theirs."""
    before = kept.found(), kept.found("ben")
    rebuild_memory(kept.lake, APP, extractor=summary)
    summarised = kept.found("ben")
    rebuild_memory(kept.lake, APP, "ben", extractor=lambda _: [])
    assert kept.found("ben") == []
    restore_memory(kept.lake, APP, "ben")
    assert kept.found("ben") == summarised
    with pytest.raises(NotFoundError):
        restore_memory(kept.lake, APP, "ben")
    restore_memory(kept.lake, APP)
    assert (kept.found(), kept.found("ben")) == (before[0], summarised)


def test_a_user_goes_back_alone(kept: Remembering) -> None:
    """Of all that a rebuild of the app has replaced, one user's comes back, then the others'."""
    before = kept.found(), kept.found("ben")
    rebuild_memory(kept.lake, APP, extractor=summary)
    restore_memory(kept.lake, APP, "ben")
    assert kept.found("ben") == before[1]
    assert len(kept.found()) == 2
    restore_memory(kept.lake, APP)
    assert (kept.found(), kept.found("ben")) == before


def test_what_is_put_aside_stays_for_a_month(kept: Remembering) -> None:
    """Sweeps then drop it, and what rebuilds have drafted and left after a week."""
    rebuild_memory(kept.lake, APP, extractor=summary)
    kept.aging.store.put_if_absent(f"{MEMORY_DRAFTS}app={APP}/{'0' * 32}.parquet", b"PAR1")
    kept.aging.pass_days(6)
    sweep(kept.lake)
    assert len(list(kept.aging.store.names(MEMORY_DRAFTS))) == 1
    kept.aging.pass_days(2)
    sweep(kept.lake)
    assert list(kept.aging.store.names(MEMORY_DRAFTS)) == []
    kept.aging.pass_days(23)
    sweep(kept.lake)
    with pytest.raises(NotFoundError):
        restore_memory(kept.lake, APP)
    kept.aging.pass_days(1)
    sweep(kept.lake)
    assert not [key for key in kept.aging.store.names("runs/") if "previous" in key]
    assert len(kept.found()) == 2
    assert check(kept.lake).findings == ()


def test_drafts_and_what_is_put_aside_are_erased(kept: Remembering) -> None:
    """A rebuild that did not end has stored what was said, and so has one that did."""
    rebuild_memory(kept.lake, APP, extractor=summary)
    with pytest.raises(Stopped):
        rebuild_memory(kept.lake, APP, task_events=1, extractor=stopping_at("ben"))
    drafts = list(kept.aging.store.names(MEMORY_DRAFTS))
    receipt = erase_user(kept.lake, APP, USER)
    assert set(drafts) <= set(receipt.removed)
    while receipt.pending:
        kept.aging.clock.advance(3_601)
        receipt = receipt.finish(kept.lake)
    assert mentions(kept.aging.store, USER) == []
