"""Compaction of shared state reads what is new, and nothing that was packed; but all of the new."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from typing_extensions import override

from lakestore import Lake
from lakestore.history.archive import FOLDED
from lakestore.jobs import check, compact, erase_user, prune_user_state, sweep
from lakestore.jobs.changes import WORTH_FORGETTING, Publisher
from lakestore.jobs.fresh_rows import fresh_changes
from lakestore.log.commits import Marker
from lakestore.log.keys import Scope, SessionKey, entry_key, run_key
from lakestore.storage import ObjectStore
from lakestore.tables import state
from lakestore.tables.state import StateRow
from tests.support.faulty_store import AroundStore, Kind
from tests.support.histories import said
from tests.support.sites import APP, Site

R = TypeVar("R")

KEY = SessionKey(APP, "ana", "s1")
BOTH = Scope(APP, "ana"), Scope(APP, None)


class Watched(AroundStore):
    """Keeps the keys of all reads of entries."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.entries: list[str] = []

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if kind in ("get", "get_range") and key.startswith("state/"):
            self.entries.append(key)
        return call()


class Busy:
    """A lake where each event sets keys of both scopes, again and again the same few."""

    def __init__(self) -> None:
        self.site = Site()
        self.lake = self.site.lake
        self.marker: Marker = self.lake.sessions.create(KEY, {}, generated=True).marker
        self.number = 0

    def work(self, steps: int) -> None:
        """Append as many events."""
        for _ in range(steps):
            self.number += 1
            delta = {"user:u": self.number, "app:a": self.number, f"app:{self.number % 3}": 1}
            draft = said(f"e{self.number}", delta)
            self.marker = self.lake.sessions.append(KEY, self.marker, [draft]).marker

    def reads_of_compaction(self) -> int:
        """Compact in a new process; return how many entries it read."""
        store = Watched(self.site.store)
        with Lake(store, clock=self.site.clock) as lake:
            compact(lake)
        return len(store.entries)

    def values(self) -> list[object]:
        """Return the state of both scopes as a new process reads it."""
        with self.site.open(read_only=True) as lake:
            found = lake.sessions.shared.read(BOTH)
            return [found[scope].values() for scope in BOTH]


@pytest.fixture
def busy() -> Busy:
    """A lake where nothing is packed yet."""
    return Busy()


def test_each_entry_is_read_once(busy: Busy) -> None:
    """However many entries are not swept yet, a compaction reads those that came since the last."""
    busy.work(40)
    before = busy.values()
    assert busy.reads_of_compaction() == 80
    assert busy.reads_of_compaction() == 0
    busy.work(10)
    assert busy.reads_of_compaction() == 20
    assert busy.reads_of_compaction() == 0
    assert busy.values() == [{"u": 50}, {**before[1], "a": 50}]  # type: ignore[dict-item]
    assert check(busy.lake).healthy


def test_a_few_are_read_again_rather_than_named(busy: Busy) -> None:
    """Of less than eight entries no manifest is made only to say that they are packed."""
    busy.work(40)
    compact(busy.lake)
    busy.work(3)
    compact(busy.lake)
    number = busy.site.manifest().number
    assert busy.reads_of_compaction() == 6
    assert busy.site.manifest().number == number
    busy.work(2)
    assert busy.reads_of_compaction() == 10
    assert busy.reads_of_compaction() == 0


@pytest.mark.parametrize("steps", [WORTH_FORGETTING // 2 + 10, 20])
def test_a_sweep_forgets_the_names_of_what_it_took(busy: Busy, steps: int) -> None:
    """Where they are many, in one manifest; a few stay until more is packed. No answer changes."""
    busy.work(steps)
    before = busy.values()
    compact(busy.lake)
    busy.site.pass_grace()
    sweep(busy.lake)
    named = busy.site.manifest().table(FOLDED.name).runs
    assert sum(run.rows for run in named) == (2 * steps if steps == 20 else 0)
    number = busy.site.manifest().number
    sweep(busy.lake)
    assert busy.site.manifest().number == number
    assert busy.values() == before
    assert busy.reads_of_compaction() == 0
    assert check(busy.lake).healthy


def test_a_sweep_without_grace_takes_the_names_too(busy: Busy) -> None:
    """Nothing is left but what is packed: runs, packs, and the one manifest that names them."""
    busy.work(WORTH_FORGETTING // 2 + 10)
    compact(busy.lake)
    sweep(busy.lake, grace=0)
    assert busy.site.stored("/folded/") == []
    assert len(busy.site.stored("manifests/")) == 1
    assert len(busy.site.stored("runs/")) == 2


def test_an_entry_that_lands_late_is_packed(busy: Busy) -> None:
    """T1: what lands under an earlier stamp than all that is packed is read, and counts."""
    busy.work(40)
    stamp = "00000000000000001-000000-0123456789abcdef"
    late = StateRow(APP, None, "late", '"yes"', stamp, "s0", "ben", 1)
    assert busy.reads_of_compaction() == 80
    key = entry_key(Scope(APP, None).entries, stamp, fold=False)
    busy.site.store.put_if_absent(key, state.encode([late]))
    assert busy.reads_of_compaction() == 1
    busy.site.pass_grace()
    sweep(busy.lake)
    assert busy.site.stored("state/entries/") == []
    assert busy.values()[1]["late"] == "yes"  # type: ignore[index]


def test_what_is_swept_is_named_no_more(busy: Busy) -> None:
    """The names are those of entries that are there, and go with them."""
    busy.work(40)
    compact(busy.lake)
    busy.site.pass_grace()
    sweep(busy.lake)
    busy.work(5)
    compact(busy.lake)
    with busy.site.open(read_only=True) as lake:
        assert len(lake.sessions.archive.folded(busy.site.manifest())) == 10


def test_two_that_compact_at_once_name_what_both_have_read(busy: Busy) -> None:
    """Who loses the race for a number keeps what the winner has named."""
    busy.work(20)
    with busy.site.open() as first, busy.site.open() as second:
        (slow,) = fresh_changes(first, APP)
        busy.work(10)
        compact(second)
        Publisher(first.environment, first.sessions.archive, APP).publish(slow)
    assert busy.reads_of_compaction() <= 20
    assert busy.reads_of_compaction() == 0


def test_an_entry_that_cannot_be_read_is_tried_again(busy: Busy) -> None:
    """A damaged entry counts as packed for nobody."""
    busy.work(20)
    key = busy.site.stored("state/entries/")[3]
    body = busy.site.store.get(key)
    busy.site.store.delete(key)
    busy.site.store.put_if_absent(key, body[:30])
    busy.reads_of_compaction()
    assert busy.reads_of_compaction() == 1
    busy.site.store.delete(key)
    busy.site.store.put_if_absent(key, body)
    assert busy.reads_of_compaction() == 1


def test_names_that_cannot_be_read_cost_work_only(busy: Busy) -> None:
    """Where the run of names is damaged, all entries are read again; a check says so."""
    busy.work(20)
    compact(busy.lake)
    (run,) = busy.site.manifest().table(FOLDED.name).runs
    key = run_key(APP, FOLDED.name, run.id)
    body = busy.site.store.get(key)
    busy.site.store.delete(key)
    busy.site.store.put_if_absent(key, body[:20])
    with busy.site.open() as lake:
        report = check(lake)
        assert [(each.severity, each.key) for each in report.findings] == [("note", key)]
    before = busy.values()
    assert busy.reads_of_compaction() == 40
    assert busy.reads_of_compaction() == 0
    assert busy.values() == before


def test_pruning_users_state_reads_what_is_new(busy: Busy) -> None:
    """So does what prunes users' state, a dry run too."""
    busy.work(40)
    compact(busy.lake)
    store = Watched(busy.site.store)
    busy.site.clock.advance(200 * 86_400)
    with Lake(store, clock=busy.site.clock) as lake:
        would = prune_user_state(lake, dry_run=True)
        assert prune_user_state(lake)["deleted_count"] == would["deleted_count"] == 1
    assert store.entries == []
    assert busy.values()[0] == {}


def test_names_hold_no_user(busy: Busy) -> None:
    """What says which entries are packed tells nothing of whose they are."""
    busy.work(20)
    compact(busy.lake)
    (run,) = busy.site.manifest().table(FOLDED.name).runs
    body = busy.site.store.get(run_key(APP, FOLDED.name, run.id))
    assert b"ana" not in body
    receipt = erase_user(busy.lake, APP, "ana")
    busy.site.pass_grace()
    assert receipt.finish(busy.lake).verify(busy.lake) == ()
