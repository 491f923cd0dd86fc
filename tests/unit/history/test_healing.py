"""Healing: a writer stops between commit and entries, and whoever builds on it puts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakestore.errors import AlreadyExistsError, ConflictError, StorageError, UnknownOutcomeError
from lakestore.log.commits import Marker
from lakestore.log.keys import commit_key
from lakestore.tables import events
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth
from tests.support.histories import ANA, APP, KEY, LIMIT, OTHER, Host, World, said

DELTA = {"user:u": 1, "app:a": 2, "k": 3}
EVENT = said("e1", DELTA)


def crash_after_commit(world: World, *, first: int = 1) -> Marker:
    """Let a host commit EVENT and stop before its entries; return what it knew before."""
    entries = Nth("put", nth=first, times=9, holding="state/entries")
    host = world.host(FailingStore(world.store, entries))
    marker = host.create()
    with pytest.raises(StorageError):
        host.append(marker, EVENT)
    assert world.versions() == ([1, 2], [])
    return marker


def stamp_of(world: World, version: int = 2) -> str:
    """Return the stamp of a commit."""
    stamp = events.decode(world.store.get(commit_key(KEY.log, version)))[0].stamp
    assert stamp
    return stamp


def load(host: Host, _: Marker) -> None:
    """Load."""
    host.sessions.load(KEY)


def read(host: Host, _: Marker) -> None:
    """Read, with the shared state."""
    found = host.sessions.read(KEY)
    assert found is not None
    assert {scope: fold.values() for scope, fold in found[1].items()} == {
        ANA: {"u": 1},
        APP: {"a": 2},
    }


def retry(host: Host, marker: Marker) -> None:
    """Append the same event again through the same marker."""
    assert host.append(marker, EVENT).version == 2


def append_something_else(host: Host, marker: Marker) -> None:
    """Append another event through the same marker."""
    with pytest.raises(ConflictError):
        host.append(marker, said("e2"))


def append_with_an_old_marker(host: Host, marker: Marker) -> None:
    """Append the same event through a marker that nobody remembers."""
    host.append(Marker(marker.version, marker.token, None), EVENT)


def append_on_top(host: Host, _: Marker) -> None:
    """Load and append another event."""
    host.append(host.sessions.load(KEY).marker, said("e2"))


def delete(host: Host, _: Marker) -> None:
    """Delete."""
    host.sessions.delete(KEY)


def create(host: Host, _: Marker) -> None:
    """Create, with a look before."""
    with pytest.raises(AlreadyExistsError):
        host.create()


def create_without_looking(host: Host, _: Marker) -> None:
    """Create, finding the name taken."""
    with pytest.raises(AlreadyExistsError):
        host.create(look=False)


def roll_up(host: Host, _: Marker) -> None:
    """Write a rollup."""
    host.sessions.roll_up(KEY, force=True)
    assert host.metrics.requests["PUT"] == 3


def take_up_by_hand(host: Host, _: Marker) -> None:
    """Find the marker for a handle that knows only its last event."""
    assert host.sessions.marker_at(KEY, "e1").version == 2


READERS = [
    load,
    read,
    retry,
    append_something_else,
    append_with_an_old_marker,
    append_on_top,
    delete,
    create,
    create_without_looking,
    roll_up,
    take_up_by_hand,
]
of_each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)


# S9, S11, H1, H2, H3
@of_each_reader
@pytest.mark.parametrize("first", [1, 2], ids=["both missing", "one missing"])
def test_every_reader_of_the_last_commit_puts_what_is_missing(
    world: World, reader: Callable[[Host, Marker], None], first: int
) -> None:
    """Whoever reads the last commit completes it, under the commit's own stamp."""
    marker = crash_after_commit(world, first=first)
    reader(world.host(), marker)

    for scope in (ANA, APP):
        assert [entry.stamp for entry in world.entries(scope)] == [stamp_of(world)]
    cold = world.host()
    assert (cold.state(ANA), cold.state(APP)) == ({"u": 1}, {"a": 2})


@of_each_reader
def test_healing_brings_nothing_old_back(
    world: World, reader: Callable[[Host, Marker], None]
) -> None:
    """What was set later stays, since the entries come under the stamp of their commit."""
    marker = crash_after_commit(world)
    world.clock.advance(1)
    other = world.host()
    other.append(other.create(OTHER), said("e9", {"user:u": "later"}), key=OTHER)
    if reader is read:
        assert world.host().sessions.read(KEY) is not None
    else:
        reader(world.host(), marker)

    assert world.host().state(ANA) == {"u": "later"}
    assert world.host().state(APP) == {"a": 2}


@of_each_reader
def test_a_warm_reader_heals_too(world: World, reader: Callable[[Host, Marker], None]) -> None:
    """A host that has cached session and state before the crash finds what is missing."""
    entries = Nth("put", times=9, holding="state/entries")
    writer, warm = world.host(FailingStore(world.store, entries)), world.host()
    marker = writer.create()
    warm.events()
    puts = warm.metrics.requests.get("PUT", 0)
    with pytest.raises(StorageError):
        writer.append(marker, EVENT)
    if reader is roll_up:
        warm.sessions.roll_up(KEY, force=True)
    else:
        reader(warm, marker)

    assert puts == 0
    for scope in (ANA, APP):
        assert [entry.stamp for entry in world.entries(scope)] == [stamp_of(world)]


def test_reading_only_heals_in_memory(world: World) -> None:
    """A lake opened for reading shows the right state and writes nothing."""
    crash_after_commit(world)
    host = world.host(writable=False)
    read(host, Marker(0, "", None))

    assert host.metrics.requests.get("PUT", 0) == 0
    assert world.entries() == world.entries(APP) == []


def test_nothing_is_put_where_nothing_is_missing(world: World) -> None:
    """Reading a whole session costs no write."""
    writer, reader = world.host(), world.host()
    writer.append(writer.create(), EVENT)
    read(reader, Marker(0, "", None))

    assert reader.metrics.requests.get("PUT", 0) == 0


def test_what_was_overtaken_is_not_put(world: World) -> None:
    """An entry whose every key has a later value by now is needed no more."""
    crash_after_commit(world)
    world.clock.advance(1)
    other = world.host()
    other.append(other.create(OTHER), said("e9", {"user:u": 8, "app:a": 9}), key=OTHER)
    host = world.host()
    assert host.sessions.read(KEY) is not None

    assert host.metrics.requests.get("PUT", 0) == 0
    assert (host.state(ANA), host.state(APP)) == ({"u": 8}, {"a": 9})


def test_a_create_row_is_healed(world: World) -> None:
    """The initial state of a session is completed like the state of an event."""
    host = world.host(FailingStore(world.store, Nth("put", times=9, holding="state/entries")))
    with pytest.raises(StorageError):
        host.create(delta=DELTA)
    world.host().sessions.load(KEY)

    assert (world.host().state(ANA), world.host().state(APP)) == ({"u": 1}, {"a": 2})


def test_a_failed_healing_is_no_success(world: World) -> None:
    """Nobody is told that a retry is stored while its entries are missing (S9)."""
    marker = crash_after_commit(world)
    entries = Nth("put", nth=2, times=2, holding="state/entries")
    host = world.host(FailingStore(world.store, entries))
    with pytest.raises(StorageError):
        host.append(marker, EVENT)
    with pytest.raises(StorageError):
        host.append(marker, EVENT)
    assert host.append(marker, EVENT).version == 2

    assert world.versions() == ([1, 2], [])
    assert (world.host().state(ANA), world.host().state(APP)) == ({"u": 1}, {"a": 2})


# S10
def test_the_next_event_does_not_pass_over_missing_entries(world: World) -> None:
    """After a failed append another event is stale: the caller's marker has not moved."""
    entries = Nth("put", times=1, holding="state/entries")
    host = world.host(FailingStore(world.store, entries))
    marker = host.create()
    with pytest.raises(StorageError):
        host.append(marker, EVENT)
    with pytest.raises(ConflictError):
        host.append(marker, said("e2", {"user:j": 1}))

    assert world.versions() == ([1, 2], [])
    assert world.host().state(ANA) == {"u": 1}
    assert host.append(host.sessions.load(KEY).marker, said("e2")).version == 3


def test_an_entry_of_unknown_outcome_is_no_success(world: World) -> None:
    """The append fails if it stays so, and its retry is complete and stored once."""
    lost = Nth("put", holding="state/entries", times=4)
    host = world.host(LostReplyStore(world.store, lost, "dropped"))
    marker = host.create()
    with pytest.raises(UnknownOutcomeError):
        host.append(marker, EVENT)
    assert host.append(marker, EVENT).version == 2

    assert host.events() == ["e1"]
    assert (world.host().state(ANA), world.host().state(APP)) == ({"u": 1}, {"a": 2})


def test_only_the_last_commit_is_looked_at(world: World) -> None:
    """What stands under a later commit was completed by whoever put that one."""
    writer = world.host()
    marker = writer.append(writer.create(), EVENT)
    writer.append(marker, said("e2"))
    puts = Nth("put", times=99)
    reader = world.host(FailingStore(world.store, puts))
    reader.sessions.load(KEY)

    assert puts.met == 0


def test_an_old_lost_entry_is_not_missed(world: World) -> None:
    """A crash long ago is healed by who reads now, as if it were fresh."""
    crash_after_commit(world)
    world.clock.advance(100 * LIMIT)
    read(world.host(), Marker(0, "", None))

    assert world.host().state(APP) == {"a": 2}
