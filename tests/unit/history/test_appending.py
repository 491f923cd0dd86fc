"""Appending: one request, what a refusal means, and what counts as a second delivery."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Barrier
from typing import Literal

import pytest

from lakestore.errors import (
    AlreadyExistsError,
    ConflictError,
    LakeError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.log.commits import Marker
from lakestore.tables.events import event_id
from tests.support.faulty_store import (
    BarrierStore,
    FailingStore,
    LateStore,
    LostReplyStore,
    Nth,
)
from tests.support.histories import ANA, GRACE, KEY, LIMIT, Host, World, ids, said, several
from tests.support.racing import in_threads


def test_an_append_is_one_request(world: World) -> None:
    """Nothing is read to append after a commit that one knows."""
    host = world.host()
    marker = host.create()
    before = host.metrics.requests
    marker = host.append(marker, *several(10))
    host.append(marker, said("e11"))

    assert host.metrics.requests == before | {"PUT": before["PUT"] + 2}
    assert host.events() == [f"e{n}" for n in range(1, 12)]


def test_a_generated_id_is_created_without_a_look(world: World) -> None:
    """An id that was drawn at random costs one PUT, a given one LIST of log and manifests first."""
    host = world.host()
    host.create(look=False)
    assert host.metrics.requests == {"PUT": 1}
    host.create(key=KEY.__class__("travel", "ana", "given"))
    assert host.metrics.requests == {"PUT": 2, "LIST": 2}


def test_a_stale_marker_is_refused(world: World) -> None:
    """Of two handles with one marker the second is stale, and wrote nothing (R005)."""
    first, second = world.host(), world.host()
    marker = first.create()
    first.append(marker, said("e1", {"user:k": 1}))
    for _ in range(2):
        with pytest.raises(ConflictError, match="s1"):
            second.append(marker, said("e2", {"user:k": 2}))

    assert world.host().events() == ["e1"]
    assert world.host().state() == {"k": 1}
    assert second.metrics.conflicts == 2


def test_only_one_of_many_writers_wins(world: World) -> None:
    """Of threads that append to one marker at once one succeeds and the others are stale."""
    marker = world.host().create()
    store = BarrierStore(world.store, "put", Barrier(6, timeout=30))

    def append(number: int) -> str:
        try:
            world.host(store).append(marker, said(f"e{number}"))
        except ConflictError:
            return "stale"
        return f"e{number}"

    results = in_threads([partial(append, number) for number in range(6)])
    assert sorted(results)[-5:] == ["stale"] * 5
    assert world.host().events() == [min(results)]


# R032
def test_only_one_of_many_creators_wins(world: World) -> None:
    """Of threads that create one id at once one succeeds, and the others hear that it exists."""
    store = BarrierStore(world.store, "put", Barrier(6, timeout=30))

    def create(number: int) -> str:
        try:
            world.host(store).create(delta={"by": number})
        except AlreadyExistsError:
            return "exists"
        return str(number)

    results = in_threads([partial(create, number) for number in range(6)])
    assert results.count("exists") == 5
    assert world.host().sessions.load(KEY).state == {"by": int(min(results))}


class TestDeleted:
    """A session that was deleted takes nothing, also when its id lives again (R056)."""

    @pytest.mark.parametrize("again", [False, True])
    @pytest.mark.parametrize("remembered", [False, True])
    def test_a_handle_on_a_deleted_session(
        self, world: World, again: bool, remembered: bool
    ) -> None:
        """An append through it finds no session, or at least not its own."""
        host, other = world.host(), world.host()
        marker = host.append(host.create(), said("e1"))
        other.sessions.delete(KEY)
        if again:
            other.append(other.create(), said("new"))
        if not remembered:
            marker = Marker(marker.version, marker.token, None)
        with pytest.raises((NotFoundError, ConflictError)):
            host.append(marker, said("e2"))

        assert world.host().events() == (["new"] if again else [])

    def test_deleting_twice_is_no_error(self, world: World) -> None:
        """Nothing happens where nothing is, and nothing is written."""
        host = world.host()
        host.sessions.delete(KEY)
        host.create()
        host.sessions.delete(KEY)
        host.sessions.delete(KEY)

        assert world.versions() == ([1, 2], [])

    def test_a_delete_meets_an_append(self, world: World) -> None:
        """A delete that another commit came before looks again, and ends what it finds."""
        host, other = world.host(), world.host()
        marker = host.create()
        lost = world.host(FailingStore(world.store, Nth("put", nth=99)))
        other.append(marker, said("e1"))
        lost.sessions.delete(KEY)

        assert world.versions() == ([1, 2, 3], [])
        assert world.host().sessions.read(KEY) is None

    def test_appending_to_nothing(self, world: World) -> None:
        """A marker of a session that never was finds none."""
        with pytest.raises(NotFoundError):
            world.host().append(Marker(3, "ff", None), said("e1"))
        with pytest.raises(NotFoundError):
            world.host().sessions.marker_at(KEY, None)


class TestRedelivery:
    """An event that stands in the very next commit counts as the caller's own (R044)."""

    def test_an_equal_event_is_accepted_once(self, world: World) -> None:
        """The same id with the same content, whatever its JSON looks like, is stored once."""
        host, other = world.host(), world.host()
        marker = host.create()
        there = other.append(marker, said("e1", {"user:k": 1}, x=1, y=2))
        marker = host.append(marker, said("e1", {"user:k": 1}, y=2, x=1))

        assert (marker.version, marker.token) == (there.version, there.token)
        assert host.append(marker, said("e2")).version == 3
        assert world.host().events() == ["e1", "e2"]
        assert len(world.entries()) == 1

    @pytest.mark.parametrize("event", [said("e2"), said("e1", x=2), said("e1", {"k": 1})])
    def test_another_event_is_not(self, world: World, event: object) -> None:
        """Another id, or another content under the same id, is somebody else's."""
        host, other = world.host(), world.host()
        marker = host.create()
        other.append(marker, said("e1"))

        assert isinstance(event, type(said("")))
        with pytest.raises(ConflictError):
            host.append(marker, event)

    def test_what_remains_of_a_batch_is_appended(self, world: World) -> None:
        """Of several events those that stand there are taken over, and the others follow."""
        host, other = world.host(), world.host()
        marker = host.create()
        other.append(marker, said("e1"), said("e2"))
        assert host.append(marker, *several(0), said("e1"), said("e2"), said("e3")).version == 3

        assert world.host().events() == ["e1", "e2", "e3"]

    # D1
    @pytest.mark.parametrize("parts", [[1, 2], [12], [21], [2, 1], [123]])
    def test_a_batch_of_unknown_outcome_is_never_doubled(
        self, world: World, parts: list[int]
    ) -> None:
        """However a batch is retried, in parts or as a whole, each event is stored once."""
        lost = LostReplyStore(world.store, Nth("put", nth=2), "landed")
        host = world.host(FailingStore(lost, Nth("get")))
        marker = host.create()
        with pytest.raises(UnknownOutcomeError):
            host.append(marker, said("e1"), said("e2"))
        known: set[str | None] = set()
        for part in parts:
            names = [f"e{digit}" for digit in str(part)]
            # As the service does it, which shows its caller all that was found.
            events = [said(name) for name in names if name not in known]
            landed = host.sessions.append(KEY, marker, events)
            marker = landed.marker
            known |= {*names, *map(event_id, landed.found)}

        stored = world.host().events()
        assert stored == (["e1", "e2", "e3"] if parts == [123] else ["e1", "e2"])
        last = host.sessions.load(KEY).marker
        assert host.append(last, said("e9")).version == last.version + 1

    # D2
    @pytest.mark.parametrize("remembered", [False, True])
    def test_only_the_next_commit_is_compared(self, world: World, remembered: bool) -> None:
        """An event that stands above a commit which the handle never saw makes it stale."""
        host, other = world.host(), world.host()
        marker = host.create()
        other.append_each(marker, said("f"), said("x"))
        if not remembered:
            marker = Marker(marker.version, marker.token, None)
        for event in ("x", "y"):
            with pytest.raises(ConflictError):
                host.append(marker, said(event))

        assert world.host().events() == ["f", "x"]

    def test_a_second_delivery_under_later_commits(self, world: World) -> None:
        """It is accepted, and the handle is then stale, since others went on."""
        host, other = world.host(), world.host()
        marker = host.create()
        other.append_each(marker, said("x"), said("f"))
        marker = host.append(marker, said("x"))
        with pytest.raises(ConflictError):
            host.append(marker, said("y"))

        assert world.host().events() == ["x", "f"]

    def test_a_restarted_process_retries(self, world: World) -> None:
        """A marker that came through a restart is confirmed, and its event recognised."""
        marker = world.host().append(world.host().create(), said("e0"))
        world.host().append(marker, said("e1", {"user:k": 1}))
        world.clock.advance(GRACE)
        again = world.host().append(
            Marker(marker.version, marker.token, None), said("e1", {"user:k": 1})
        )

        assert again.version == 3
        assert world.host().events() == ["e0", "e1"]


class TestLostReplies:
    """What the client does not hear, it finds out."""

    @pytest.mark.parametrize("outcome", ["landed", "resent", "dropped"])
    @pytest.mark.parametrize("what", ["create", "append", "delete"])
    def test_a_lost_reply_is_no_failure(
        self, world: World, what: str, outcome: Literal["landed", "resent", "dropped"]
    ) -> None:
        """The commit stands once, and the caller hears that it does (R016)."""
        nth = {"create": 1, "append": 2, "delete": 3}[what]
        host = world.host(LostReplyStore(world.store, Nth("put", nth=nth), outcome))
        marker = host.append(host.create(delta={"k": 1}), said("e1"))
        assert marker.version == 2
        assert ids(world.host().sessions.load(KEY)) == ["e1"]
        host.sessions.delete(KEY)

        assert world.versions() == ([1, 2, 3], [])
        assert world.host().sessions.read(KEY) is None

    def test_what_lands_after_all_hope_was_lost(self, world: World) -> None:
        """A commit that arrives after its writer gave up is recognised by the retry."""
        late = LateStore(world.store, Nth("put", nth=2, times=4))
        host = world.host(late)
        marker = host.create()
        with pytest.raises(UnknownOutcomeError):
            host.append(marker, said("e1", {"user:k": 1}))
        assert late.release() == [True, False, False, False]
        assert host.append(marker, said("e1", {"user:k": 1})).version == 2

        assert world.host().events() == ["e1"]
        assert world.host().state() == {"k": 1}

    def test_what_lands_after_the_retry(self, world: World) -> None:
        """Requests on their way that arrive after the retry was stored are refused."""
        late = LateStore(world.store, Nth("put", nth=2, times=4))
        host = world.host(late)
        marker = host.create()
        with pytest.raises(UnknownOutcomeError):
            host.append(marker, said("e1"))
        assert host.append(marker, said("e1")).version == 2
        assert late.release() == [False] * 4

        assert world.host().events() == ["e1"]

    @pytest.mark.parametrize("nth", range(2, 5))
    def test_a_failed_append_can_be_repeated(self, world: World, nth: int) -> None:
        """Whichever of its three writes fails, the same append succeeds the next time (R043)."""
        host = world.host(FailingStore(world.store, Nth("put", nth=nth)))
        marker = host.create()
        event = said("e1", {"user:k": 1, "app:k": 2})
        with pytest.raises(StorageError):
            host.append(marker, event)
        assert host.append(marker, event).version == 2

        assert world.host().events() == ["e1"]
        assert world.host().state(ANA) == {"k": 1}


class TestMarkerByHand:
    """A handle without a marker is current when it ends as the stored session does."""

    def test_the_last_event_decides(self, world: World) -> None:
        """Its id is compared; None says that there is no event."""
        host = world.host()
        created = host.create()
        assert host.sessions.marker_at(KEY, None) == created
        marker = host.append_each(created, said("e1"), said("e2"))

        assert world.host().sessions.marker_at(KEY, "e2").token == marker.token
        for last in (None, "e1", "e3", ""):
            with pytest.raises(ConflictError):
                world.host().sessions.marker_at(KEY, last)

    def test_it_is_found_in_a_rollup(self, world: World) -> None:
        """Also when the last event lies in one."""
        host = world.host()
        host.append_each(host.create(), *several(3))
        host.sessions.roll_up(KEY, force=True)

        assert world.host().sessions.marker_at(KEY, "e3").version == 4


@pytest.mark.parametrize("wait", [0.0, LIMIT, GRACE])
def test_every_error_is_ours(world: World, wait: float) -> None:
    """Whatever goes wrong while nothing can be stored or read is a LakeError."""
    writer = world.host()
    marker = writer.append(writer.create(), said("e1"))
    world.clock.advance(wait)

    def broken(kind: Literal["put", "get", "list"]) -> Host:
        return world.host(FailingStore(world.store, Nth(kind, times=99)))

    calls: list[Callable[[], object]] = [
        lambda: broken("put").append(marker, said("e2")),
        lambda: broken("list").sessions.load(KEY),
        lambda: broken("get").events(),
        lambda: broken("put").create(look=False),
        lambda: broken("list").create(),
        lambda: broken("put").sessions.delete(KEY),
        lambda: broken("list").state(),
    ]
    for call in calls:
        with pytest.raises(LakeError):
            call()
    assert world.host().events() == ["e1"]
