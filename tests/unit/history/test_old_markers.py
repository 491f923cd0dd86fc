"""Old markers: what a caller knows is confirmed before it is built on when it is past its age."""

from __future__ import annotations

import pytest

from lakestore.errors import ConflictError, NotFoundError
from lakestore.log.commits import Marker
from tests.support.histories import GRACE, KEY, LIMIT, World, overtake, said


class TestOldMarker:
    """A marker older than the limit is confirmed before it is built on."""

    @pytest.mark.parametrize("age", [1.0, 299.0])
    def test_a_young_one_is_not(self, world: World, age: float) -> None:
        """Up to the limit an append reads nothing."""
        host = world.host()
        marker = host.append(host.create(), said("e1"))
        world.clock.advance(age)
        host.append(marker, said("e2"))

        assert set(host.metrics.requests) == {"PUT", "LIST"}
        assert host.metrics.requests["LIST"] == 2  # by `create`

    @pytest.mark.parametrize("age", [LIMIT, GRACE, 100 * GRACE])
    def test_an_old_one_is_confirmed(self, world: World, age: float) -> None:
        """When nothing has happened, the append goes through after one load: log and manifests."""
        host = world.host()
        marker = host.append(host.create(), said("e1"))
        world.clock.advance(age)
        lists = host.metrics.requests["LIST"]

        assert host.append(marker, said("e2")).version == 3
        assert host.metrics.requests["LIST"] == lists + 2

    def test_an_old_one_is_stale_after_a_sweep(self, world: World) -> None:
        """The name after it is free, and it is stale all the same."""
        host, others = world.host(), world.host()
        marker = host.append(host.create(), said("e1"))
        overtake(world, others)
        assert marker.version + 1 not in world.versions()[0]
        with pytest.raises(ConflictError):
            host.append(marker, said("x"))

        assert "x" not in world.host().events()

    @pytest.mark.parametrize("event", ["e2", "y"])
    def test_a_marker_is_version_and_token(self, world: World, event: str) -> None:
        """A handle on another commit of the same number is stale, whatever it brings (S4)."""
        host = world.host()
        last = host.append_each(host.create(), said("e1"), said("e2"))
        for version in (last.version - 1, last.version):
            with pytest.raises(ConflictError):
                world.host().append(Marker(version, "ff", None), said(event))

        assert world.host().events() == ["e1", "e2"]

    def test_an_old_one_of_a_deleted_session(self, world: World) -> None:
        """The session is gone, and that is what is said."""
        host, others = world.host(), world.host()
        marker = host.append(host.create(), said("e1"))
        others.sessions.delete(KEY)
        world.clock.advance(GRACE)
        with pytest.raises(NotFoundError):
            host.append(marker, said("x"))

    def test_a_clock_that_jumps_makes_nothing_old(self, world: World) -> None:
        """Age is elapsed time; the wall clock may be set."""
        host = world.host()
        marker = host.append(host.create(), said("e1"))
        world.clock.jump(100 * GRACE)
        marker = host.append(marker, said("e2"))
        world.clock.jump(-200 * GRACE)
        host.append(marker, said("e3"))

        assert host.metrics.requests["LIST"] == 2  # by `create`

    def test_reading_a_commit_confirms_nothing(self, world: World) -> None:
        """A second delivery that was recognised leaves the marker as old as it was."""
        host, other = world.host(), world.host()
        created = host.create()
        other.append(created, said("x"))
        world.clock.advance(LIMIT - 2)
        marker = host.append(created, said("x"))
        assert marker.seen == created.seen
        world.clock.advance(2)
        lists = host.metrics.requests["LIST"]
        host.append(marker, said("y"))

        assert host.metrics.requests["LIST"] == lists + 2
