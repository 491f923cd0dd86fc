"""Rebuilding memory: what is made, what stays, and that nothing is lost between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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
    counting,
    entry,
    memories_of,
    summary,
    text_of,
)


@pytest.fixture
def kept() -> Iterator[Remembering]:
    """Two users, two remembered sessions each."""
    made = Remembering()
    made.fill()
    yield made
    made.close()


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


def test_an_extractor_makes_what_it_likes(kept: Remembering) -> None:
    """Entries of no event belong to the session, and the next rebuild replaces them."""
    report = rebuild_memory(kept.lake, APP, extractor=summary)
    assert kept.said() == [f"tea summary of s{number}, 4 events" for number in range(2)]
    assert (report.comparison.vanished, report.comparison.appeared) == (16, 4)
    assert report.comparison.appeared_first[0].startswith("tea summary of s")
    again = rebuild_memory(kept.lake, APP, extractor=lambda _: [entry("tea, in short")])
    assert (again.comparison.before, again.comparison.after) == (4, 4)
    assert kept.said() == ["tea, in short"] * 2
    (history,) = {
        one.session_id
        for name, _ in kept.found()[:1]
        for one in kept.memories.get_memory_history(app_name=APP, user_id=USER, memory_id=str(name))
    } - {"s1"}
    assert history == "s0"


def test_an_entry_with_the_id_of_an_event_is_its_memory(kept: Remembering) -> None:
    """It keeps author, time and place of the event, and re-adding the session changes it back."""

    def shouted(history: History) -> list[MemoryEntry]:
        return [
            entry(part.text.upper(), id=event.id)
            for event in history.events
            for part in (event.content and event.content.parts) or ()
            if part.text
        ]

    before = kept.found()
    report = rebuild_memory(kept.lake, APP, extractor=shouted)
    assert report.comparison.changed == 16
    assert [name for name, _ in kept.found()] == [name for name, _ in before]
    (one,) = kept.memories.get_memory_history(
        app_name=APP, user_id=USER, memory_id=str(before[0][0])
    )
    assert (one.author, one.event_id, one.session_id) == ("user", before[0][0], "s0")


@pytest.mark.parametrize("how", ["plain", "batches", "async", "async batches", "of a user"])
def test_extractors_of_every_kind(kept: Remembering, how: str) -> None:
    """One at a time, in batches, async, for a user at once; also where a loop is running."""

    async def later(history: History) -> list[MemoryEntry]:
        await asyncio.sleep(0)
        return summary(history)

    async def later_many(histories: list[History]) -> list[list[MemoryEntry]]:
        return [await later(history) for history in histories]

    kinds: dict[str, dict[str, Any]] = {
        "plain": {"extractor": summary},
        "batches": {"extractor": lambda many: map(summary, many), "batch_size": 3},
        "async": {"extractor": later},
        "async batches": {"extractor": later_many, "batch_size": 2},
        "of a user": {"extractor": summary, "per": "user"},
    }

    async def in_a_notebook() -> None:
        rebuild_memory(kept.lake, APP, **kinds[how])

    asyncio.run(in_a_notebook())
    of_a_user = ["tea summary of None, 8 events"]
    of_sessions = ["tea summary of s0, 4 events", "tea summary of s1, 4 events"]
    assert kept.said() == (of_a_user if how == "of a user" else of_sessions)


def test_one_session_that_fails_keeps_what_it_had(kept: Remembering) -> None:
    """Others are replaced; the report names it, with what was raised."""

    def picky(history: History) -> list[MemoryEntry]:
        if (history.user_id, history.session_id) == (USER, "s1"):
            raise ValueError("no luck")
        return summary(history)

    report = rebuild_memory(kept.lake, APP, extractor=picky)
    (failure,) = report.failures
    assert "failed=1" in repr(report)
    assert (failure.user_id, failure.session_id) == (USER, "s1")
    assert failure.error == "ValueError: no luck"
    assert [text for text in kept.said() if "summary" in text] == ["tea summary of s0, 4 events"]
    assert {text[-1] for text in kept.said() if "summary" not in text} == {"1"}
    assert kept.said("ben") == ["tea summary of s0, 4 events", "tea summary of s1, 4 events"]


@pytest.mark.parametrize(
    ("extractor", "says"),
    [
        (lambda _: "tea", "returns a list of MemoryEntry"),
        (lambda _: ["tea"], "memories are ADK's MemoryEntry"),
        (lambda _: [entry("tea", timestamp="yesterday")], "ISO 8601"),
    ],
)
def test_what_an_extractor_may_not_return(kept: Remembering, extractor: Any, says: str) -> None:
    """It fails for that session, in words, and nothing of it is stored."""
    before = kept.found()
    report = rebuild_memory(kept.lake, APP, extractor=extractor)
    assert len(report.failures) == 4
    assert all(says in failure.error for failure in report.failures)
    assert kept.found() == before


def test_batches_of_another_length_fail(kept: Remembering) -> None:
    """Nobody could tell whose memories are whose."""
    report = rebuild_memory(kept.lake, APP, extractor=lambda many: [[]], batch_size=2)
    assert "one list for each history. histories=2 lists=1" in report.failures[0].error


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


class Stopped(BaseException):
    """Ends a process at once."""


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


def stopping_at(user: str) -> Any:
    """Return an extractor that ends the process when it meets a user."""

    def extract(history: History) -> list[MemoryEntry]:
        if history.user_id == user:
            raise Stopped
        return [entry(f"tea of {history.user_id}")]

    return extract
