"""Rollups of long logs: when one is written, what it may sweep, and that no answer changes."""

from __future__ import annotations

import logging
from math import isqrt

import pytest

from lakestore.errors import ConflictError
from lakestore.history.upkeep import rollup_is_due
from lakestore.history.view import SessionView
from lakestore.log.keys import commit_key
from tests.support.clocks import SkewedClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Nth
from tests.support.histories import GRACE, KEY, OTHER, Host, World, ids, said, several


def grown(host: Host, number: int) -> None:
    """Append that many events to a new session, one commit each."""
    host.append_each(host.create(delta={"k": 1}), *several(number))


class TestWhen:
    """A rollup is due when a cold open would read too many commits."""

    @pytest.mark.parametrize("version", [1, 64, 95, 96, 97, 100, 200, 5_000])
    def test_the_limit_grows_with_the_log(self, version: int) -> None:
        """The tail may have 64 commits, and 4 more for each root of the log."""
        assert rollup_is_due(SessionView(KEY, 0.0, version)) == (version >= 64 + 4 * isqrt(version))

    def test_a_long_tail_is_rolled_up_by_its_writer(self, world: World) -> None:
        """The writer of a long log writes a rollup behind the scenes, once."""
        host = world.host()
        host.sessions.read(KEY)
        grown(host, 200)
        host.run_upkeep()

        assert world.versions() == (list(range(1, 202)), [201])
        assert world.host().events() == [f"e{n}" for n in range(1, 201)]

    def test_a_rollup_that_waits_is_not_asked_for_again(self, world: World) -> None:
        """However many events come before there is time for it, it is one piece of work."""
        host = world.host()
        host.sessions.read(KEY)
        grown(host, 200)

        assert len(host.upkeep) == 1

    def test_a_writer_that_caches_nothing_looks_now_and_then(self, world: World) -> None:
        """A process that only ever appends rolls its log up too."""
        host = world.host(cache_bytes=0)
        grown(host, 200)
        host.run_upkeep()

        assert world.versions()[1]

    def test_it_can_be_turned_off(self, world: World) -> None:
        """A process may leave rollups to others."""
        host = world.host(rollups=False)
        grown(host, 200)

        assert host.upkeep == []
        assert world.versions()[1] == []

    def test_a_short_tail_is_left(self, world: World) -> None:
        """What is not due is not written unless it is asked for."""
        host = world.host()
        grown(host, 10)
        host.sessions.roll_up(KEY)
        assert world.versions()[1] == []
        host.sessions.roll_up(KEY, force=True)
        assert world.versions()[1] == [11]

    def test_what_has_not_grown_is_not_rolled_up_again(self, world: World) -> None:
        """A rollup of the last version is enough, whoever asks again."""
        for host in (world.host(), world.host()):
            if not world.versions()[0]:
                grown(host, 10)
            for _ in range(2):
                host.sessions.roll_up(KEY, force=True)

        assert world.versions()[1] == [11]

    def test_a_dead_session_has_no_rollup(self, world: World) -> None:
        """There is nothing to read of it."""
        host = world.host()
        grown(host, 10)
        host.sessions.delete(KEY)
        host.sessions.roll_up(KEY, force=True)
        host.sessions.roll_up(OTHER, force=True)

        assert world.versions() == (list(range(1, 13)), [])

    def test_an_append_waits_for_no_rollup(self, world: World) -> None:
        """What is due is done later, and its failure is logged, not raised."""
        puts = Nth("put", holding="r.parquet")
        host = world.host(FailingStore(world.store, puts))
        grown(host, 120)
        assert puts.met == 0
        host.upkeep[0]()

        assert puts.met == 1
        assert world.versions() == (list(range(1, 122)), [])

    def test_failures_are_logged(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        """A rollup that could not be written leaves a warning that names the log."""
        host = world.host(FailingStore(world.store, Nth("put", holding="r.parquet")))
        grown(host, 3)
        with caplog.at_level(logging.WARNING, "lakestore"):
            host.sessions.roll_up(KEY, force=True)

        assert KEY.log in caplog.text
        host.sessions.roll_up(KEY, force=True)
        assert world.versions()[1] == [4]


class TestSame:
    """No answer depends on rollups."""

    def test_two_writers_of_one_rollup(self, world: World) -> None:
        """Whoever comes second takes the first one's, and both go on."""
        first, second = world.host(), world.host()
        grown(first, 5)

        def act() -> None:
            first.sessions.roll_up(KEY, force=True)

        late = world.host(InterruptedStore(world.store, Nth("put", holding="r.parquet"), act))
        late.sessions.roll_up(KEY, force=True)
        assert world.versions()[1] == [6]
        for host in (first, second, late):
            assert host.events() == [f"e{n}" for n in range(1, 6)]

    def test_a_new_life_is_all_that_its_rollup_holds(self, world: World) -> None:
        """Events of a deleted session come back through no rollup (R056)."""
        host = world.host()
        grown(host, 3)
        host.sessions.roll_up(KEY, force=True)
        host.sessions.delete(KEY)
        marker = host.append(host.create(delta={"n": 1}), said("new"))
        world.roll_up_twice_and_sweep(host, marker)

        view = world.host().sessions.load(KEY)
        assert ids(view) == ["new", "after 7"]
        assert view.state == {"n": 1}
        assert world.versions() == ([7, 8], [7, 8])

    def test_a_warm_reader_sees_no_difference(self, world: World) -> None:
        """Views that were read before, during and after a sweep go on alike."""
        writer, before = world.host(), world.host()
        grown(writer, 5)
        assert len(before.events()) == 5
        marker = writer.sessions.load(KEY).marker
        marker = world.roll_up_twice_and_sweep(writer, marker)
        during = world.host()
        assert len(during.events()) == 6
        writer.append(marker, said("last"))

        expected = [*(f"e{n}" for n in range(1, 6)), "after 6", "last"]
        for host in (before, during, writer, world.host()):
            assert host.events() == expected

    def test_a_retry_of_what_was_rolled_up_is_stale(self, world: World) -> None:
        """A re-delivery is recognised in the next commit only, not in a rollup."""
        host, other = world.host(), world.host()
        marker = host.create()
        last = other.append_each(marker, said("e1"), said("e2"))
        world.roll_up_twice_and_sweep(other, last)

        with pytest.raises(ConflictError):
            host.append(marker, said("e1"))
        assert world.host().events() == ["e1", "e2", "after 3"]


class TestSweep:
    """What lies below a rollup that is older than the grace may go."""

    def test_nothing_goes_under_the_grace(self, world: World) -> None:
        """Readers may still be reading what a young rollup covers."""
        host = world.host()
        grown(host, 3)
        host.sessions.roll_up(KEY, force=True)
        world.clock.advance(GRACE - 2)
        host.append(host.sessions.load(KEY).marker, said("e4"))
        host.sessions.roll_up(KEY, force=True)

        assert world.versions() == ([1, 2, 3, 4, 5], [4, 5])

    def test_what_an_old_rollup_covers_goes(self, world: World) -> None:
        """Its own commit stays beside it, and all above."""
        host = world.host()
        grown(host, 3)
        marker = world.roll_up_twice_and_sweep(host, host.sessions.load(KEY).marker)
        assert world.versions() == ([4, 5], [4, 5])
        world.roll_up_twice_and_sweep(host, marker)

        assert world.versions() == ([5, 6], [5, 6])
        assert world.host().events() == ["e1", "e2", "e3", "after 4", "after 5"]

    @pytest.mark.parametrize("skew", [-7_200, 7_200])
    def test_age_is_told_by_the_store(self, world: World, skew: float) -> None:
        """A sweeper whose clock is hours off sweeps neither more nor less (Q1)."""
        host = world.host(clock=SkewedClock(world.clock, skew))
        grown(host, 3)
        host.sessions.roll_up(KEY, force=True)
        marker = host.append(host.sessions.load(KEY).marker, said("e4"))
        host.sessions.roll_up(KEY, force=True)
        assert world.versions() == ([1, 2, 3, 4, 5], [4, 5])
        world.clock.advance(GRACE)
        host.append(marker, said("e5"))
        host.sessions.roll_up(KEY, force=True)

        assert world.versions() == ([5, 6], [5, 6])

    @pytest.mark.parametrize("failing", range(1, 5))
    def test_a_sweep_that_stops_harms_nothing(self, world: World, failing: int) -> None:
        """Whichever deletion fails, all reads are as before, and the next sweep does the rest."""
        host = world.host(FailingStore(world.store, Nth("delete", nth=failing)))
        grown(host, 4)
        marker = world.roll_up_twice_and_sweep(host, host.sessions.load(KEY).marker)
        assert world.versions()[0][-1] == 6

        expected = ["e1", "e2", "e3", "e4", "after 5"]
        assert world.host().events() == expected
        assert [ids(view) for view in world.host().sessions.read_all("travel", "ana")] == [expected]
        world.roll_up_twice_and_sweep(host, marker)
        assert world.versions() == ([6, 7], [6, 7])

    @pytest.mark.parametrize("gone", [[1], [2], [3], [1, 3], [2, 3], [1, 2, 3]])
    def test_deletions_may_come_in_any_order(self, world: World, gone: list[int]) -> None:
        """Nothing relies on which commits go first (S6)."""
        host = world.host()
        grown(host, 3)
        host.sessions.roll_up(KEY, force=True)
        for version in gone:
            world.store.delete(commit_key(KEY.log, version))

        assert world.host().events() == ["e1", "e2", "e3"]
        marker = world.host().sessions.load(KEY).marker
        assert marker.version == 4
        assert world.host().append(marker, said("e4")).version == 5

    def test_two_sweepers_at_once(self, world: World) -> None:
        """What one has deleted is no error for the other."""
        host = world.host()
        grown(host, 4)
        host.sessions.roll_up(KEY, force=True)
        world.clock.advance(GRACE)
        host.append(host.sessions.load(KEY).marker, said("e5"))
        other = world.host()

        def act() -> None:
            other.sessions.roll_up(KEY, force=True)

        slow = world.host(InterruptedStore(world.store, Nth("delete"), act))
        slow.sessions.roll_up(KEY, force=True)
        assert world.versions() == ([5, 6], [5, 6])
        assert world.host().events() == ["e1", "e2", "e3", "e4", "e5"]

    def test_a_rollup_that_lands_very_late_sweeps_nothing_new(self, world: World) -> None:
        """A rollup that was delayed by hours is as young as the store says."""
        host = world.host()
        grown(host, 3)

        def act() -> None:
            last = host.append(host.sessions.load(KEY).marker, said("e4"))
            world.roll_up_twice_and_sweep(host, last)

        late = world.host(InterruptedStore(world.store, Nth("put", holding="r.parquet"), act))
        late.sessions.roll_up(KEY, force=True)
        assert world.versions() == ([5, 6], [5, 6])
        assert world.host().events() == ["e1", "e2", "e3", "e4", "after 5"]
        marker = world.host().sessions.load(KEY).marker
        world.roll_up_twice_and_sweep(host, marker)
        assert world.versions() == ([6, 7], [6, 7])
