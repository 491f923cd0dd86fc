from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from typing_extensions import override

from lakestore.catalog import Catalog
from lakestore.errors import StorageError
from lakestore.log.keys import rollup_key
from lakestore.log.marker import Limits
from lakestore.storage import MemoryStore, Metrics, ObjectStore, StoredObject
from tests.support.clocks import ManualClock
from tests.support.faulty_store import AroundStore, InterruptedStore, Nth, SlowStore
from tests.support.lake_builder import LogBuilder, a_log, event_json

Follow = Callable[[ObjectStore], Catalog]

LIMIT = Limits().view_age


def said(catalog: Catalog) -> list[str]:
    """The ids of all events, as the last refresh left them."""
    rows = catalog.sql("select event_id from events order by session_id, version, ordinal")
    return [event_id for (event_id,) in rows.fetchall()]


def refreshed(catalog: Catalog) -> list[str]:
    """The ids of all events now."""
    catalog.refresh()
    return said(catalog)


def say_all(log: LogBuilder, texts: str) -> LogBuilder:
    """Append a commit for each letter."""
    for text in texts:
        log.say(text)
    return log


def test_a_rollup_is_read_instead_of_its_commits(
    store: MemoryStore, catalog: Catalog, metrics: Metrics
) -> None:
    """A log with a rollup costs one read and one for each commit above, and shows no checkpoint."""
    log = say_all(a_log(store).create({"k": 1}), "abcdefg").roll_up()
    log.say("h", delta={"k": 2})
    assert refreshed(catalog) == list("abcdefgh")
    assert metrics.requests == {"LIST": 5, "GET": 2}
    assert catalog.sql("select events, state, version from sessions").fetchall() == [
        (8, '{"k":2}', 9)
    ]


def test_rows_of_a_rollup_and_of_commits_are_the_same(store: MemoryStore, follow: Follow) -> None:
    """No column tells whether a row was read from a commit or from a rollup."""
    log = a_log(store).create({"k": 1})
    log.say("a", "b", usage_metadata={"total_token_count": 7}, delta={"k": None})
    log.say("c", content={"parts": [{"function_call": {"name": "f"}}]})
    every = "select * from {} order by all"
    plain = follow(store)
    plain.refresh()
    before = [plain.sql(every.format(view)).fetchall() for view in ("events", "sessions")]
    log.roll_up().sweep(log.version)
    rolled = follow(store)
    rolled.refresh()
    after = [rolled.sql(every.format(view)).fetchall() for view in ("events", "sessions")]
    assert after == before


def test_what_was_swept_is_read_from_the_rollup(store: MemoryStore, catalog: Catalog) -> None:
    """Commits that were swept since the last refresh come from the rollup, each row once."""
    log = say_all(a_log(store).create(), "ab")
    assert refreshed(catalog) == ["a", "b"]
    say_all(log, "cd").roll_up().say("e")
    log.sweep(5)
    assert refreshed(catalog) == list("abcde")


def test_a_rollup_below_what_is_known_changes_nothing(
    store: MemoryStore, catalog: Catalog, metrics: Metrics
) -> None:
    """A rollup of rows that are in is not read, whatever was swept below it."""
    log = say_all(a_log(store).create(), "abc")
    assert refreshed(catalog) == list("abc")
    log.roll_up().sweep(4)
    reads = metrics.requests["GET"]
    assert refreshed(catalog) == list("abc")
    assert metrics.requests["GET"] == reads


def test_a_rollup_without_its_commit_does_not_count(store: MemoryStore, catalog: Catalog) -> None:
    """A rollup that landed after its commit was swept is passed over."""
    log = say_all(a_log(store).create(), "ab").roll_up()
    stray = rollup_key(log.key.log, 2)
    say_all(log, "cd").roll_up().sweep(5)
    store.put_if_absent(stray, b"late")
    assert refreshed(catalog) == list("abcd")


@pytest.mark.parametrize("known", ["", "a"], ids=["cold", "warm"])
def test_a_commit_that_landed_late_below_a_rollup_is_no_ones(
    store: MemoryStore, catalog: Catalog, known: str
) -> None:
    """A refused commit that lands under a swept version is never shown, however it fits."""
    log = a_log(store).create()
    if known:
        say_all(log, known)
        catalog.refresh()
    late = log.row("event", None, event_json("late"))
    rest = "abcd"[len(known) :]
    say_all(log, rest).roll_up()
    log.sweep(late.version + 1)
    LogBuilder(store, log.key).commit([late])
    assert refreshed(catalog) == list("abcd")


def test_above_a_gap_that_stays_nothing_counts(
    store: MemoryStore, catalog: Catalog, metrics: Metrics
) -> None:
    """What stands above a missing version in two listings was refused; asking again is enough."""
    log = say_all(a_log(store).create(), "ab")
    late = log.commit_key(9)
    store.put_if_absent(late, b"whatever")
    assert refreshed(catalog) == ["a", "b"]
    # Manifests are listed each time, too; entries and artifacts once a refresh.
    assert metrics.requests["LIST"] == 2 * 2 + 3
    # It was seen twice: from now on one listing is enough.
    say_all(log, "c")
    assert refreshed(catalog) == ["a", "b", "c"]
    assert metrics.requests["LIST"] == 4 * 2 + 6
    assert refreshed(catalog) == ["a", "b", "c"]
    assert metrics.requests["LIST"] == 5 * 2 + 9


def test_a_gap_that_the_listing_made_is_looked_at_again(store: MemoryStore, follow: Follow) -> None:
    """A listing is no snapshot: it may show a commit and not the one before."""
    log = say_all(a_log(store).create(), "abc")
    hidden = store.get(log.commit_key(3))
    store.delete(log.commit_key(3))
    again = Nth("list", nth=2)
    catalog = follow(
        InterruptedStore(store, again, lambda: store.put_if_absent(log.commit_key(3), hidden))
    )
    assert refreshed(catalog) == ["a", "b", "c"]


class NotingStore(AroundStore):
    """Notes what is listed."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.listed: list[str] = []

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        self.listed.append(prefix)
        return self.inner.list(prefix, after)


def test_only_the_log_with_a_gap_is_listed_again(store: MemoryStore, follow: Follow) -> None:
    """The second listing of logs is of that one alone; manifests are listed after each.

    Entries and artifacts are listed first, and once.
    """
    say_all(a_log(store, "other").create(), "x")
    log = say_all(a_log(store).create(), "ab")
    store.put_if_absent(log.commit_key(9), b"whatever")
    noting = NotingStore(store)
    assert refreshed(follow(noting)) == ["x", "a", "b"]
    logs = ["events/log/", "manifests/", log.key.log, "manifests/"]
    assert noting.listed[3:] == logs
    others = ["artifacts/log/", "memory/entries/", "telemetry/entries/"]
    assert sorted(noting.listed[:3]) == others


def test_a_sweep_between_listing_and_reading(store: MemoryStore, follow: Follow) -> None:
    """When a listed object is gone, its log is listed again and loses no row."""
    log = say_all(a_log(store).create(), "abc")
    say_all(a_log(store, "s2").create(), "xy")

    def sweep() -> None:
        log.roll_up().sweep(log.version)

    catalog = follow(InterruptedStore(store, Nth("get", nth=2), sweep))
    assert refreshed(catalog) == list("abcxy")


class HauntedStore(AroundStore):
    """Lists objects that were deleted."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._ghosts = [*inner.list("")]

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        yield from self._ghosts


def test_an_object_that_is_never_there(store: MemoryStore, follow: Follow) -> None:
    """A store that lists what it does not have is a StorageError in the end, no endless loop."""
    log = a_log(store).create().say("a")
    haunted = HauntedStore(store)
    store.delete(log.commit_key())
    catalog = follow(haunted)
    with pytest.raises(StorageError, match="session=s1"):
        catalog.refresh()
    assert said(catalog) == []


def test_what_took_too_long_is_read_again(
    store: MemoryStore, follow: Follow, clock: ManualClock, metrics: Metrics
) -> None:
    """What was read counts only if it took less than the limit from the start of the listing."""
    say_all(a_log(store).create(), "abc")
    slow = Nth("get", nth=2)
    catalog = follow(SlowStore(store, slow, clock, after=LIMIT))
    assert refreshed(catalog) == list("abc")
    assert metrics.requests == {"LIST": 2 * 2 + 3, "GET": 2 * 4}


def test_a_late_commit_below_a_sweep_during_a_stall_is_never_shown(
    store: MemoryStore, follow: Follow, clock: ManualClock
) -> None:
    """A reader that stalled for hours shows what the log is, not what landed in it meanwhile."""
    log = a_log(store).create()
    late = log.row("event", None, event_json("late"))
    say_all(log, "abc")

    def meanwhile() -> None:
        log.roll_up().say("d")
        log.sweep(4)
        LogBuilder(store, log.key).commit([late])
        clock.advance(3 * Limits().grace)

    catalog = follow(InterruptedStore(store, Nth("get", nth=1), meanwhile))
    assert refreshed(catalog) == list("abcd")


def test_a_store_that_is_always_too_slow(
    store: MemoryStore, follow: Follow, clock: ManualClock
) -> None:
    """When no listing can be read within the limit, that is a StorageError."""
    say_all(a_log(store).create(), "abc")
    catalog = follow(SlowStore(store, Nth("list", times=1_000), clock, after=LIMIT))
    with pytest.raises(StorageError):
        catalog.refresh()


def test_a_first_refresh_may_take_longer_than_the_limit(
    store: MemoryStore, follow: Follow, clock: ManualClock, metrics: Metrics
) -> None:
    """What was read in time is kept when the limit is over, so any lake is read in the end."""
    many = 12
    for number in range(many):
        # Rollups of so many versions are each read by themselves.
        log = LogBuilder(store, a_log(store, f"s{number:02}").key, version=5_000).create()
        log.say(str(number)).roll_up()
    catalog = follow(SlowStore(store, Nth("get", times=1_000), clock, after=0.6 * LIMIT))
    assert refreshed(catalog) == [str(number) for number in range(many)]
    assert metrics.requests["LIST"] == 2 * many + 3


def test_a_cold_refresh_of_a_lake_that_writers_swept_long_ago(
    store: MemoryStore, catalog: Catalog
) -> None:
    """Only what is still there is needed."""
    log = say_all(a_log(store).create({"k": 1}), "abcdef").roll_up()
    log.sweep(log.version)
    assert refreshed(catalog) == list("abcdef")
    assert len([*store.list("")]) == 2
