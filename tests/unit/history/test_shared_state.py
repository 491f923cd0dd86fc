"""Shared state: the fold of all entries, whatever their order, repetition and delay."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import NotFoundError, StorageError
from lakestore.log.keys import Scope, SessionKey, entry_key
from lakestore.log.stamps import stamp_text
from lakestore.tables import state
from lakestore.tables.state import StateRow
from tests.support.clocks import SkewedClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Nth, SlowStore
from tests.support.histories import ANA, APP, KEY, LIMIT, OTHER, World, said

BEN = SessionKey("travel", "ben", "s1")


def entry(
    micros: int, values: dict[str, Any], token: str = "00000000000000ff"
) -> tuple[str, bytes]:
    """Return the stamp and bytes of an entry of ANA's scope."""
    stamp = stamp_text(micros, 0, token)
    rows = [
        StateRow("travel", "ana", key, str(value), stamp, "s", "ana", 1)
        for key, value in values.items()
    ]
    return stamp, state.encode(rows)


class TestFold:
    """Per key the latest stamp counts."""

    def test_an_event_sets_what_others_read(self, world: World) -> None:
        """User keys are the user's in all sessions, app keys everyone's (R106)."""
        host = world.host()
        host.append(host.create(), said("e1", {"user:u": 1, "app:a": 2, "k": 3}))

        other = world.host()
        assert other.state(ANA) == {"u": 1}
        assert other.state(APP) == {"a": 2}
        assert other.state(Scope("travel", "ben")) == {}
        assert other.state(Scope("travels", None)) == {}

    def test_a_create_row_sets_it_too(self, world: World) -> None:
        """So does the initial state of a session."""
        world.host().create(delta={"user:u": None, "app:a": [1], "k": 3})

        assert world.host().state(ANA) == {"u": None}
        assert world.host().state(APP) == {"a": [1]}

    def test_the_last_of_one_commit_counts(self, world: World) -> None:
        """Of several events of a commit the last one that names a key sets it."""
        host = world.host()
        host.append(
            host.create(), said("e1", {"user:k": 1, "user:j": 1}), said("e2", {"user:k": 2})
        )

        assert world.host().state() == {"k": 2, "j": 1}
        assert len(world.entries()) == 1

    def test_sessions_of_a_user_write_different_keys(self, world: World) -> None:
        """Nothing of what thirty writers set at once is lost."""
        hosts = [world.host() for _ in range(30)]
        for number, host in enumerate(hosts):
            key = SessionKey("travel", f"u{number}", "s")
            host.append(host.create(key), said("e", {f"app:k{number}": number}), key=key)

        assert world.host().state(APP) == {f"k{n}": n for n in range(30)}

    def test_who_has_read_writes_later(self, world: World) -> None:
        """A writer whose clock is an hour behind overwrites what it has read."""
        ahead = world.host()
        behind = world.host(clock=SkewedClock(world.clock, -3_600))
        ahead.append(ahead.create(), said("e1", {"user:k": "first"}))
        marker = behind.create(OTHER)
        behind.sessions.read(OTHER)
        behind.append(marker, said("e2", {"user:k": "second"}), key=OTHER)

        assert world.host().state() == {"k": "second"}

    def test_who_has_loaded_a_commit_writes_later(self, world: World) -> None:
        """Reading a session is reading the stamps of its commits, also of older ones."""
        ahead = world.host(clock=SkewedClock(world.clock, 3_600))
        marker = ahead.append(ahead.create(), said("e1", {"user:k": "first"}))
        ahead.append(marker, said("e2", {"k": 1}))
        behind = world.host()
        behind.append(behind.sessions.load(KEY).marker, said("e3", {"user:k": "second"}))

        assert world.host().state() == {"k": "second"}

    def test_who_has_loaded_a_rollup_writes_later(self, world: World) -> None:
        """A rollup tells the latest stamp of what it holds."""
        ahead = world.host(clock=SkewedClock(world.clock, 3_600))
        marker = ahead.append(ahead.create(), said("e1", {"user:k": "first"}))
        ahead.append(marker, said("e2", {"k": 1}))
        ahead.sessions.roll_up(KEY, force=True)
        behind = world.host()
        behind.append(behind.sessions.load(KEY).marker, said("e3", {"user:k": "second"}))

        assert world.host().state() == {"k": "second"}

    def test_who_has_read_all_sessions_writes_later(self, world: World) -> None:
        """A pass over all sessions of a user is reading the stamps of their commits too."""
        ahead = world.host(clock=SkewedClock(world.clock, 3_600))
        behind = world.host()
        marker = behind.create(OTHER)
        ahead.append(ahead.create(), said("e1", {"user:k": "first"}))
        assert len([*behind.sessions.read_all("travel", "ana")]) == 2
        behind.append(marker, said("e2", {"user:k": "second"}), key=OTHER)

        assert world.host().state() == {"k": "second"}

    def test_who_never_read_is_ordered_by_its_clock(self, world: World) -> None:
        """Writes that know nothing of each other are ordered by clocks, as promised (Z1)."""
        ahead = world.host(clock=SkewedClock(world.clock, 3_600))
        behind = world.host()
        marker = behind.create(OTHER)
        ahead.append(ahead.create(), said("e1", {"user:k": "first"}))
        behind.append(marker, said("e2", {"user:k": "second"}), key=OTHER)

        assert world.host().state() == {"k": "first"}


WRITES = st.lists(
    st.tuples(
        st.integers(1, 9), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1)
    ),
    max_size=8,
    unique_by=lambda write: write[0],
)


@given(
    writes=WRITES,
    order=st.randoms(use_true_random=False),
    reads=st.sets(st.integers(0, 16)),
    fold_at=st.none() | st.integers(0, 16),
)
def test_order_repetition_and_delay_change_nothing(
    writes: list[tuple[int, dict[str, int]]], order: Any, reads: set[int], fold_at: int | None
) -> None:
    """Entries may land in any order, twice, and late: every reader gets the same in the end."""
    expected: dict[str, int] = {}
    for _, values in sorted(writes):
        expected.update(values)
    with World() as world:
        arrivals = [*writes, *writes]
        order.shuffle(arrivals)
        warm, folder = world.host(), world.host()
        for number, (micros, values) in enumerate(arrivals):
            stamp, body = entry(micros, values)
            world.put_entry(ANA.entries, stamp, body, fold=False)
            if number in reads:
                warm.state()
            if number == fold_at:
                folder.sessions.shared.fold_entries(ANA)

        for host in (warm, folder, world.host()):
            assert host.state() == expected


class TestReading:
    """What a read costs, and what it does when entries move."""

    def test_a_cold_read_gets_each_entry_once(self, world: World) -> None:
        """A warm read lists once and reads each new entry; a cold one lists manifests too."""
        host, reader = world.host(), world.host()
        marker = host.create()
        for n in range(3):
            marker = host.append(marker, said(f"e{n}", {"user:k": n}))
        reader.state()
        assert reader.metrics.requests == {"LIST": 2, "GET": 3}
        reader.state()
        assert reader.metrics.requests == {"LIST": 3, "GET": 3}
        host.append(marker, said("e4", {"user:k": 4}))
        assert reader.state() == {"k": 4}
        assert reader.metrics.requests == {"LIST": 4, "GET": 4}

    def test_ones_own_entries_are_not_read_back(self, world: World) -> None:
        """A writer that has read the scope before knows what it put."""
        host = world.host()
        marker = host.create()
        host.state()
        for n in range(3):
            marker = host.append(marker, said(f"e{n}", {"user:k": n}))

        assert host.state() == {"k": 2}
        assert host.metrics.requests.get("GET", 0) == 0

    def test_an_append_lists_nothing(self, world: World) -> None:
        """Two scopes are two more PUT, and nothing else."""
        host = world.host()
        marker = host.create()
        before = host.metrics.requests
        host.append(marker, said("e1", {"user:k": 1, "app:k": 1}))

        assert host.metrics.requests == before | {"PUT": before["PUT"] + 3}

    def test_many_scopes_come_with_one_listing(self, world: World) -> None:
        """The state of an app and its users, for a list of sessions, is one LIST of entries."""
        host, reader = world.host(), world.host()
        for user in ("ana", "ben", "cleo"):
            host.create(SessionKey("travel", user, "s"), {"user:name": user, "app:last": user})
        folds = reader.sessions.shared.read_app("travel", ["ana", "cleo", "nobody"])

        assert {scope.user_id: fold.values() for scope, fold in folds.items()} == {
            None: {"last": "cleo"},
            "ana": {"name": "ana"},
            "cleo": {"name": "cleo"},
            "nobody": {},
        }
        assert reader.metrics.requests["LIST"] == 1 + 1  # and the manifests
        assert reader.metrics.requests["GET"] == 5

    def test_a_recent_fold_may_be_a_little_old(self, world: World) -> None:
        """Whoever can bear some age is answered without a request."""
        host, reader = world.host(), world.host()
        marker = host.create(delta={"user:k": 1})
        shared = reader.sessions.shared
        assert shared.recent([ANA], 10)[ANA].values() == {"k": 1}
        host.append(marker, said("e1", {"user:k": 2}))
        world.clock.advance(9)
        assert shared.recent([ANA], 10)[ANA].values() == {"k": 1}
        world.clock.advance(2)
        assert shared.recent([ANA], 10)[ANA].values() == {"k": 2}

    def test_values_are_fresh_objects(self, world: World) -> None:
        """What a caller does to a state that it was given changes nobody else's."""
        host = world.host()
        host.create(delta={"user:k": {"x": []}})
        host.state()["k"]["x"].append(1)

        assert host.state() == {"k": {"x": []}}

    def test_a_sweep_between_listing_and_reading(self, world: World) -> None:
        """An entry that is gone when it is read is covered by what is listed next."""
        host = world.host()
        marker = host.create()
        for n in range(3):
            marker = host.append(marker, said(f"e{n}", {f"user:k{n}": n}))

        def sweep() -> None:
            host.sessions.shared.fold_entries(ANA)
            world.clock.advance(3_601)
            host.sessions.shared.fold_entries(ANA)

        reader = world.host(InterruptedStore(world.store, Nth("get"), sweep))
        assert reader.state() == {"k0": 0, "k1": 1, "k2": 2}
        assert reader.metrics.retries == 1

    def test_entries_that_never_hold_still(self, world: World) -> None:
        """A reader gives up, as StorageError."""
        world.host().create(delta={"user:k": 1})
        lists = Nth("list", times=99)
        with pytest.raises(StorageError, match="state/entries"):
            world.host(SlowStore(world.store, lists, world.clock, after=LIMIT)).state()
        assert lists.met < 20

    def test_a_slow_read_is_done_again(self, world: World) -> None:
        """A listing whose reads took longer than the limit does not count."""
        writer = world.host()
        marker = writer.create(delta={"user:k": 1})

        def stall() -> None:
            world.clock.advance(LIMIT)
            writer.append(writer.sessions.load(KEY).marker, said("e1", {"user:k": 2}))

        assert marker.version == 1
        reader = world.host(InterruptedStore(world.store, Nth("get"), stall))
        assert reader.state() == {"k": 2}

    def test_a_failing_store_is_an_error(self, world: World) -> None:
        """Reading nothing is not the same as being unable to read."""
        world.host().create(delta={"user:k": 1})
        for nth in (Nth("list"), Nth("get")):
            reader = world.host(FailingStore(world.store, nth))
            with pytest.raises(StorageError):
                reader.state()
            assert reader.state() == {"k": 1}

    def test_a_damaged_entry_is_passed_over(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One damaged entry is logged and takes no other value along (R068)."""
        host = world.host()
        host.append(host.create(delta={"user:k": 1}), said("e1", {"user:j": 2}))
        damaged = entry_key(ANA.entries, stamp_text(5, 0, "00000000000000ff"), fold=False)
        world.store.put_if_absent(damaged, b"PAR1 half")

        with caplog.at_level(logging.ERROR, "lakestore"):
            assert world.host().state() == {"k": 1, "j": 2}
        assert damaged in caplog.text

    def test_a_deleted_users_sessions_leave_the_state(self, world: World) -> None:
        """User state survives the deletion of all sessions (R106)."""
        host = world.host()
        host.create(delta={"user:k": 1})
        host.sessions.delete(KEY)

        assert world.host().state() == {"k": 1}
        with pytest.raises(NotFoundError):
            host.sessions.marker_at(KEY, None)

    def test_users_do_not_see_each_other(self, world: World) -> None:
        """Keys of one name in two users' scopes are two."""
        host = world.host()
        host.create(delta={"user:k": "ana"})
        host.create(BEN, {"user:k": "ben"})

        assert (host.state(ANA), host.state(Scope("travel", "ben"))) == ({"k": "ana"}, {"k": "ben"})
