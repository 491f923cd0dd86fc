"""Figures of a lake, as they are before and after compaction and sweep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from statistics import fmean

import pytest

from lakestore import Lake
from lakestore.demo.histories import history, write_history
from lakestore.jobs import compact, stats, sweep
from lakestore.log.keys import SessionKey
from lakestore.storage import MemoryStore
from tests.support.histories import said
from tests.support.sites import APP, USERS, Site, Work

END = datetime(2026, 3, 30, 12, tzinfo=UTC)


def filled() -> Site:
    """Return a lake with some work in it."""
    site = Site()
    Work(site.lake).some(80)
    return site


def test_what_is_fresh_is_counted() -> None:
    """Before compaction all is fresh: objects and bytes are those of the store."""
    site = filled()
    (app,) = stats(site.lake).apps
    objects = [one for one in site.store.list("") if one.key != "lakestore.json"]
    assert app.app_name == APP
    assert (app.objects, app.bytes) == (len(objects), sum(one.size for one in objects))
    assert app.total.fresh_objects == len(objects)
    assert app.total.covered_objects == app.total.events == app.packs == 0
    assert set(app.users) == set(USERS)
    assert sum(each.sessions for each in app.users.values()) == app.total.sessions
    assert app.is_due


def asked(store: MemoryStore, act: Callable[[Lake], object]) -> int:
    """Return how many requests something takes in a lake that knows nothing."""
    with Lake(store, read_only=True) as lake:
        before = lake.metrics.requests
        act(lake)
        return sum(lake.metrics.requests_since(before).values())


def reading(key: SessionKey) -> Callable[[Lake], object]:
    """Return what opens a session."""
    return lambda lake: lake.sessions.read(key)


def test_what_compaction_gains_is_true() -> None:
    """Requests to open a session and to begin SQL are as told, before and after, and so objects."""
    store = MemoryStore()
    with Lake(store) as lake:
        write_history(lake, history(sessions=24, seed=3, days=9, until=END))
        query = "select app_name, user_id, session_id from sessions"
        keys = [SessionKey(*ids) for ids in lake.sql(query).fetchall()]
        then: dict[str, tuple[float, int]] = {}
        for is_packed in (False, True):
            if is_packed:
                compact(lake)
                sweep(lake, grace=0)
            told = stats(lake).apps
            for app in told:
                of_app = [key for key in keys if key.app_name == app.app_name]
                opened = fmean(asked(store, reading(key)) for key in of_app)
                assert app.requests_now == pytest.approx(opened, abs=1)
                if is_packed:
                    assert (opened, app.objects) == pytest.approx(then[app.app_name], abs=1)
            then = {app.app_name: (app.requests_packed, app.objects_packed) for app in told}
            begun = asked(store, lambda it: it.sql("select count(*) from events").fetchall())
            assert begun == pytest.approx(sum(app.sql_now for app in told), abs=len(told))


def test_what_is_packed_is_counted() -> None:
    """After compaction commits and entries are covered, and after a sweep they are gone."""
    site = filled()
    compact(site.lake)
    (app,) = stats(site.lake).apps
    commits = len(site.stored("events/log/"))
    files = [key for key, _ in site.manifest().files()]
    for found, kind in ((app.packs, "packs/"), (app.runs, "runs/")):
        assert found == sum(key.startswith(kind) for key in files) > 0
    assert app.manifests == 1
    kinds = ("packs/", "runs/", "manifests/")
    old = sum(len(site.stored(kind)) for kind in kinds) - len(files) - 1
    entries = len(site.stored("state/entries/"))
    assert entries
    assert app.total.covered_objects == commits + entries + old
    assert app.total.fresh_objects == 0
    assert not app.is_due
    events = site.lake.sql("select count(*) from events").fetchall()[0][0]
    assert app.total.events == events
    living = site.lake.sql("select count(*) from sessions").fetchall()[0][0]
    assert app.total.sessions == living
    sweep(site.lake, grace=0)
    (app,) = stats(site.lake).apps
    assert app.total.covered_objects == app.total.fresh_objects == 0
    assert app.objects == len(site.stored()) - 1
    assert not app.is_due
    assert app.requests_now == app.requests_packed


def test_what_is_on_top_is_counted() -> None:
    """What is committed after compaction counts as fresh, of its own user alone."""
    site = filled()
    compact(site.lake)
    sweep(site.lake, grace=0)
    key = SessionKey(APP, "eve", "new")
    marker = site.lake.sessions.create(key, {}, generated=True).marker
    site.lake.sessions.append(key, marker, [said("e")])
    (app,) = stats(site.lake).apps
    assert app.users["eve"].fresh_objects == app.total.fresh_objects == 2
    assert app.users["eve"].sessions == 1


def test_the_largest_users_are_told() -> None:
    """All are counted; figures are those of each alone, packed, fresh and state together."""
    site = filled()
    compact(site.lake)
    Work(site.lake, 2).some(30)
    (app,) = stats(site.lake, users=1_000).apps
    sizes = [each.bytes for each in app.users.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert (app.user_count, len(app.users)) == (len(USERS), len(USERS))
    for name in ("sessions", "events", "fresh_commits"):
        assert sum(getattr(each, name) for each in app.users.values()) == getattr(app.total, name)
    for most in (0, 1):
        (some,) = stats(site.lake, users=most).apps
        assert list(some.users.items()) == list(app.users.items())[:most]
        assert (some.user_count, some.total) == (app.user_count, app.total)


def test_fresh_commits_are_counted() -> None:
    """Each is one of some session; rollups and entries are other objects."""
    site = filled()
    for view in list(site.lake.sessions.read_all(APP, None)):
        site.lake.sessions.roll_up(view.key, force=True)
    (app,) = stats(site.lake).apps
    names = [key for key in site.stored("events/log/") if not key.endswith("r.parquet")]
    assert app.total.fresh_commits == len(names) < app.total.fresh_objects


def test_long_ids_and_empty_lakes() -> None:
    """An id of which only a digest is in the keys is shown by that; an empty lake has nothing."""
    site = Site()
    assert stats(site.lake).apps == []
    for app in ("a", "Ä" * 100):
        site.lake.sessions.create(SessionKey(app, "ü" * 100, "s"), {"user:a": 1}, generated=True)
    found = stats(site.lake)
    assert [app.app_name for app in found.apps] == ["a", "Ä" * 100]
    assert all("~" in user for app in found.apps for user in app.users)
    compact(site.lake)
    assert set(stats(site.lake).apps[0].users) >= {"ü" * 100}
    assert set(found.requests) == {"LIST", "GET"}
    (none,) = stats(site.lake, app_name="none such").apps
    assert not none.is_due
