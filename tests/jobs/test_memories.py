"""What jobs make of what agents remember: no answer differs, and what is to go is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lakestore import Lake
from lakestore.jobs import (
    check,
    compact,
    erase_user,
    prune_events,
    prune_sessions,
    stats,
    sweep,
)
from lakestore.log.keys import MEMORY_ENTRIES, Scope, parse_entry_name
from tests.support.aging import APP
from tests.support.erasures import mentions
from tests.support.remembering import ANA, BEN, SCOPES, RememberingLake, fact


@pytest.fixture
def lake() -> RememberingLake:
    """An empty lake."""
    return RememberingLake()


def entries(lake: RememberingLake) -> list[str]:
    """Return the keys of the entries of memories."""
    return [stored.key for stored in lake.store.list(MEMORY_ENTRIES)]


def settle(lake: RememberingLake) -> None:
    """Pack all, and delete what nobody needs then."""
    compact(lake.open())
    lake.pass_days(2)
    sweep(lake.open())


def test_no_answer_differs_by_jobs(lake: RememberingLake) -> None:
    """Packing and sweeping change nothing for new processes, or for those that knew before."""
    lake.peopled()
    lake.memories.delete_memory(**ANA, memory_id="e2")
    before, warm = lake.answers(), lake.open()
    assert lake.answers(warm) == before
    for step in range(2):
        compact(lake.open())
        assert lake.answers(warm) == lake.answers() == before, step
        lake.pass_days(2)
        assert sweep(lake.open()).objects
        assert entries(lake) == []
        assert lake.answers(warm) == lake.answers() == before, step
        lake.memories.add_memory(**BEN, memories=[fact("milk", f"milk{step}")])
        assert lake.found("milk", BEN) == [f"milk{each}" for each in range(step + 1)]


def test_no_answer_differs_while_two_work(lake: RememberingLake) -> None:
    """While jobs of two processes pack and sweep, a third finds what it found before."""
    lake.peopled()
    before = lake.answers()

    def work(own: Lake) -> None:
        for _ in range(3):
            compact(own)
            lake.pass_days(1)
            sweep(own)

    with ThreadPoolExecutor() as workers:
        jobs = [workers.submit(work, lake.open()) for _ in range(2)]
        warm = lake.open()
        while not all(job.done() for job in jobs):
            assert lake.answers(warm) == before
            assert lake.answers() == before
        for job in jobs:
            job.result()
    assert lake.answers(warm) == lake.answers() == before
    assert check(lake.open()).findings == ()


@pytest.mark.parametrize("packed", [False, True])
def test_deleted_memory_is_nowhere(lake: RememberingLake, packed: bool) -> None:
    """After a compaction and a sweep no byte says what it said, and adding brings none back."""
    handles = lake.peopled("velvet")
    lake.memories.add_memory(**ANA, memories=[fact("a violin", "music")])
    if packed:
        settle(lake)
    lake.memories.delete_memory(**ANA, memory_id="music")
    assert lake.memories.delete_session_memory(**ANA, session_id="chat-anastasia-0") == 3
    for _ in range(2):
        settle(lake)
        assert lake.forms("violin", "music") == {}
        assert lake.found("number 0", ANA) == lake.found("number 0", ANA, lake.memories)
        assert lake.found("number 0", ANA)[0] not in [
            event.id for event in handles["chat-anastasia-0"].events
        ]
        lake.memories.add_memory(**ANA, memories=[fact("a violin", "music")])
        lake.memory_of().add_session_to_memory(handles["chat-anastasia-0"])
    (known,) = lake.memories.get_memory_history(**ANA, memory_id="music")
    assert known.forgotten


def test_deleted_memory_of_a_slow_writer_stays_deleted(lake: RememberingLake) -> None:
    """An add that lands after the forget was packed is found by nobody, and goes."""
    lake.memories.add_memory(**ANA, memories=[fact("a violin", "music")])
    (slow,) = entries(lake)
    body = lake.store.get(slow)
    lake.memories.delete_memory(**ANA, memory_id="music")
    settle(lake)
    late = slow.replace("-000000-", "-000007-")
    assert parse_entry_name(late.rpartition("/")[2])
    lake.store.put_if_absent(late, body)
    for _ in range(2):
        assert lake.found("violin") == lake.found("violin", ANA, lake.memories) == []
        settle(lake)
    assert lake.forms("violin", "music") == {}


def test_memory_of_a_deleted_session_stays_until_it_is_purged(lake: RememberingLake) -> None:
    """Deleting, or pruning, sessions leaves memory, also when all else of them is gone (R010)."""
    made = lake.create("chat", user_id="anastasia")
    lake.say(made, "the velvet curtain")
    lake.memories.add_session_to_memory(made)
    lake.service.delete_session(**ANA, session_id="chat")
    other = lake.create("other", user_id="anastasia")
    lake.say(other, "the velvet glove")
    lake.memories.add_session_to_memory(other)
    lake.pass_days(50)
    assert prune_events(lake.open(), older_than_days=40)["deleted_count"]
    assert prune_sessions(lake.open(), idle_days=40)["deleted_count"]
    for _ in range(3):
        settle(lake)
        lake.pass_days(40)
    assert lake.open().sql("select count(*) from events").fetchall() == [(0,)]
    assert lake.found("velvet") == ["e1", "e2"]
    assert lake.memory_of().delete_session_memory(**ANA, session_id="chat") == 1
    assert lake.memory_of().delete_user_memory(**ANA) == 1
    settle(lake)
    assert lake.forms("velvet", "e1") == lake.forms("velvet", "e2") == {}
    lake.memories.add_session_to_memory(made)
    assert lake.found("velvet") == []


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_of_an_erased_user_is_left(lake: RememberingLake, packed: bool) -> None:
    """Own memory goes, what the app's has from the user, and their forgets; others keep all."""
    shared = lake.peopled()["chat-anastasia-1"].events[0].id
    if packed:
        settle(lake)
    for scope in SCOPES:
        lake.memories.add_memory(**ANA, memories=[fact("sesame", "x")], scope=scope)
        lake.memories.delete_memory(**ANA, memory_id="x", scope=scope)
    own, warm = lake.found("tea", BEN), lake.memory_of()
    assert lake.found("tea", ANA, warm)
    receipt = erase_user(lake.open(), APP, "anastasia", wait=False)
    others = sorted(name for name in own if name not in (shared, "own-anastasia"))
    for service in (None, warm):
        assert sorted(lake.found("tea", BEN, service)) == others
        assert lake.found("tea", ANA, service) == lake.found("tea", BEN, service)[-2:]
        # So long a manifest that a process knows is good enough.
        lake.clock.advance(lake.lake.environment.limits.view_age + 1)
    lake.pass_days(1)
    receipt = receipt.finish(lake.open()).finish(lake.open())
    assert (receipt.status, receipt.left) == ("done", ())
    assert mentions(lake.store, "sesame-anastasia", "anastasia") == []
    assert sorted(lake.found("tea", BEN)) == others
    assert receipt.verify(lake.open(read_only=True)) == ()
    assert check(lake.open()).findings == ()


def test_user_without_a_session_is_erased_too(lake: RememberingLake) -> None:
    """Somebody of whom there are but facts, or app-wide ones alone, is erased as others are."""
    lake.memories.add_memory(**BEN, memories=[fact("sesame rice", "food")])
    for scope in SCOPES:
        lake.memories.add_memory(**ANA, memories=[fact("sesame-anastasia", "bread")], scope=scope)
        lake.pass_days(1)
        receipt = erase_user(lake.open(), APP, "anastasia").finish(lake.open())
        assert (receipt.status, receipt.left) == ("done", ())
        assert mentions(lake.store, "anastasia", "bread") == []
        assert lake.found("sesame", ANA) == []
        assert lake.found("sesame", BEN) == ["food"]


@pytest.mark.parametrize("packed", [False, True])
def test_what_an_erased_user_forgot_for_all_stays_forgotten(
    lake: RememberingLake, packed: bool
) -> None:
    """Others may have given the app the same memory: it does not come back with who forgot it."""
    for whose in (ANA, BEN):
        made = lake.create("same", user_id=whose["user_id"])
        lake.service.append_event(made, lake.event("velvet", id="shared"))
        lake.memories.add_session_to_memory(made, scope="app")
    if packed:
        compact(lake.lake)
    lake.memories.delete_memory(**ANA, memory_id="shared", scope="app")
    erase_user(lake.open(), APP, "anastasia").finish(lake.open())
    lake.clock.advance(lake.lake.environment.limits.view_age + 1)
    assert lake.found("velvet", BEN) == []
    lake.memories.add_session_to_memory(made, scope="app")
    assert lake.found("velvet", BEN) == []
    assert mentions(lake.store, "anastasia") == []


def test_late_entry_of_an_erased_user_counts_for_nobody(lake: RememberingLake) -> None:
    """What was stamped before he was erased and lands after it is found by nobody, and goes."""
    lake.peopled()
    for scope in SCOPES:
        lake.memories.add_memory(**ANA, memories=[fact("velvet", f"v-{scope}")], scope=scope)
    prefixes = [Scope(APP, user).entries_in(MEMORY_ENTRIES) for user in ("anastasia", None)]
    last = [max(lake.store.names(prefix)) for prefix in prefixes]
    late = {key: lake.store.get(key) for key in last}
    for key in late:
        lake.store.delete(key)
    assert lake.found("velvet") == []
    warm = lake.memory_of()
    receipt = erase_user(lake.open(), APP, "anastasia").finish(lake.open())
    for key, body in late.items():
        lake.store.put_if_absent(key, body)
    assert receipt.verify(lake.open()) == tuple(sorted(late))
    for service in (None, warm):
        assert lake.found("velvet", ANA, service) == lake.found("velvet", BEN, service) == []
    settle(lake)
    assert lake.forms("velvet", "v-user") == lake.forms("velvet", "v-app", BEN) == {}


def test_erased_user_may_begin_anew(lake: RememberingLake) -> None:
    """Sessions, events, facts and ids of before may come again, for processes of before too."""
    lake.peopled()
    warm = lake.memory_of()
    lake.found("tea", ANA, warm)
    erase_user(lake.open(), APP, "anastasia").finish(lake.open())
    made = lake.create("chat-anastasia-0", user_id="anastasia")
    lake.say(made, "jasmine")
    lake.say(made, "jasmine again")
    lake.memory_of().add_events_to_memory(**ANA, events=made.events[:1], session_id=made.id)
    assert lake.found("jasmine") == [made.events[0].id]
    lake.memory_of().add_session_to_memory(made)
    for scope in SCOPES:
        warm.add_memory(**ANA, memories=[fact("jasmine", "drink")], scope=scope)
    expected = [event.id for event in made.events] + ["drink", "drink"]
    for _ in range(2):
        assert lake.found("jasmine") == lake.found("jasmine", ANA, warm) == expected
        settle(lake)


def test_handle_of_an_erased_session_adds_nothing(lake: RememberingLake) -> None:
    """Who holds the session of before and adds it to memory remembers nothing, here or there."""
    handles = lake.peopled()
    warm = lake.memory_of()
    lake.found("tea", ANA, warm)
    erase_user(lake.open(), APP, "anastasia").finish(lake.open())
    objects, found = [*lake.store.names("")], lake.found("number 0")
    for scope in SCOPES:
        warm.add_session_to_memory(handles["chat-anastasia-0"], scope=scope)
    assert [*lake.store.names("")] == objects
    assert lake.found("number 0") == lake.found("number 0", ANA, warm) == found


def test_check_finds_damage(lake: RememberingLake) -> None:
    """A damaged entry is found, and a damaged run; whole ones are none."""
    lake.peopled()
    assert check(lake.open()).findings == ()
    damaged = entries(lake)[0]
    lake.store.delete(damaged)
    lake.store.put_if_absent(damaged, b"PAR1 no more")
    assert [finding.key for finding in check(lake.open()).findings] == [damaged]
    lake.store.delete(damaged)
    settle(lake)
    assert check(lake.open()).findings == ()
    (run,) = (key for key in lake.store.names("runs/") if "/memory/" in key)
    body = lake.store.get(run)
    lake.store.delete(run)
    lake.store.put_if_absent(run, body[:100] + b"!" + body[101:])
    assert [finding.key for finding in check(lake.open()).findings] == [run]


def test_stats_tell_what_sql_reads_of_entries(lake: RememberingLake) -> None:
    """SQL of a new process asks for each entry that is not packed, and `stats` counts it."""
    for number in range(20):
        lake.memories.add_memory(**ANA, memories=[fact("tea", f"drink {number}")])
    (app,) = stats(lake.open()).apps
    new = lake.open()
    new.sql("select count(*) from memory").fetchall()
    assert app.sql_now == pytest.approx(sum(new.metrics.requests.values()), abs=4)


def test_stats_count_entries(lake: RememberingLake) -> None:
    """Fresh entries of memories are among what a compaction has to do, by user too."""
    lake.memories.add_memory(**ANA, memories=[fact("tea", "drink")])
    (app,) = stats(lake.open()).apps
    assert (app.other_entries, app.total.fresh_objects) == (1, 1)
    assert app.users["anastasia"].fresh_objects == 1
    settle(lake)
    (app,) = stats(lake.open()).apps
    assert (app.other_entries, app.total.fresh_objects) == (0, 0)


# R071
def test_nothing_to_do_is_no_error(lake: RememberingLake) -> None:
    """Before anything is remembered, and after all was forgotten, nothing is found or done."""
    for step in range(2):
        assert lake.found("tea") == lake.found("tea", ANA, lake.memories) == [], step
        assert compact(lake.open()).events == 0
        lake.pass_days(2)
        sweep(lake.open())
        assert check(lake.open()).findings == ()
        assert lake.memories.delete_user_memory(**ANA) == 0
        lake.memories.add_memory(**ANA, memories=[fact("tea", f"drink{step}")])
        assert lake.memories.delete_user_memory(**ANA) == 1
    assert erase_user(lake.open(), APP, "anastasia").finish(lake.open()).status == "done"
    assert mentions(lake.store, "anastasia", "drink") == []
