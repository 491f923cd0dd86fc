from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakestore.catalog import Catalog
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.lake_builder import COMMITTED_AT, LogBuilder, a_log

Follow = Callable[[ObjectStore], Catalog]


def shown(catalog: Catalog) -> tuple[list[Any], list[Any]]:
    """Events and sessions now."""
    catalog.refresh()
    events = catalog.sql("select user_id, session_id, event_id from events order by all")
    sessions = catalog.sql("select user_id, session_id, events, state from sessions order by all")
    return events.fetchall(), sessions.fetchall()


def test_a_deleted_session_is_gone(store: MemoryStore, catalog: Catalog) -> None:
    """After a delete neither its events nor the session are shown, then and later."""
    log = a_log(store).create({"k": 1}).say("a")
    a_log(store, "s2").create().say("b")
    catalog.refresh()
    log.delete()
    rest = ([("ana", "s2", "b")], [("ana", "s2", 1, "{}")])
    assert shown(catalog) == rest
    assert shown(catalog) == rest


def test_a_session_deleted_before_it_was_seen(store: MemoryStore, catalog: Catalog) -> None:
    """What was created and deleted between two refreshes never shows."""
    a_log(store).create({"k": 1}).say("a").delete()
    assert shown(catalog) == ([], [])


def test_an_id_that_is_used_again_begins_anew(store: MemoryStore, catalog: Catalog) -> None:
    """A session created after a delete has neither events nor state of the one before."""
    log = a_log(store).create({"old": 1}).say("a", delta={"k": 1})
    catalog.refresh()
    log.delete().create({"new": 2})
    assert shown(catalog) == ([], [("ana", "s1", 0, '{"new":2}')])
    log.say("b")
    assert shown(catalog) == ([("ana", "s1", "b")], [("ana", "s1", 1, '{"new":2}')])
    created = catalog.sql("select epoch_us(created_at), version from sessions").fetchall()
    assert created == [(COMMITTED_AT + 4_000_000, 5)]


def test_all_of_it_in_one_refresh(store: MemoryStore, follow: Follow) -> None:
    """Lives and deaths that arrive together leave what they leave one by one."""
    log = a_log(store).create().say("a").delete().create().say("b").delete().create({"k": 3})
    expected = ([("ana", "s1", "c")], [("ana", "s1", 1, '{"k":3}')])
    log.say("c")
    assert shown(follow(store)) == expected
    log.roll_up().sweep(log.version)
    assert shown(follow(store)) == expected


def test_a_delete_that_was_swept(store: MemoryStore, catalog: Catalog) -> None:
    """A rollup holds the present life only: its `create` row ends what was known before."""
    log = a_log(store).create({"old": 1}).say("a").say("b")
    catalog.refresh()
    log.delete().create({"new": 1}).say("c").roll_up().sweep(log.version)
    assert shown(catalog) == ([("ana", "s1", "c")], [("ana", "s1", 1, '{"new":1}')])


def test_a_rollup_of_the_life_that_is_known(store: MemoryStore, catalog: Catalog) -> None:
    """A rollup of a session that is known to be used again keeps what is known of it."""
    log = a_log(store).create().say("a").delete().create({"k": 1}).say("b")
    catalog.refresh()
    log.say("c").roll_up().sweep(log.version)
    assert shown(catalog) == (
        [("ana", "s1", "b"), ("ana", "s1", "c")],
        [("ana", "s1", 2, '{"k":1}')],
    )


def test_equal_ids_of_others_stay(store: MemoryStore, catalog: Catalog) -> None:
    """A delete ends the session of that app and user alone, whoever else uses the id."""
    logs = [
        a_log(store, "main", user_id=user, app_name=app).create({"app": app}).say(f"{app}/{user}")
        for app in ("x", "y")
        for user in ("a", "A", "u?", "u*", "u[1]", "u1")
    ]
    catalog.refresh()
    logs[2].delete()
    catalog.refresh()
    rows = catalog.sql("select event_id from events")
    assert "x/u?" not in {text for (text,) in rows.fetchall()}
    assert len(rows) == 11
    assert catalog.sql("select count(*) from sessions").fetchall() == [(11,)]


def test_ids_that_share_a_shortened_key(store: MemoryStore, catalog: Catalog) -> None:
    """Long ids that begin alike are apart in every respect."""
    first, second = ("x" * 299 + end for end in "yz")
    log: LogBuilder = a_log(store, first).create().say("a")
    a_log(store, second).create().say("b")
    catalog.refresh()
    log.delete()
    assert shown(catalog)[0] == [("ana", second, "b")]
