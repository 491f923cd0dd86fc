"""Loading: what a listing means, when what was read counts, and what damage does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakestore.errors import StorageError
from lakestore.history.view import SessionView
from lakestore.log.keys import SessionKey, commit_key, rollup_key
from lakestore.tables import events
from tests.support.faulty_store import (
    FailingStore,
    InterruptedStore,
    Nth,
    PlaceholderStore,
    SlowStore,
    TornStore,
)
from tests.support.histories import GRACE, KEY, LIMIT, OTHER, World, ids, said, several

LOG = KEY.log


def test_a_session_that_never_was_is_version_0(world: World) -> None:
    """Nothing listed is nothing there; what jobs have packed is asked for once."""
    host = world.host()

    assert host.sessions.load(KEY).version == 0
    assert host.sessions.read(KEY) is None
    assert host.metrics.requests == {"LIST": 2 + 1}


def test_a_log_is_listed_and_read(world: World) -> None:
    """A cold load lists the log and the manifests, and reads each commit."""
    writer, reader = world.host(), world.host()
    writer.append_each(writer.create(delta={"k": 1}), *several(3))
    view = reader.sessions.load(KEY)

    assert (view.version, view.alive, ids(view)) == (4, True, ["e1", "e2", "e3"])
    assert view.state == {"k": 1, "last": 3}
    assert reader.metrics.requests == {"LIST": 2, "GET": 4}


def test_from_a_rollup_only_what_is_above_is_read(world: World) -> None:
    """A rollup takes the place of all commits below it."""
    writer, reader = world.host(), world.host()
    marker = writer.append_each(writer.create(delta={"k": 1}), *several(5))
    writer.sessions.roll_up(KEY, force=True)
    writer.append_each(marker, *several(2, first=6))

    view = reader.sessions.load(KEY)
    assert reader.metrics.requests == {"LIST": 2, "GET": 3}
    assert ids(view) == [f"e{n}" for n in range(1, 8)]
    assert view.state == {"k": 1, "last": 7}


def test_a_rollup_without_its_commit_does_not_count(world: World) -> None:
    """A rollup that a slow writer put where all was swept is passed over."""
    host = world.host()
    marker = host.append_each(host.create(), *several(2))
    host.sessions.roll_up(KEY, force=True)
    stale = world.store.get(rollup_key(LOG, 3))
    world.roll_up_twice_and_sweep(host, host.append(marker, said("e3")))
    world.store.put_if_absent(rollup_key(LOG, 3), stale)

    view = world.host().sessions.load(KEY)
    assert ids(view) == ["e1", "e2", "e3", "after 4"]


class TestGaps:
    """Versions are dense; a gap means that something came between."""

    def test_what_stands_above_a_lasting_gap_is_no_part_of_the_log(self, world: World) -> None:
        """An object that was put above the end of a log is not the session's."""
        host = world.host()
        host.append_each(host.create(), *several(2))
        row = events.decode(world.store.get(commit_key(LOG, 3)))[0]
        stray = events.encode_commit([replace(row, version=5, token="ff")])
        world.store.put_if_absent(commit_key(LOG, 5), stray)

        reader = world.host()
        assert ids(reader.sessions.load(KEY)) == ["e1", "e2"]
        assert [ids(view) for view in reader.sessions.read_all("travel", "ana")] == [["e1", "e2"]]
        assert reader.metrics.requests["LIST"] <= 5 + 3  # manifests, again after each gap

    def test_a_gap_is_believed_when_it_is_seen_twice(self, world: World) -> None:
        """A listing that was torn by what others did meanwhile is done again."""
        writer = world.host()
        writer.append_each(writer.create(), *several(4))
        torn = world.host(TornStore(world.store, missing=commit_key(LOG, 3)))
        assert ids(torn.sessions.load(KEY)) == ["e1", "e2", "e3", "e4"]

        torn = world.host(TornStore(world.store, missing=commit_key(LOG, 3)))
        (view,) = torn.sessions.read_all("travel", "ana")
        assert ids(view) == ["e1", "e2", "e3", "e4"]

    def test_only_strays_are_no_session(self, world: World) -> None:
        """A log whose first version is missing for good never began."""
        host = world.host()
        host.append_each(host.create(), *several(2))
        world.store.delete(commit_key(LOG, 1))

        reader = world.host()
        assert reader.sessions.load(KEY).version == 0
        assert [*reader.sessions.read_all("travel", None)] == []

    def test_a_sweep_between_listing_and_reading(self, world: World) -> None:
        """Objects that go after they were listed make the reader begin again."""
        writer = world.host()
        marker = writer.append_each(writer.create(), *several(3))
        swept = InterruptedStore(
            world.store, Nth("get"), lambda: world.roll_up_twice_and_sweep(writer, marker)
        )

        reader = world.host(swept)
        assert ids(reader.sessions.load(KEY)) == ["e1", "e2", "e3", "after 4"]
        assert reader.metrics.retries == 1

    def test_a_sweep_while_many_are_read(self, world: World) -> None:
        """One log that is swept meanwhile costs no other session its place in the list."""
        writer = world.host()
        marker = writer.append_each(writer.create(), *several(3))
        writer.append(writer.create(OTHER), said("other"), key=OTHER)
        swept = InterruptedStore(
            world.store, Nth("get"), lambda: world.roll_up_twice_and_sweep(writer, marker)
        )

        views = world.host(swept).sessions.read_all("travel", "ana")
        assert sorted(ids(view) for view in views) == [["e1", "e2", "e3", "after 4"], ["other"]]

    def test_a_log_that_never_holds_still(self, world: World) -> None:
        """A reader gives up, as StorageError, instead of reading for ever."""
        host = world.host()
        host.append_each(host.create(), *several(3))
        lists = Nth("list", times=99)
        store = SlowStore(world.store, lists, world.clock, after=LIMIT)

        with pytest.raises(StorageError, match="session=s1"):
            world.host(store).sessions.load(KEY)
        assert lists.met < 20


class TestAge:
    """What was read counts only if all of it, to the last reply, took less than the limit."""

    @pytest.mark.parametrize("kind", ["manifests", "log", "get"])
    def test_a_slow_read_is_done_again(self, world: World, kind: str) -> None:
        """What took too long is not believed."""
        writer = world.host()
        writer.append_each(writer.create(), *several(2))
        nth = Nth("get") if kind == "get" else Nth("list", holding=kind)
        reader = world.host(SlowStore(world.store, nth, world.clock, after=LIMIT))

        assert ids(reader.sessions.load(KEY)) == ["e1", "e2"]
        assert reader.metrics.requests["LIST"] == 2 * 2

    def test_nothing_there_is_confirmed_like_anything_else(self, world: World) -> None:
        """A listing of nothing that took too long is no proof that there is nothing."""
        writer = world.host()

        def act() -> None:
            writer.append(writer.create(), said("e1"))
            world.clock.advance(LIMIT)

        reader = world.host(InterruptedStore(world.store, Nth("list"), act, when="after"))
        assert ids(reader.sessions.load(KEY)) == ["e1"]

    def test_a_view_counts_from_the_start_of_its_load(self, world: World) -> None:
        """The time that a load took is part of the age of what it found."""
        writer = world.host()
        writer.append_each(writer.create(), *several(2))
        reader = world.host(SlowStore(world.store, Nth("list"), world.clock, after=100))
        began = world.clock.elapsed()

        assert reader.sessions.load(KEY).seen == began

    def test_a_long_list_is_listed_anew_on_the_way(self, world: World) -> None:
        """A list of very many sessions that takes longer than the limit stays right."""
        writer = world.host()
        keys = [SessionKey("travel", "ana", f"s{n:03}") for n in range(300)]
        for key in keys:
            writer.create(key)
        reader = world.host()
        found: list[SessionView] = []
        for view in reader.sessions.read_all("travel", "ana"):
            if not found:
                last = writer.sessions.load(keys[-1]).marker
                writer.append(last, said("late"), key=keys[-1])
                world.clock.advance(LIMIT)
            found.append(view)

        assert [view.key for view in found] == keys
        assert ids(found[-1]) == ["late"]


class TestWarm:
    """A cached view is refreshed by asking for the next version."""

    def test_a_warm_read_asks_for_one_version(self, world: World) -> None:
        """One GET for the log and one LIST for each scope."""
        host = world.host()
        host.append_each(host.create(), *several(3))
        host.events()
        before = host.metrics.requests

        assert host.events() == ["e1", "e2", "e3"]
        assert host.metrics.requests_since(before) == {"GET": 1, "LIST": 2}

    def test_what_others_appended_is_followed(self, world: World) -> None:
        """A refresh that finds two commits more lists the rest, and reads that side by side."""
        writer, reader = world.host(), world.host()
        marker = writer.create()
        assert reader.events() == []
        writer.append_each(marker, *several(3))

        assert reader.events() == ["e1", "e2", "e3"]
        assert reader.metrics.requests["LIST"] == 2 + 2 * 2 + 1

    def test_an_old_view_is_loaded_anew(self, world: World) -> None:
        """A view older than the limit proves nothing, since all above it may be swept."""
        writer, reader = world.host(), world.host()
        marker = writer.append_each(writer.create(), *several(2))
        assert reader.events() == ["e1", "e2"]
        for n in (3, 4):
            marker = writer.append(marker, said(f"e{n}"))
        world.roll_up_twice_and_sweep(writer, marker)

        assert reader.events() == ["e1", "e2", "e3", "e4", "after 5"]

    def test_a_view_that_grows_old_while_it_is_refreshed(self, world: World) -> None:
        """A probe that found nothing after the view had grown old is no proof (S3)."""
        writer = world.host()
        marker = writer.append_each(writer.create(), *several(2))

        def stall() -> None:
            last = writer.append_each(marker, *several(2, first=3))
            world.roll_up_twice_and_sweep(writer, last)
            world.roll_up_twice_and_sweep(writer, writer.sessions.load(KEY).marker)

        probes = Nth("get", holding="00000000000000000004.parquet")
        reader = world.host(InterruptedStore(world.store, probes, stall))
        assert ids(reader.sessions.load(KEY)) == ["e1", "e2"]

        assert reader.events() == ["e1", "e2", "e3", "e4", "after 5", "after 6"]

    def test_confirmed_views_stay_young(self, world: World) -> None:
        """Each refresh that finds nothing confirms the view from its own start."""
        writer, reader = world.host(), world.host()
        writer.append(writer.create(), said("e1"))
        reader.events()
        for _ in range(10):
            world.clock.advance(LIMIT / 2)
            assert reader.events() == ["e1"]

        assert reader.metrics.cache_misses == 1

    @pytest.mark.parametrize("cache_bytes", [0, 1_500])
    def test_a_small_cache_changes_no_answer(self, world: World, cache_bytes: int) -> None:
        """What does not fit is read again."""
        host = world.host(cache_bytes=cache_bytes)
        keys = [SessionKey("travel", "ana", f"s{n}") for n in range(5)]
        markers = {key: host.create(key, {"user:k": key.session_id}) for key in keys}
        for n in range(3):
            for key in keys:
                markers[key] = host.append(markers[key], said(f"e{n}", {"app:k": n}), key=key)

        for key in keys:
            assert host.events(key) == ["e0", "e1", "e2"]
        assert host.state() == {"k": "s4"}

    def test_a_failing_store_is_an_error_not_an_absence(self, world: World) -> None:
        """A read that fails is raised, and the next one works."""
        writer = world.host()
        writer.append(writer.create(), said("e1"))
        for kind in ("list", "get"):
            nth = Nth("list" if kind == "list" else "get")
            reader = world.host(FailingStore(world.store, nth))
            with pytest.raises(StorageError):
                reader.events()
            assert reader.events() == ["e1"]


def test_a_store_far_away_is_read_side_by_side(world: World) -> None:
    """What is read in threads folds to the same."""
    writer = world.host()
    marker = writer.append_each(writer.create(delta={"app:k": 0}), *several(70))
    for n in range(5):
        marker = writer.append(marker, said(f"x{n}", {"user:k": n}))
    far = PlaceholderStore(world.store)
    far.near = False
    reader = world.host(far)

    assert reader.events() == [f"e{n}" for n in range(1, 71)] + [f"x{n}" for n in range(5)]
    assert reader.state() == {"k": 4}


def test_users_and_apps_are_listed_apart(world: World) -> None:
    """A list holds the living sessions of a user, or of all users, and of no other app."""
    host = world.host()
    keys = [SessionKey(a, u, "main") for a in ("x", "y", "x-") for u in ("u", "u[1]", "u*")]
    for key in keys:
        host.create(key, {"who": json.dumps([key.app_name, key.user_id])})
    gone = SessionKey("x", "u", "gone")
    host.create(gone)
    host.sessions.delete(gone)

    assert [view.key for view in host.sessions.read_all("x", "u*")] == [
        SessionKey("x", "u*", "main")
    ]
    found = sorted(view.key for view in host.sessions.read_all("x", None))
    assert found == sorted(key for key in keys if key.app_name == "x")
    assert [*host.sessions.read_all("x", "none")] == []
    world.clock.advance(GRACE)
    assert len([*host.sessions.read_all("y", None)]) == 3
