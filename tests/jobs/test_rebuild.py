"""Rebuilding memory: what is made, what stays, and that nothing is lost between."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry

from lakestore import Lake, LakeSessionService
from lakestore.errors import ConflictError, InputError, NotFoundError, ReadOnlyError
from lakestore.jobs import (
    EraseReceipt,
    History,
    check,
    compact,
    erase_user,
    rebuild_memory,
    restore_memory,
    sweep,
)
from lakestore.log.keys import MEMORY_DRAFTS
from tests.support.aging import APP, USER, AgingLake
from tests.support.erasures import mentions
from tests.support.rebuilding import (
    Remembering,
    Stopped,
    counting,
    entry,
    memories_of,
    stopping_at,
    summary,
    text_of,
)


def test_it_gives_what_adding_gives(kept: Remembering) -> None:
    """Made anew by default, each user's memory answers as before, equals in the same order."""
    before = {user: kept.found(user) for user in (USER, "ben")}
    report = rebuild_memory(kept.lake, APP)
    assert {user: kept.found(user) for user in before} == before
    told = report.comparison
    assert (told.before, told.after) == (16, 16)
    assert (told.changed, told.appeared, told.vanished) == (0, 0, 0)
    assert (report.sessions, report.events, report.failures) == (4, 16, ())
    assert check(kept.lake).findings == ()


def test_it_begins_from_nothing() -> None:
    """Where nobody has added anything, all history is remembered as if sessions had been added."""
    added, built = Remembering(), Remembering()
    added.fill()
    built.fill(remember=False)
    report = rebuild_memory(built.lake, APP)
    assert built.found() == added.found() != []
    assert report.comparison.appeared == report.comparison.after == 16


def test_adding_after_it_adds_nothing_twice(kept: Remembering) -> None:
    """A session that goes on is added as ever: what the rebuild has made of it is known."""
    rebuild_memory(kept.lake, APP)
    session = kept.aging.service.get_session(app_name=APP, user_id=USER, session_id="s0")
    assert session is not None
    kept.aging.say(session, "more tea")
    before = kept.lake.metrics.requests["PUT"]
    kept.memories.add_session_to_memory(session)
    kept.memories.add_session_to_memory(session)
    assert kept.lake.metrics.requests["PUT"] == before + 1
    assert len(kept.found()) == 8 + 1


def test_what_was_forgotten_stays_forgotten(kept: Remembering) -> None:
    """Before a rebuild, between it and a restore, and whatever comes back."""
    first, second = (name for name, _ in kept.found()[:2])
    for name, job in ((first, rebuild_memory), (second, restore_memory)):
        kept.memories.delete_memory(app_name=APP, user_id=USER, memory_id=name)
        job(kept.lake, APP)
        assert name not in dict(kept.found())
    rebuild_memory(kept.lake, APP, extractor=summary)
    restore_memory(kept.lake, APP)
    assert {first, second}.isdisjoint(dict(kept.found()))


def test_what_was_added_by_hand_stays(kept: Remembering) -> None:
    """A fact of no event is nobody's to make again, nor is what all users share."""
    kept.by_hand()
    rebuild_memory(kept.lake, APP, extractor=lambda _: [])
    assert kept.said() == ["tea by hand of app", "tea by hand of user"]
    assert kept.said("ben") == ["tea by hand of app"]


def test_only_one_user(kept: Remembering) -> None:
    """Others keep what they have."""
    before = kept.found("ben")
    report = rebuild_memory(kept.lake, APP, USER, extractor=summary)
    assert (report.sessions, report.comparison.before) == (2, 8)
    assert kept.found("ben") == before
    assert kept.said() == ["tea summary of s0, 4 events", "tea summary of s1, 4 events"]


def test_only_what_happened_since(kept: Remembering) -> None:
    """Older events are not looked at, and their memories stay."""
    noon = kept.aging.clock.wall()
    kept.aging.clock.advance(60)
    session = kept.aging.create("late")
    kept.aging.say(session, "late tea")
    kept.memories.add_session_to_memory(session)
    before = kept.found()
    seen: list[str | None] = []
    rebuild_memory(kept.lake, APP, since=noon, extractor=counting(summary, seen))
    assert seen == [f"{USER}/late"]
    assert [one for one in kept.found() if "summary" not in one[1]] == [
        one for one in before if one[1] != "late tea"
    ]


def test_a_dry_run_changes_nothing(kept: Remembering) -> None:
    """It tells how the new memories differ."""
    before = kept.found()
    report = rebuild_memory(kept.lake, APP, extractor=summary, dry_run=True)
    assert (report.dry_run, report.comparison.after) == (True, 4)
    assert kept.found() == before
    assert list(kept.aging.store.names(MEMORY_DRAFTS)) == []
    with pytest.raises(NotFoundError):
        restore_memory(kept.lake, APP)


@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_added_while_it_runs_stays(kept: Remembering, is_packed: bool) -> None:
    """Packed meanwhile or not, it is no part of what was replaced (M2 of the protocol's model)."""
    done: list[str] = []

    def busy(history: History) -> list[MemoryEntry]:
        if not done:
            done.append("")
            other = kept.aging.open()
            session = kept.aging.service_of(other).create_session(
                app_name=APP, user_id=USER, session_id="meanwhile"
            )
            event = kept.aging.event("tea meanwhile")
            kept.aging.service_of(other).append_event(session, event)
            memories_of(other).add_session_to_memory(session)
            if is_packed:
                compact(other)
        return summary(history)

    rebuild_memory(kept.lake, APP, extractor=busy)
    expected = ["tea meanwhile", *(f"tea summary of s{n}, 4 events" for n in range(2))]
    assert kept.said() == expected
    restore_memory(kept.lake, APP)
    assert "tea meanwhile" in kept.said()
    assert len(kept.said()) == 8 + 1


def test_two_rebuilds_do_not_mix(kept: Remembering) -> None:
    """The one that ends later is refused: it has not seen what the other made."""

    def other(history: History) -> list[MemoryEntry]:
        if history.session_id == "s0" and history.user_id == USER:
            rebuild_memory(kept.aging.open(), APP, extractor=lambda _: [entry("tea, the other")])
        return summary(history)

    with pytest.raises(ConflictError, match="another rebuild or restore"):
        rebuild_memory(kept.lake, APP, extractor=other)
    assert kept.said() == ["tea, the other"] * 2


def test_it_goes_on_where_it_stopped() -> None:
    """What was made of sessions that are as they were is not made again, if that is asked for."""
    kept = Remembering()
    users = [f"user{number:02}" for number in range(24)]
    kept.fill(1, users, remember=False)
    seen: list[str | None] = []
    counted = counting(summary, seen)

    def stopping(history: History) -> list[MemoryEntry]:
        if len(seen) == 15:
            raise Stopped
        return counted(history)  # type: ignore[no-any-return]

    stopping.__module__, stopping.__qualname__ = counted.__module__, counted.__qualname__
    with pytest.raises(Stopped):
        rebuild_memory(kept.lake, APP, extractor=stopping, task_events=8)
    assert kept.found(users[0]) == []
    first = set(seen)
    rebuild_memory(kept.lake, APP, extractor=counted, task_events=8, resume=True)
    assert set(seen) == {f"{user}/s0" for user in users}
    assert len(seen) < 15 + len(users) - len(first) + 8
    assert all(len(kept.found(user)) == 1 for user in users)
    assert list(kept.aging.store.names(MEMORY_DRAFTS)) == []


def test_without_being_asked_it_makes_all_again() -> None:
    """What a faulty extractor has made is no part of what the mended one makes."""
    kept = Remembering()
    kept.fill(1)
    seen: list[str | None] = []
    for _ in range(2):
        rebuild_memory(kept.lake, APP, extractor=counting(summary, seen))
    assert len(seen) == 4


def test_its_requests_do_not_grow_with_sessions() -> None:
    """History is scanned, not read session by session."""
    counts = []
    for sessions in (2, 40):
        kept = Remembering()
        kept.fill(sessions, [USER], remember=False)
        compact(kept.lake)
        lake = kept.aging.open()
        before = sum(lake.metrics.requests.values())
        rebuild_memory(lake, APP)
        counts.append(sum(lake.metrics.requests.values()) - before)
    assert counts[1] - counts[0] <= 38  # the commits that are there until a sweep are listed
    assert counts[1] <= counts[0] + 4


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_any_executor_runs_it(tmp_path: Path, kind: str) -> None:
    """Tasks are plain values: a thread, or a process that is spawned, makes the same memories."""
    url = str(tmp_path / "lake")
    with Lake.open(url) as lake:
        service = LakeSessionService(lake).sync
        aging = AgingLake(lake.environment.store)
        for user in ("ana", "ben", "cleo"):
            session = service.create_session(app_name=APP, user_id=user, session_id="s")
            service.append_events(session, [aging.event(f"tea of {user}")])
        pool = (
            ThreadPoolExecutor(2)
            if kind == "threads"
            else ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        )
        with pool as executor:
            report = rebuild_memory(lake, APP, extractor=summary, executor=executor, task_events=1)
        assert (report.sessions, report.comparison.appeared, report.failures) == (3, 3, ())
        found = memories_of(lake).search_memory(app_name=APP, user_id="ben", query="tea")
        assert [text_of(one) for one in found.memories] == ["tea summary of s, 1 events"]


def test_a_rebuild_that_died_leaves_no_doubt(kept: Remembering) -> None:
    """Runs that it stored and did not publish are orphans, and no sign that a manifest is lost."""
    store = kept.aging.store

    class Dying:
        """Stores all but manifests."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def put_if_absent(self, key: str, body: bytes) -> None:
            if key.startswith("manifests/") and b"previous" in body:
                raise Stopped
            store.put_if_absent(key, body)

    before = kept.found()
    for extractor in (summary, None):
        with pytest.raises(Stopped):
            rebuild_memory(kept.aging.open(Dying()), APP, extractor=extractor)  # type: ignore[arg-type]
    kept.aging.clock.advance(3_601)
    report = sweep(kept.lake)
    assert (report.failures, report.named > 0) == (0, True)
    assert kept.found() == before
    assert [one for one in check(kept.lake).findings if one.severity == "lost"] == []


def test_wrong_arguments_are_refused(kept: Remembering) -> None:
    """Before anything is read."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"extractor": "summary"}, "extractor is a function"),
        ({"embedder": 3}, "embedder is a function"),
        ({"batch_size": 0, "extractor": summary}, "batch_size is a whole number, 1 or more"),
        ({"batch_size": 2}, "none is given"),
        ({"per": "event"}, "per is one of"),
        ({"since": "monday"}, "since"),
        ({"resume": 1}, "resume"),
        ({"user_id": ""}, "user_id must not be empty"),
        ({"executor": 4}, "executor is"),
    ]
    for options, says in wrong:
        with pytest.raises(InputError, match=says):
            rebuild_memory(kept.lake, APP, **options)
    with pytest.raises(ReadOnlyError):
        rebuild_memory(kept.aging.open(read_only=True), APP)
    with pytest.raises(ReadOnlyError):
        restore_memory(kept.aging.open(read_only=True), APP)


def test_without_any_session_memory_stays() -> None:
    """In a lake of memories alone, whose sessions are elsewhere, there is nothing to make anew."""
    sessions, kept = Remembering(), Remembering()
    session = sessions.aging.create("elsewhere")
    sessions.aging.say(session, "green tea")
    kept.memories.add_session_to_memory(session)
    report = rebuild_memory(kept.lake, APP)
    assert (report.sessions, report.comparison.vanished) == (0, 0)
    assert kept.said() == ["green tea"]


def test_an_empty_lake_has_nothing_to_rebuild() -> None:
    """It is reported as such, and nothing is published."""
    kept = Remembering()
    report = rebuild_memory(kept.lake, APP)
    assert (report.sessions, report.comparison.after) == (0, 0)
    assert list(kept.aging.store.names("manifests/")) == []


def test_an_erased_user_does_not_come_back(kept: Remembering) -> None:
    """Erased while the extractor works, or after: nothing of the user is made, kept or restored."""
    receipts: list[EraseReceipt] = []

    def erasing(history: History) -> list[MemoryEntry]:
        if not receipts:
            other = kept.aging.open()
            receipts.append(erase_user(other, APP, USER, wait=False))
        return summary(history)

    rebuild_memory(kept.lake, APP, extractor=erasing)
    assert kept.found() == []
    assert len(kept.found("ben")) == 2
    with pytest.raises(Stopped):
        rebuild_memory(kept.lake, APP, extractor=stopping_at("ben"))
    receipt = receipts[0]
    while receipt.pending:
        kept.aging.clock.advance(3_601)
        receipt = receipt.finish(kept.lake)
    assert mentions(kept.aging.store, USER) == []
    restore_memory(kept.lake, APP)
    assert (kept.found(), len(kept.found("ben"))) == ([], 8)
