"""Folds of many entries: when one is put, and what it may sweep."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import count

import pytest

from lakestore.errors import StorageError
from lakestore.log.keys import SessionKey
from lakestore.log.stamps import stamp_text
from lakestore.tables import state
from lakestore.tables.state import StateRow
from tests.support.clocks import SkewedClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Nth
from tests.support.histories import ANA, APP, GRACE, Host, World

_sessions = count()


def write(host: Host, number: int, keys: int = 5) -> None:
    """Let a host set `number` user keys, in a session each, of which `keys` are different."""
    for n in range(number):
        key = SessionKey("travel", "ana", f"s{next(_sessions)}")
        host.create(key, {f"user:k{n % keys}": n}, look=False)


def put(world: World, micros: int, key: str, value: str) -> str:
    """Put an entry of ANA's that comes from nowhere in particular; return its stamp."""
    stamp = stamp_text(micros, 0, "00000000000000ff")
    row = StateRow("travel", "ana", key, value, stamp, "s", "ana", 1)
    world.put_entry(ANA.entries, stamp, state.encode([row]), fold=False)
    return stamp


class TestWhen:
    """Listings stay short with no job running."""

    def test_many_entries_are_folded_by_who_lists_them(self, world: World) -> None:
        """The reader of more than 64 entries puts their fold behind the scenes, once."""
        host = world.host()
        write(host, 65)
        expected = host.state()
        host.state()
        assert len(host.upkeep) == 1
        host.run_upkeep()

        assert sum(entry.is_fold for entry in world.entries()) == 1
        assert len(world.entries()) == 66
        assert host.state() == world.host().state() == expected
        assert host.upkeep == []

    def test_few_entries_are_left(self, world: World) -> None:
        """Up to 64 are listed as they are."""
        host = world.host()
        write(host, 64)
        host.state()

        assert host.upkeep == []

    def test_only_what_is_newer_than_a_fold_counts(self, world: World) -> None:
        """The next fold comes after 64 more entries."""
        host = world.host()
        write(host, 70)
        host.state()
        host.run_upkeep()
        write(host, 60)
        host.state()
        assert host.upkeep == []
        write(host, 10)
        host.state()
        host.run_upkeep()

        assert sum(entry.is_fold for entry in world.entries()) == 2

    @pytest.mark.parametrize("setting", ["read-only", "off"])
    def test_it_can_be_turned_off(self, world: World, setting: str) -> None:
        """Who only reads, or leaves it to others, puts nothing."""
        write(world.host(), 70)
        host = world.host(writable=setting != "read-only", rollups=setting != "off")
        host.state()

        assert host.upkeep == []

    def test_a_failed_fold_can_be_done_again(self, world: World) -> None:
        """A host whose fold failed does not believe for ever that it is folding."""
        host = world.host(FailingStore(world.store, Nth("put", holding="f.parquet")))
        write(host, 70)
        host.state()
        work = host.upkeep.pop()
        with suppress(StorageError):  # whether it is raised is another test
            work()
        host.state()
        host.run_upkeep()

        assert sum(entry.is_fold for entry in world.entries()) == 1

    def test_failures_are_logged(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        """A fold that could not be put is logged like a rollup; nobody waits for its error."""
        host = world.host(FailingStore(world.store, Nth("put", holding="f.parquet")))
        write(host, 3)
        with caplog.at_level(logging.WARNING, "lakestore"):
            host.sessions.shared.fold_entries(ANA)

        assert ANA.entries in caplog.text

    def test_a_scope_without_entries_has_no_fold(self, world: World) -> None:
        """No object is ever empty."""
        world.host().sessions.shared.fold_entries(APP)

        assert [*world.store.list("")] == []


class TestContent:
    """A fold says what all entries said, each key under its own stamp."""

    def test_a_fold_alone_is_enough(self, world: World) -> None:
        """Without the entries that it was made of the state is the same."""
        host = world.host()
        write(host, 10)
        expected = host.state()
        stamps = {row.key: row.stamp for row in host.sessions.shared.read([ANA])[ANA].rows.values()}
        host.sessions.shared.fold_entries(ANA)
        for entry in world.entries():
            if not entry.is_fold:
                world.store.delete(entry.key)

        cold = world.host()
        assert cold.state() == expected
        rows = cold.sessions.shared.read([ANA])[ANA].rows.values()
        assert {row.key: row.stamp for row in rows} == stamps

    def test_a_late_entry_wins_over_a_fold(self, world: World) -> None:
        """An entry that lands after a fold was made counts by its stamp, not by when it came."""
        host = world.host()
        put(world, 10, "k", '"old"')
        host.sessions.shared.fold_entries(ANA)
        assert host.state() == {"k": "old"}
        put(world, 20, "k", '"new"')
        put(world, 5, "k", '"oldest"')

        assert host.state() == world.host().state() == {"k": "new"}


class TestSweep:
    """What an old fold covers may go."""

    def fold_twice(self, world: World, host: Host, wait: float = GRACE) -> None:
        """Put a fold, wait, and put another one, which sweeps."""
        host.sessions.shared.fold_entries(ANA)
        world.clock.advance(wait)
        host.sessions.shared.fold_entries(ANA)

    def test_nothing_goes_under_the_grace(self, world: World) -> None:
        """Readers may be about to read what a young fold covers."""
        host = world.host()
        write(host, 5)
        self.fold_twice(world, host, GRACE - 2)

        assert len(world.entries()) == 7

    def test_what_an_old_fold_covers_goes(self, world: World) -> None:
        """Entries below it and older folds are deleted, and the state stays."""
        host, warm = world.host(), world.host()
        write(host, 5)
        expected = warm.state()
        self.fold_twice(world, host)
        assert [entry.is_fold for entry in world.entries()] == [True, True]
        world.clock.advance(GRACE)
        host.sessions.shared.fold_entries(ANA)

        assert [entry.is_fold for entry in world.entries()] == [True, True]
        assert host.state() == warm.state() == world.host().state() == expected

    def test_what_came_after_it_stays(self, world: World) -> None:
        """An entry with a later stamp for a key is not covered, wherever its name sorts."""
        host = world.host()
        put(world, 10, "k", "1")
        put(world, 30, "j", "1")
        host.sessions.shared.fold_entries(ANA)
        later, covered = put(world, 20, "k", "2"), put(world, 5, "k", "0")
        world.clock.advance(GRACE)
        host.sessions.shared.fold_entries(ANA)

        stamps = [entry.stamp for entry in world.entries() if not entry.is_fold]
        assert stamps == [later]
        assert covered not in stamps
        assert world.host().state() == {"k": 2, "j": 1}

    def test_an_entry_goes_only_when_all_its_keys_are_covered(self, world: World) -> None:
        """One key that no old fold holds keeps the whole entry."""
        host = world.host()
        put(world, 50, "k", "1")
        host.sessions.shared.fold_entries(ANA)
        stamp = stamp_text(20, 0, "00000000000000ff")
        rows = [StateRow("travel", "ana", key, "7", stamp, "s", "ana", 1) for key in ("k", "new")]
        world.put_entry(ANA.entries, stamp, state.encode(rows), fold=False)
        world.clock.advance(GRACE)
        host.sessions.shared.fold_entries(ANA)

        assert stamp in [entry.stamp for entry in world.entries()]
        assert world.host().state() == {"k": 1, "new": 7}

    def test_age_is_told_by_the_store(self, world: World) -> None:
        """A sweeper whose clock is hours ahead sweeps nothing early (Q1)."""
        host = world.host(clock=SkewedClock(world.clock, 7_200))
        write(host, 5)
        self.fold_twice(world, host, 1)

        assert len(world.entries()) == 7

    def test_a_damaged_entry_is_left(self, world: World) -> None:
        """Nobody knows what it says, so nobody says that it is covered."""
        host = world.host()
        write(host, 3)
        damaged = f"{ANA.entries}{stamp_text(1, 0, '00000000000000ff')}.parquet"
        world.store.put_if_absent(damaged, b"PAR1 half")
        self.fold_twice(world, host)

        assert world.store.get(damaged)

    def test_other_scopes_are_left(self, world: World) -> None:
        """The entries of the app and of other users are not the user's."""
        host = world.host()
        host.create(SessionKey("travel", "ben", "s"), {"user:k": 1, "app:k": 1})
        write(host, 3)
        self.fold_twice(world, host)

        assert len(world.entries(APP)) == 1
        assert world.host().state(APP) == {"k": 1}

    @pytest.mark.parametrize("at", ["get", "delete"])
    def test_two_sweepers_at_once(self, world: World, at: str) -> None:
        """What one has deleted is no error for the other, who does the rest."""
        host, other = world.host(), world.host()
        write(host, 5)
        expected = host.state()
        host.sessions.shared.fold_entries(ANA)
        world.clock.advance(GRACE)
        fold = next(entry.key for entry in world.entries() if entry.is_fold)
        picked = Nth("get", nth=2, holding=fold) if at == "get" else Nth("delete")

        def act() -> None:
            other.sessions.shared.fold_entries(ANA)

        slow = world.host(InterruptedStore(world.store, picked, act))
        slow.sessions.shared.fold_entries(ANA)
        assert not [entry for entry in world.entries() if not entry.is_fold]
        assert world.host().state() == slow.state() == expected

    @pytest.mark.parametrize("failing", [1, 2, 3])
    def test_a_sweep_that_stops_harms_nothing(self, world: World, failing: int) -> None:
        """Whichever deletion fails, the state is as before, and the next sweep does the rest."""
        host = world.host(FailingStore(world.store, Nth("delete", nth=failing)))
        write(host, 5)
        expected = host.state()
        host.sessions.shared.fold_entries(ANA)
        world.clock.advance(GRACE)
        with suppress(StorageError):  # whether it is raised is another test
            host.sessions.shared.fold_entries(ANA)
        assert world.host().state() == expected
        host.sessions.shared.fold_entries(ANA)

        assert not [entry for entry in world.entries() if not entry.is_fold]
        assert world.host().state() == expected

    def test_listings_stay_short_for_ever(self, world: World) -> None:
        """A user who writes all day has few entries, and the state of all of them."""
        host = world.host()
        for hour in range(6):
            write(host, 80, keys=7)
            host.state()
            host.run_upkeep()
            world.clock.advance(GRACE)
            assert len(world.entries()) < 260, f"after {hour} hours"

        assert host.state() == world.host().state()
        assert len(host.state()) == 7
