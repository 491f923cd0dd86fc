"""Stalls: a writer stands still longer than the grace, and what it takes for free was swept.

The histories of the protocol's model, each by its code, on the product's own code. A stall is what
others do between a writer's decision and the moment when its request arrives.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakestore.errors import (
    AlreadyExistsError,
    ConflictError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.log.commits import Marker
from lakestore.log.keys import commit_key
from tests.support.faulty_store import FailingStore, InterruptedStore, Nth, SlowStore
from tests.support.histories import (
    ANA,
    KEY,
    LIMIT,
    OTHER,
    Host,
    World,
    overtake,
    said,
    several,
)


def put_of(version: int) -> Nth:
    """Pick the creation of a commit."""
    return Nth("put", holding=commit_key(KEY.log, version))


def stalled(world: World, version: int, act: Callable[[], object]) -> Host:
    """Start a host whose creation of a commit stands still while others act."""
    return world.host(InterruptedStore(world.store, put_of(version), act))


class TestS1:
    """A writer stalls; others commit, roll up and sweep; its name is free again."""

    def test_a_commit_under_a_swept_name_is_not_acknowledged(self, world: World) -> None:
        """It landed where no reader looks, so its writer hears that nobody knows."""
        others = world.host()
        marker = others.append(others.create(), said("e1"))
        writer = stalled(world, 3, lambda: overtake(world, others))
        with pytest.raises(UnknownOutcomeError, match="s1"):
            writer.append(marker, said("x", {"user:lost": 1}))

        expected = ["e1", "b2", "b3", "b4", "b5", "after 6"]
        for host in (writer, others, world.host()):
            assert host.events() == expected
        assert world.host().state() == {}
        assert world.entries() == []

    def test_its_retry_is_stale(self, world: World) -> None:
        """The event is not in the log, and others are: the caller has to reload."""
        others = world.host()
        marker = others.append(others.create(), said("e1"))
        writer = stalled(world, 3, lambda: overtake(world, others))
        with pytest.raises(UnknownOutcomeError):
            writer.append(marker, said("x"))
        for host in (writer, world.host()):
            with pytest.raises(ConflictError):
                host.append(marker, said("x"))
            with pytest.raises(ConflictError):
                host.append(Marker(marker.version, marker.token, None), said("x"))
        marker = writer.sessions.load(KEY).marker
        writer.append(marker, said("x"))

        assert world.host().events()[-1] == "x"
        assert world.host().events().count("x") == 1

    def test_the_stray_goes_with_the_next_sweep(self, world: World) -> None:
        """What landed below a rollup is swept like all there."""
        others = world.host()
        marker = others.append(others.create(), said("e1"))
        writer = stalled(world, 3, lambda: overtake(world, others))
        with pytest.raises(UnknownOutcomeError):
            writer.append(marker, said("x"))
        assert 3 in world.versions()[0]
        world.roll_up_twice_and_sweep(others, others.sessions.load(KEY).marker)

        assert 3 not in world.versions()[0]

    def test_a_list_does_not_show_the_stray(self, world: World) -> None:
        """Neither does a list of sessions, nor one that read them all before."""
        others, reader = world.host(), world.host()
        marker = others.append(others.create(), said("e1"))
        assert len([*reader.sessions.read_all("travel", "ana")]) == 1
        writer = stalled(world, 3, lambda: overtake(world, others))
        with pytest.raises(UnknownOutcomeError):
            writer.append(marker, said("x"))
        for host in (reader, world.host()):
            (view,) = host.sessions.read_all("travel", "ana")
            assert len(view.events()) == 6


class TestS4:
    """Strays must not be taken for predecessors, or for one's own."""

    def test_two_stalled_writers_one_upon_the_other(self, world: World) -> None:
        """A stray in the place of the second writer's predecessor makes nothing true."""
        others = world.host()
        created = others.create()
        predecessor = others.append(created, said("b1"))

        def first_writer() -> None:
            writer = stalled(world, 2, lambda: overtake(world, others))
            with pytest.raises(UnknownOutcomeError):
                writer.append(created, said("x"))

        second = stalled(world, 3, first_writer)
        with pytest.raises(UnknownOutcomeError):
            second.append(predecessor, said("y"))

        assert not {"x", "y"} & set(world.host().events())

    def test_an_equal_event_in_a_stray_is_not_stored(self, world: World) -> None:
        """Two writers deliver one event, both stall: neither may say that it is stored."""
        others = world.host()
        marker = others.create()
        event = said("x", {"user:lost": 1})

        def other_delivery() -> None:
            writer = stalled(world, 2, lambda: overtake(world, others))
            with pytest.raises(UnknownOutcomeError):
                writer.append(marker, event)

        writer = stalled(world, 2, other_delivery)
        with pytest.raises((UnknownOutcomeError, ConflictError)):
            writer.append(marker, event)

        assert "x" not in world.host().events()

    def test_the_shared_state_of_a_stray_is_not_completed(self, world: World) -> None:
        """A commit that no reader sees sets no shared state, whoever comes upon it."""
        others = world.host()
        marker = others.create()

        def other_writer() -> None:
            writer = stalled(world, 2, lambda: overtake(world, others))
            with pytest.raises(UnknownOutcomeError):
                writer.append(marker, said("x", {"user:lost": 1}))

        writer = stalled(world, 2, other_writer)
        with pytest.raises((ConflictError, UnknownOutcomeError)):
            writer.append(marker, said("y"))

        assert "x" not in world.host().events()
        assert world.host().state() == {}


class TestS5:
    """A create is confirmed like any other commit."""

    @pytest.mark.parametrize("look", [True, False])
    def test_a_create_under_a_swept_name(self, world: World, look: bool) -> None:
        """Version 1 is free because it was swept: the session is somebody else's."""
        others = world.host()

        def act() -> None:
            others.create(delta={"by": "others", "user:k": "others"})
            overtake(world, others)

        writer = stalled(world, 1, act)
        with pytest.raises((UnknownOutcomeError, AlreadyExistsError)):
            writer.create(delta={"by": "writer", "user:k": "writer"}, look=look)

        found = world.host().sessions.read(KEY)
        assert found is not None
        assert found[0].state == {"by": "others"}
        assert found[1][ANA].values() == {"k": "others"}

    def test_a_create_after_a_delete(self, world: World) -> None:
        """So is one that follows the end of a former life."""
        others = world.host()
        others.create()
        others.sessions.delete(KEY)

        def act() -> None:
            others.create(delta={"by": "others"})
            overtake(world, others)

        writer = stalled(world, 3, act)
        with pytest.raises((UnknownOutcomeError, AlreadyExistsError)):
            writer.create(delta={"by": "writer"})

        assert world.host().sessions.load(KEY).state == {"by": "others"}

    def test_a_look_that_is_old_is_done_again(self, world: World) -> None:
        """Who finds nothing, and stalls before creating, has a session if nobody came."""
        writer = stalled(world, 1, lambda: world.clock.advance(LIMIT))
        marker = writer.create(delta={"k": 1})

        assert marker.version == 1
        assert world.host().sessions.load(KEY).state == {"k": 1}
        assert writer.metrics.requests["LIST"] == 2 * 2


class TestDelete:
    """Deleting obeys the same rule."""

    def test_a_delete_under_a_swept_name(self, world: World) -> None:
        """It did not end what others went on with, and does not say so."""
        others = world.host()
        others.append(others.create(), said("e1"))
        writer = stalled(world, 3, lambda: overtake(world, others))
        with pytest.raises(UnknownOutcomeError):
            writer.sessions.delete(KEY)

        assert world.host().events() == ["e1", "b2", "b3", "b4", "b5", "after 6"]

    # S8
    def test_a_writer_of_a_former_life(self, world: World) -> None:
        """A commit for a session that was deleted and begun again is not acknowledged."""
        others = world.host()
        marker = others.append(others.create(), said("old"))

        def act() -> None:
            others.sessions.delete(KEY)
            others.create(delta={"life": 2})
            overtake(world, others)

        writer = stalled(world, 3, act)
        with pytest.raises(UnknownOutcomeError):
            writer.append(marker, said("x"))

        assert "x" not in world.host().events()
        assert world.host().sessions.load(KEY).state == {"life": 2}


class TestSlowCommit:
    """A commit that took longer than the limit, and still stands."""

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_it_is_confirmed_by_a_load(self, world: World, when: str) -> None:
        """Readers see it, so it is acknowledged; its shared state too."""
        first = world.host()
        marker = first.append(first.create(), said("e1"))
        times = {when: LIMIT}
        writer = world.host(SlowStore(world.store, put_of(3), world.clock, **times))
        marker = writer.append(marker, said("x", {"user:k": 1}))

        assert marker.version == 3
        assert writer.metrics.requests["LIST"] == 2  # log and manifests
        assert world.host().events() == ["e1", "x"]
        assert world.host().state() == {"k": 1}

    def test_it_is_confirmed_under_later_commits(self, world: World) -> None:
        """Also when others have gone on from it, and when it lies in a rollup by then."""
        for roll_up in (False, True):
            key = OTHER if roll_up else KEY
            first = world.host()
            marker = first.append(first.create(key), said("e1"), key=key)

            def act(key: object = key, roll_up: bool = roll_up) -> None:
                assert key in (KEY, OTHER)
                there = KEY if key == KEY else OTHER
                other = world.host()
                other.append(other.sessions.load(there).marker, said("next"), key=there)
                if roll_up:
                    other.sessions.roll_up(there, force=True)
                world.clock.advance(LIMIT)

            nth = Nth("put", holding=commit_key(key.log, 3))
            writer = world.host(InterruptedStore(world.store, nth, act, when="after"))
            marker = writer.append(marker, said("x"), key=key)
            with pytest.raises(ConflictError):
                writer.append(marker, said("y"), key=key)
            assert world.host().events(key) == ["e1", "x", "next"]

    def test_an_unconfirmed_commit_is_not_acknowledged(self, world: World) -> None:
        """When the load fails, so does the append; its retry finds it."""
        first = world.host()
        marker = first.append(first.create(), said("e1"))
        slow = SlowStore(world.store, put_of(3), world.clock, after=LIMIT)
        writer = world.host(FailingStore(slow, Nth("list")))
        with pytest.raises(StorageError):
            writer.append(marker, said("x", {"user:k": 1}))
        assert writer.append(marker, said("x", {"user:k": 1})).version == 3

        assert world.host().events() == ["e1", "x"]
        assert world.host().state() == {"k": 1}

    def test_the_age_of_the_marker_is_part_of_it(self, world: World) -> None:
        """A quick commit on a marker that grows old meanwhile is confirmed too."""
        host = world.host()
        marker = host.append(host.create(), said("e1"))
        world.clock.advance(LIMIT - 2)
        writer = world.host(SlowStore(world.store, put_of(3), world.clock, before=2))
        writer.append(marker, said("x"))

        assert writer.metrics.requests == {"PUT": 1, "LIST": 2, "GET": 3}

    def test_what_it_returns_is_as_old_as_its_start(self, world: World) -> None:
        """The next append confirms before it decides."""
        first = world.host()
        marker = first.append(first.create(), said("e1"))
        writer = world.host(SlowStore(world.store, put_of(3), world.clock, after=LIMIT))
        marker = writer.append(marker, said("x"))
        lists = writer.metrics.requests["LIST"]
        writer.append(marker, said("y"))

        assert writer.metrics.requests["LIST"] == lists + 1
        assert world.host().events() == ["e1", "x", "y"]


def test_a_reader_that_stalls_begins_again(world: World) -> None:
    """A listing from before a sweep is not put together with reads from after it (S2)."""
    others = world.host()
    others.append_each(others.create(), *several(3))
    for kind in ("list", "get"):
        nth = Nth("list" if kind == "list" else "get")
        store = InterruptedStore(world.store, nth, lambda: overtake(world, others), when="after")
        events = world.host(store).events()
        assert events == world.host().events()


def test_a_slow_commit_that_cannot_be_confirmed(world: World) -> None:
    """It stands: its writer hears that nobody knows, not that nothing was stored."""
    marker = world.host().create()
    slow = SlowStore(world.store, put_of(2), world.clock, after=LIMIT)
    writer = world.host(FailingStore(slow, Nth("list", holding=KEY.log)))
    with pytest.raises(UnknownOutcomeError):
        writer.append(marker, said("x"))
    assert world.host().events() == ["x"]
