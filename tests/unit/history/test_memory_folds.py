"""Folds of memories: listings stay short where no job runs, and no answer changes by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakestore import Lake
from lakestore.history import memory_folds
from lakestore.jobs import check, compact, prune_memory, sweep
from lakestore.log.entries import is_fold, parse_entry
from lakestore.log.keys import MEMORY_ENTRIES, Scope, entry_key
from tests.support.aging import APP, USER
from tests.support.rebuilding import Remembering, entry, memories_of

GRACE = 3_601.0


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Remembering]:
    """A lake where four entries are worth a fold, and three folds another."""
    monkeypatch.setattr(memory_folds, "_ENTRIES", 4)
    monkeypatch.setattr(memory_folds, "_FOLDS", 2)
    made = Remembering()
    yield made
    made.close()


def add(kept: Remembering, first: int, count: int) -> None:
    """Add facts one by one, and wait for what follows."""
    for number in range(first, first + count):
        add_some(kept, range(number, number + 1))


def add_some(kept: Remembering, numbers: range) -> None:
    """Add facts as one entry, and wait for what follows."""
    facts = [entry(f"tea {number}", id=f"m{number:03}") for number in numbers]
    kept.memories.add_memory(app_name=APP, user_id=USER, memories=facts)
    search(kept)


def search(kept: Remembering) -> None:
    """Look at all entries, and wait for what follows."""
    kept.memories.search_memory(app_name=APP, user_id=USER, query="tea")
    kept.lake._upkeep.submit(lambda: None).result()


def keys(kept: Remembering) -> list[str]:
    """Return the names of all entries."""
    return [key.rpartition("/")[2] for key in kept.aging.store.names(MEMORY_ENTRIES)]


def ids(kept: Remembering) -> list[str | None]:
    """Return what a new process finds, in its order."""
    return [name for name, _ in kept.found()]


def test_listings_stay_short_without_jobs(kept: Remembering) -> None:
    """Entries become folds, folds become one; what old ones hold goes after the grace."""
    most = 0
    for first in range(0, 60, 5):
        add(kept, first, 5)
        kept.aging.clock.advance(GRACE)
        most = max(most, len(keys(kept)))
    assert kept.found(limit=100) == [(f"m{n:03}", f"tea {n}") for n in range(60)]
    assert most <= 20
    assert check(kept.lake).findings == ()


def test_compaction_packs_what_folds_hold_once(kept: Remembering) -> None:
    """Also while the entries of a fold are still there; then all of them go."""
    add(kept, 0, 12)
    before = ids(kept)
    assert any(map(is_fold, keys(kept)))
    compact(kept.lake)
    assert ids(kept) == before
    kept.aging.clock.advance(GRACE)
    sweep(kept.lake)
    assert (keys(kept), ids(kept)) == ([], before)
    assert check(kept.lake).findings == ()


def test_what_was_pruned_does_not_come_back_from_a_fold(kept: Remembering) -> None:
    """Nor from a fold of what is packed and pruned, put by a process that did not know."""
    add(kept, 0, 5)
    late = kept.aging.open()
    memories = memories_of(late)
    memories.search_memory(app_name=APP, user_id=USER, query="tea")
    compact(kept.lake)
    kept.aging.pass_days(91)
    prune_memory(kept.lake)
    memories._memories._folds.fold(Scope(APP, USER))
    compact(kept.lake)
    assert ids(kept) == []


def test_what_was_pruned_does_not_come_back_from_a_fold_of_folds(kept: Remembering) -> None:
    """Packing a fold notes whose entries it holds, though these were deleted for it long ago."""
    kept.fill(1, [USER])
    store, scope = kept.aging.store, Scope(APP, USER).entries_in(MEMORY_ENTRIES)
    (first,) = store.names(scope)
    body, stamp = store.get(first), _stamp(first)
    store.put_if_absent(entry_key(scope, stamp[:-16] + 16 * "0", fold=True), body)
    store.delete(first)
    compact(kept.lake)
    kept.aging.pass_days(91)
    prune_memory(kept.lake)
    store.put_if_absent(entry_key(scope, stamp[:-16] + 16 * "1", fold=True), body)  # lands late
    assert kept.found() == []


def test_a_deleted_memory_stays_so_through_folds(kept: Remembering) -> None:
    """A forget is a row like others, and as lasting."""
    add(kept, 0, 3)
    kept.memories.delete_memory(app_name=APP, user_id=USER, memory_id="m001")
    for first in range(3, 40, 6):
        add(kept, first, 6)
        kept.aging.clock.advance(GRACE)
    assert "m001" not in ids(kept)
    add(kept, 1, 1)
    assert "m001" not in ids(kept)


def test_sql_shows_what_services_find(kept: Remembering) -> None:
    """With folds, with what they are of, packed or not; and nothing of a fold that was pruned."""
    warm = kept.aging.open()

    def shown(lake: Lake) -> list[str]:
        found = lake.sql("select id from memory order by id").fetchall()
        return [name for (name,) in found]

    add(kept, 0, 12)
    expected = [f"m{number:03}" for number in range(12)]
    assert shown(warm) == shown(kept.aging.open()) == expected
    late = {
        key: kept.aging.store.get(key)
        for key in kept.aging.store.names(MEMORY_ENTRIES)
        if is_fold(key)
    }
    for key in late:
        kept.aging.store.delete(key)
    compact(kept.lake)
    kept.aging.pass_days(91)
    prune_memory(kept.lake)
    for key, body in late.items():  # another process' fold of them, that lands only now
        kept.aging.store.put_if_absent(key, body)
    assert shown(warm) == shown(kept.aging.open()) == ids(kept) == []


def _stamp(key: str) -> str:
    found = parse_entry(key)
    assert found is not None
    return found.stamp


def test_what_a_fold_holds_is_not_folded_again(kept: Remembering) -> None:
    """Entries stay for the grace beside their folds: no search puts another fold of the same."""
    add(kept, 0, 25)
    for _ in range(3):
        search(kept)
    there, before = keys(kept), kept.lake.metrics.requests
    assert sum(map(is_fold, there)) == 5 + 2  # of five entries each, and of three folds each
    for _ in range(3):
        search(kept)
    assert keys(kept) == there
    assert kept.lake.metrics.requests_since(before) == {"LIST": 3 * 2}


def test_many_rows_are_folded_by_and_by(kept: Remembering, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold takes as many entries as it may have rows, and large ones are not folded again."""
    monkeypatch.setattr(memory_folds, "_MOST_ROWS", 8)
    for first in range(0, 60, 3):
        add_some(kept, range(first, first + 3))
    search(kept)  # reads what was folded last
    there, before = keys(kept), kept.lake.metrics.requests
    # Of three entries each, as soon as there are five: two are left.
    assert (sum(map(is_fold, there)), len(there)) == (6, 26)
    search(kept)
    assert kept.lake.metrics.requests_since(before) == {"LIST": 2}
    assert kept.found(limit=100) == [(f"m{n:03}", f"tea {n}") for n in range(60)]
