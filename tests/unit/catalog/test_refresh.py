from __future__ import annotations

from collections.abc import Callable

import pytest

from lakestore import Lake
from lakestore.catalog import Catalog
from lakestore.errors import StorageError
from lakestore.log.keys import Scope, SessionKey
from lakestore.storage import MemoryStore, Metrics, ObjectStore
from tests.support.clocks import ManualClock, SkewedClock
from tests.support.faulty_store import FailingStore, InterruptedStore, Nth, PlaceholderStore
from tests.support.histories import said
from tests.support.lake_builder import a_log

Follow = Callable[[ObjectStore], Catalog]

ALL = "select session_id, event_id from events order by session_id, version, ordinal"


def shown(catalog: Catalog) -> list[tuple[str, str]]:
    """The events as the last refresh left them."""
    return catalog.sql(ALL).fetchall()


def requests_of(metrics: Metrics, call: Callable[[], object]) -> dict[str, int]:
    """Count what `call` asks of the store."""
    before = metrics.requests
    call()
    return metrics.requests_since(before)


def test_a_refresh_takes_in_what_is_new(store: MemoryStore, catalog: Catalog) -> None:
    """Each refresh adds the commits since the last one, of old sessions and of new ones."""
    first = a_log(store).create().say("a")
    catalog.refresh()
    assert shown(catalog) == [("s1", "a")]
    first.say("b", "c")
    a_log(store, "s2").create().say("d")
    assert shown(catalog) == [("s1", "a")]
    catalog.refresh()
    assert shown(catalog) == [("s1", "a"), ("s1", "b"), ("s1", "c"), ("s2", "d")]


def test_only_what_is_new_is_fetched(
    store: MemoryStore, catalog: Catalog, metrics: Metrics
) -> None:
    """A refresh lists logs, entries and manifests, and reads each new commit; else that is all."""
    log = a_log(store).create().say("a")
    a_log(store, "s2").create()
    assert requests_of(metrics, catalog.refresh) == {"LIST": 5, "GET": 3}
    assert requests_of(metrics, catalog.refresh) == {"LIST": 5}
    log.say("b")
    assert requests_of(metrics, catalog.refresh) == {"LIST": 5, "GET": 1}
    assert metrics.retries == 0


def test_a_query_does_not_refresh(store: MemoryStore, catalog: Catalog, metrics: Metrics) -> None:
    """Queries ask nothing of the store."""
    a_log(store).create().say("a")
    catalog.refresh()
    asked = metrics.requests
    shown(catalog)
    catalog.scan("events", None, None, None).read_all()
    assert metrics.requests == asked


def test_a_refresh_is_seen_whole_or_not_at_all(store: MemoryStore, follow: Follow) -> None:
    """While a refresh is under way, however much it has read, queries see the one before."""
    a_log(store).create().say("old")
    seen = []
    many = 1_100  # more than one piece
    late = Nth("get", nth=1_060, times=20)
    counting = InterruptedStore(store, late, lambda: seen.append(len(shown(catalog))))
    catalog = follow(counting)
    catalog.refresh()
    log = a_log(store, "s2").create()
    for number in range(many):
        log.say(str(number))
    catalog.refresh()
    assert seen == [1] * 20
    assert len(shown(catalog)) == many + 1


def test_a_refresh_that_fails_changes_nothing(store: MemoryStore, follow: Follow) -> None:
    """After a failed refresh the rows are the old ones; the next one takes in all, once."""
    log = a_log(store).create().say("a")
    catalog = follow(FailingStore(store, Nth("get", nth=4, holding="session=s1")))
    catalog.refresh()
    log.say("b").say("c")
    with pytest.raises(StorageError):
        catalog.refresh()
    assert shown(catalog) == [("s1", "a")]
    catalog.refresh()
    assert shown(catalog) == [("s1", "a"), ("s1", "b"), ("s1", "c")]


def test_an_interrupted_refresh_changes_nothing(store: MemoryStore, follow: Follow) -> None:
    """A keyboard interrupt leaves the catalog usable, and no row there twice."""
    a_log(store).create().say("a")
    picked = Nth("get", nth=2)
    catalog = follow(InterruptedStore(store, picked, _interrupt))
    with pytest.raises(KeyboardInterrupt):
        catalog.refresh()
    assert shown(catalog) == []
    catalog.refresh()
    assert shown(catalog) == [("s1", "a")]


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_strays_are_passed_over(store: MemoryStore, follow: Follow) -> None:
    """Folder placeholders, hidden files and foreign names in a log are nobody's rows."""
    log = a_log(store).create().say("a").key.log
    for name in (".DS_Store", "_SUCCESS", "README.md", "3.parquet", f"{3:020}.parquet.tmp"):
        store.put_if_absent(log + name, b"stray")
    store.put_if_absent(f"events/log/{3:020}.parquet", b"stray")
    catalog = follow(PlaceholderStore(store))
    catalog.refresh()
    assert shown(catalog) == [("s1", "a")]


def test_many_commits_come_in_pieces(store: MemoryStore, catalog: Catalog) -> None:
    """More commits than are held in memory at once come in all, and in order."""
    texts = [str(number) for number in range(1_100)]
    log = a_log(store).create()
    for text in texts:
        log.say(text)
    catalog.refresh()
    assert [text for _, text in shown(catalog)] == texts


def test_a_commit_may_hold_large_rows(store: MemoryStore, catalog: Catalog) -> None:
    """A tool's reply of 20 MB is a row as any other."""
    large = "x" * 20_000_000
    a_log(store).create().say("a", content={"parts": [{"text": large}]})
    catalog.refresh()
    assert catalog.sql("select length(text) from events").fetchall() == [(len(large),)]


def test_who_has_asked_sql_writes_later(store: MemoryStore, clock: ManualClock) -> None:
    """A writer whose clock is an hour behind overwrites what a query has shown it."""
    ahead = Lake(store, clock=SkewedClock(clock, 3_600)).sessions
    behind = Lake(store, clock=clock)
    mine = SessionKey("travel", "ana", "mine")
    theirs = SessionKey("travel", "ana", "theirs")
    marker = behind.sessions.create(mine, {}, generated=True).marker
    ahead.create(theirs, {"user:k": "first"}, generated=True)
    assert len(behind.sql("FROM sessions").fetchall()) == 2
    behind.sessions.append(mine, marker, [said("e1", {"user:k": "second"})])

    scope = Scope("travel", "ana")
    assert ahead.shared.read([scope])[scope].values() == {"k": "second"}
