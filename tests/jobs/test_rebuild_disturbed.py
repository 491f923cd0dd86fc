"""Rebuilding memory among deaths, other jobs and clocks that disagree: nothing is lost or back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from typing_extensions import override

from lakestore import Lake, LakeSessionService
from lakestore.adk.extracting import History
from lakestore.errors import ConflictError, InputError, NotFoundError
from lakestore.jobs import (
    EraseReceipt,
    check,
    compact,
    erase_user,
    prune_memory,
    rebuild_memory,
    restore_memory,
    sweep,
)
from lakestore.log.keys import MEMORY_DRAFTS
from tests.support.aging import APP, USER, AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import mentions
from tests.support.faulty_store import AroundStore
from tests.support.rebuilding import Remembering, Stopped, entry, summary


class DyingStore(AroundStore):
    """Ends its process before it would publish a manifest."""

    @override
    def around(self, kind: Any, key: str, call: Callable[[], Any]) -> Any:
        if kind == "put" and key.startswith("manifests/"):
            raise Stopped
        return call()


@pytest.fixture
def kept() -> Iterator[Remembering]:
    """Two users with a remembered session each, and facts; all is packed and swept."""
    made = Remembering()
    made.fill(1)
    made.by_hand()
    compact(made.lake)
    made.aging.clock.advance(3_601)
    sweep(made.lake)
    assert list(made.aging.store.names("memory/")) == []
    yield made
    made.close()


def dying(kept: Remembering, extractor: Any = summary) -> None:
    """Let a rebuild end when it would publish."""
    lake = kept.aging.open(DyingStore(kept.aging.store))
    with pytest.raises(Stopped):
        rebuild_memory(lake, APP, extractor=extractor, task_events=1)


def test_what_a_faulty_extractor_has_left_is_not_taken(kept: Remembering) -> None:
    """Unless that is asked for: a name does not tell it from the one that was mended."""

    def faulty(_: History) -> list[MemoryEntry]:
        return [entry("tea, wrong")]

    def mended(_: History) -> list[MemoryEntry]:
        return [entry("tea, right")]

    mended.__qualname__ = faulty.__qualname__
    dying(kept, faulty)
    rebuild_memory(kept.lake, APP, extractor=mended, task_events=1)
    assert [text for text in kept.said("ben") if "by hand" not in text] == ["tea, right"]
    rebuild_memory(kept.lake, APP, extractor=mended, task_events=1, resume=True)
    assert [text for text in kept.said("ben") if "by hand" not in text] == ["tea, wrong"]


def test_drafts_of_another_rebuild_stay(kept: Remembering) -> None:
    """What one has made that is still at work, or is to go on, is not another's to delete."""
    dying(kept)
    drafts = list(kept.aging.store.names(MEMORY_DRAFTS))
    rebuild_memory(kept.lake, APP, dry_run=True)
    assert list(kept.aging.store.names(MEMORY_DRAFTS)) == drafts != []
    rebuild_memory(kept.lake, APP, extractor=summary, task_events=1, resume=True)
    assert list(kept.aging.store.names(MEMORY_DRAFTS)) == []
    assert "tea summary of s0, 4 events" in kept.said("ben")


def test_it_may_take_longer_than_the_grace(kept: Remembering) -> None:
    """Jobs and sweeps beside it take nothing that it needs at the end, and lose nothing by it."""
    seen: list[History] = []

    def slow(history: History) -> list[MemoryEntry]:
        seen.append(history)
        kept.aging.clock.advance(3_700)
        fact = entry(f"tea, fact {len(seen)}", id=f"fact-{len(seen)}")
        kept.memories.add_memory(app_name=APP, user_id=USER, memories=[fact])
        beside = kept.aging.open()
        compact(beside)
        sweep(beside)
        return summary(history)

    rebuild_memory(kept.lake, APP, extractor=slow, task_events=1)
    assert len(seen) == 2
    assert kept.said()[2:] == ["tea summary of s0, 4 events", "tea, fact 1", "tea, fact 2"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_drafts_that_an_erasure_has_taken(kept: Remembering, dry_run: bool) -> None:
    """It is told what has happened, at once; a rebuild that goes on makes them anew."""

    def erasing(history: History) -> list[MemoryEntry]:
        if history.user_id == "ben":
            erase_user(kept.aging.open(), APP, USER)
        return summary(history)

    with pytest.raises(ConflictError, match="deleted meanwhile, by an erasure or a sweep"):
        rebuild_memory(kept.lake, APP, extractor=erasing, task_events=1, dry_run=dry_run)
    rebuild_memory(kept.lake, APP, extractor=summary, resume=True)
    assert "tea summary of s0, 4 events" in kept.said("ben")


def test_an_extractor_that_no_process_can_import(tmp_path: Path) -> None:
    """It is named as what cannot be sent, and nothing is stored."""
    with (
        Lake.open(str(tmp_path / "lake")) as lake,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor,
    ):
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name=APP, user_id=USER, session_id="s")
        service.append_events(session, [AgingLake(lake.environment.store).event("tea")])
        with pytest.raises(InputError, match="one that they can import"):
            rebuild_memory(lake, APP, extractor=lambda _: [], executor=executor)
        assert list(lake.environment.store.names("memory/")) == []


def test_a_fact_with_the_id_of_what_is_made_stays(kept: Remembering) -> None:
    """What was added by hand wins over an extractor's memory of one id, and outlives a restore."""

    def profile(_: History) -> list[MemoryEntry]:
        return [entry("tea, made", id="hand-user"), entry("tea, profile", id="profile")]

    for _ in range(2):
        rebuild_memory(kept.lake, APP, extractor=profile, per="user")
        assert kept.said() == ["tea by hand of app", "tea by hand of user", "tea, profile"]
    restore_memory(kept.lake, APP)
    assert kept.said() == ["tea by hand of app", "tea by hand of user", "tea, profile"]


def test_what_is_made_anew_is_put_aside_however_old(kept: Remembering) -> None:
    """A memory that says that it is of long ago comes back as it was, after `since` as well."""

    def profile(text: str) -> Any:
        return lambda _: [entry(text, id="profile", timestamp="2001-01-01T00:00:00+00:00")]

    rebuild_memory(kept.lake, APP, USER, extractor=profile("tea, old"), per="user")
    noon = kept.aging.clock.wall()
    kept.aging.clock.advance(1)
    kept.aging.say(kept.aging.create("late"), "tea, late")
    rebuild_memory(kept.lake, APP, USER, extractor=profile("tea, new"), per="user", since=noon)
    assert "tea, new" in kept.said()
    restore_memory(kept.lake, APP, USER)
    assert "tea, old" in kept.said()


def test_since_the_very_time_of_an_event(kept: Remembering) -> None:
    """It is neither looked at nor replaced, however its time is rounded to microseconds."""
    session = kept.aging.create("exact")
    for number in range(8):
        time = kept.aging.clock.wall() + number + 0.1234567 + number * 2.4e-7
        event = kept.aging.say(session, f"tea {number}", timestamp=time)
        kept.memories.add_session_to_memory(session)
        report = rebuild_memory(kept.lake, APP, since=event.timestamp, dry_run=True)
        assert (report.comparison.before, report.comparison.after) == (0, 0)


@pytest.mark.parametrize("how", ["forgotten", "pruned", "put aside"])
def test_what_a_dead_job_tells_of_may_go(kept: Remembering, how: str) -> None:
    """Its runs have what has gone since, which is no sign that a later manifest is lost."""
    if how == "put aside":
        rebuild_memory(kept.lake, APP, extractor=summary)
        with pytest.raises(Stopped):
            restore_memory(kept.aging.open(DyingStore(kept.aging.store)), APP)
    else:
        dying(kept)
    kept.aging.clock.advance(1)
    if how == "forgotten":
        kept.memories.delete_memory(app_name=APP, user_id=USER, memory_id="hand-user")
        compact(kept.lake)
    elif how == "pruned":
        kept.aging.pass_days(91)
        prune_memory(kept.lake)
    else:
        rebuild_memory(kept.lake, APP, extractor=summary)
    kept.aging.clock.advance(3_601)
    assert sweep(kept.lake).failures == 0
    kept.aging.say(kept.aging.create("later"), "tea")
    compact(kept.lake)
    assert check(kept.lake).findings == ()


def test_what_an_overtaken_restore_tells_of_may_go(kept: Remembering) -> None:
    """What it had stored after a rebuild that came between is no sign of a lost manifest either."""
    rebuild_memory(kept.lake, APP, extractor=summary)
    kept.aging.clock.advance(3_601)
    beside: list[object] = []

    class Slow(AroundStore):
        @override
        def around(self, kind: Any, key: str, call: Callable[[], Any]) -> Any:
            if kind == "put" and key.startswith("runs/") and not beside:
                beside.append(rebuild_memory(kept.aging.open(), APP, extractor=summary))
                kept.aging.clock.advance(1)
            return call()

    with pytest.raises(ConflictError, match="another rebuild or restore"):
        restore_memory(kept.aging.open(Slow(kept.aging.store)), APP)
    kept.aging.clock.advance(3_601)
    assert sweep(kept.lake).failures == 0
    assert check(kept.lake).findings == ()


@pytest.mark.parametrize("per", ["session", "user"])
@pytest.mark.parametrize("user_id", [None, USER])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_an_erasure_by_a_clock_behind(per: Any, user_id: str | None, is_under_way: bool) -> None:
    """Whoever rebuilds two minutes ahead of it leaves nothing that it does not reach."""
    kept = Remembering()
    kept.fill(1)
    clock, receipts = ManualClock(kept.aging.clock.wall() + 120), list[EraseReceipt]()
    ahead = Lake(kept.aging.store, clock=clock)

    def erasing(history: History) -> list[MemoryEntry]:
        if is_under_way and not receipts:
            receipts.append(erase_user(kept.lake, APP, USER, wait=False))
        return summary(history)

    is_refused = is_under_way and user_id is not None
    with pytest.raises(ConflictError, match="erased meanwhile") if is_refused else nullcontext():
        rebuild_memory(ahead, APP, user_id, extractor=erasing, per=per)
    if not is_under_way:  # what the first has made is put aside then
        rebuild_memory(ahead, APP, user_id, extractor=lambda _: [])
        receipts.append(erase_user(kept.lake, APP, USER, wait=False))
    assert kept.said() == []
    receipt = receipts[0]
    while receipt.pending:
        kept.aging.clock.advance(3_601)
        receipt = receipt.finish(kept.lake)
    assert mentions(kept.aging.store, USER) == []
    with suppress(NotFoundError):
        restore_memory(kept.lake, APP)
    assert kept.said() == []


@pytest.mark.parametrize("is_async", [False, True])
def test_what_an_extractor_has_cancelled_fails(kept: Remembering, is_async: bool) -> None:
    """A client that cancels a call of its own ends that session alone, by whatever way."""

    async def cancelled(history: History) -> list[MemoryEntry]:
        if history.user_id == "ben":
            raise asyncio.CancelledError
        return summary(history)

    def plain(history: History) -> Any:
        return cancelled(history)

    report = rebuild_memory(kept.lake, APP, extractor=cancelled if is_async else plain)
    (failure,) = report.failures
    assert (failure.user_id, failure.error) == ("ben", "CancelledError: ")
    assert "tea summary of s0, 4 events" in kept.said()
