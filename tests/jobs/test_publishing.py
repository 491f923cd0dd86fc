"""Publishing: who loses a race keeps what the winner has not touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore import Lake
from lakestore.errors import ConflictError
from lakestore.history.archive import EVENTS, STATE
from lakestore.jobs import compact
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.run_files import absorbed_by
from lakestore.log.keys import Scope, manifest_key
from lakestore.log.manifests import Manifest, StoredFile, encode
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import StateRow
from tests.support.answers import answers
from tests.support.archives import APP, Busy, Site, delete_packed, event, newest
from tests.support.faulty_store import InterruptedStore, LostReplyStore, Nth, SlowStore

LIMIT = 301.0


def row(user: str, session: str, version: int = 1) -> SessionRow:
    """Return what is packed of a session without events."""
    return SessionRow(
        app_name=APP,
        user_id=user,
        session_id=session,
        version=version,
        token=f"{version:016x}",
        alive=False,
        state=None,
        stamp=None,
        created_at=None,
        active_at=version,
        last_event_time=None,
        last_event_id=None,
        events=0,
        segments=(),
    )


def key_row(key: str, counter: int, value: str | None = "1") -> StateRow:
    """Return a key of the app's state; `counter` orders."""
    stamp = f"{counter:017}-000000-{'0' * 16}"
    return StateRow(APP, None, key, value, stamp, "s", "ana", 1)


def set_rows(*rows: StateRow) -> Changes:
    """Return what packing these rows makes of the app."""
    return Changes(keyed={STATE.name: list(rows)})


def publisher(lake: Lake, **options: Any) -> Publisher:
    """Return a publisher for the app."""
    return Publisher(lake.environment, lake.sessions.archive, APP, **options)


def rows(lake: Lake) -> list[SessionRow]:
    """Return all that is packed."""
    return [each.row for each in lake.sessions.archive.sessions(newest(lake))]


def test_the_loser_keeps_what_the_winner_left(site: Site) -> None:
    """Of sessions in both changes the winner's count; all others of the loser do."""
    one, two = site.lake(), site.lake()
    first = Changes()
    for session in "abc":
        first.add(Change(None, row("ana", session)))
    publisher(one).publish(first)

    def meanwhile() -> None:
        winners = Changes()
        winners.add(Change(row("ana", "a"), row("ana", "a", 7)))
        winners.add(Change(None, row("ben", "d", 7)))
        publisher(one).publish(winners)

    store = InterruptedStore(site.store, Nth("put", holding="manifests/"), meanwhile)
    losers = Changes()
    for before, after in (
        (row("ana", "a"), row("ana", "a", 5)),
        (row("ana", "b"), row("ana", "b", 5)),
        (None, row("ben", "d", 5)),
        (None, row("ben", "e", 5)),
    ):
        losers.add(Change(before, after))
    publisher(site.lake(store)).publish(losers)
    assert rows(two) == [
        row("ana", "a", 7),
        row("ana", "b", 5),
        row("ana", "c"),
        row("ben", "d", 7),
        row("ben", "e", 5),
    ]


def test_a_change_of_what_is_not_there_any_more_is_dropped(site: Site) -> None:
    """When nothing is left to say, nothing is published."""
    lake = site.lake()
    changes = Changes()
    changes.add(Change(row("ana", "a", 3), row("ana", "a", 4)))
    assert publisher(lake).publish(changes) is None
    assert newest(lake).number == 0


def test_state_is_the_latest_whoever_publishes_it(site: Site) -> None:
    """Late rows with early stamps change nothing, and of equal ones the pruned one counts."""
    lake = site.lake()
    publisher(lake).publish(set_rows(key_row("a", 5), key_row("b", 5), key_row("b", 6)))
    number = newest(lake).number
    assert publisher(lake).publish(set_rows(key_row("a", 4), key_row("b", 6))) is None
    publisher(lake).publish(set_rows(key_row("a", 5, None), key_row("c", 1)))
    assert newest(lake).number == number + 1
    found = lake.sessions.archive.state(newest(lake), [Scope(APP, None)])[Scope(APP, None)]
    assert sorted((one.key, one.stamp[:17], one.value) for one in found) == [
        ("a", f"{5:017}", None),
        ("b", f"{6:017}", "1"),
        ("c", f"{1:017}", "1"),
    ]
    publisher(lake).publish(set_rows(key_row("a", 5, "2")))
    assert lake.sessions.shared.read([Scope(APP, None)])[Scope(APP, None)].values() == {
        "b": 1,
        "c": 1,
    }


def test_an_upload_that_is_named_for_deletion(site: Site) -> None:
    """A pack that a sweep took for an orphan is not published (K1)."""
    lake = site.lake()
    Busy(lake).work(20)

    def doom() -> None:
        (pack,) = [stored.key for stored in site.store.list("packs/")]
        doomed = Manifest(APP, 1, "aa").dooming([pack])
        site.store.put_if_absent(manifest_key(APP, 1), encode(doomed))

    store = InterruptedStore(site.store, Nth("put", holding="packs/"), doom, when="after")
    with pytest.raises(ConflictError, match="sweep has taken its pack"):
        compact(site.lake(store))
    assert newest(lake).tables == {}


@pytest.mark.parametrize("outcome", ["landed", "resent", "dropped"])
@pytest.mark.parametrize("holding", ["manifests/", "packs/", "runs/"])
def test_lost_replies(
    site: Site, holding: str, outcome: Literal["landed", "resent", "dropped"]
) -> None:
    """A compaction that does not hear of a request it made succeeds, or another one does."""
    busy = Busy(site.lake())
    busy.work(40)
    before = answers(site.lake(), APP, busy.users)
    store = LostReplyStore(site.store, Nth("put", holding=holding), outcome)
    try:
        compact(site.lake(store))
    except Exception:  # noqa: BLE001 - whatever it says, the next one sees to it
        assert holding != "manifests/"
        compact(site.lake())
    assert answers(site.lake(), APP, busy.users) == before
    delete_packed(site.lake(), site.store)
    assert answers(site.lake(), APP, busy.users) == before


def test_a_stall_longer_than_the_limit(site: Site) -> None:
    """A compaction that takes hours is right, or does nothing (S7)."""
    busy = Busy(site.lake())
    busy.work(40)
    compact(busy.lake)
    for holding in ("packs/", "runs/", "manifests/"):
        busy.work(40)

        def meanwhile() -> None:
            busy.work(20)
            for _ in range(2):
                compact(busy.lake)
                busy.work(5)
            site.clock.advance(4_000)
            delete_packed(busy.lake, site.store)
            for number in range(1, newest(busy.lake).number):
                site.store.delete(manifest_key(APP, number))

        store = InterruptedStore(site.store, Nth("put", holding=holding), meanwhile)
        with suppress(ConflictError):
            compact(site.lake(store))
        before = answers(site.lake(), APP, busy.users)
        compact(site.lake())
        assert answers(site.lake(), APP, busy.users) == before
        for session in busy.sessions.values():
            shown = before[session.user_id, session.id][0][0]["events"]
            assert [one["id"] for one in shown] == [one.id for one in session.events]


def test_a_slow_store_does_not_stop_it(site: Site) -> None:
    """What took long and is still the newest counts."""
    busy = Busy(site.lake())
    busy.work(20)
    store = SlowStore(site.store, Nth("put", holding="manifests/"), site.clock, after=LIMIT)
    assert compact(site.lake(store)).events > 0
    assert newest(busy.lake).number >= 1
    assert compact(busy.lake).events == 0


def grown(sizes: Sequence[int]) -> tuple[list[list[int]], int]:
    """Return which runs there are after each of some changes of so many new rows, and the work."""
    runs: tuple[StoredFile, ...] = ()
    work, seen = 0, list[list[int]]()
    for size in sizes:
        absorbed, spent = absorbed_by(runs, size, whole_below=0)
        total = size + sum(run.rows for run in absorbed)
        work += total
        run = StoredFile(str(len(seen)), 0, 0, total, "", spent=spent)
        runs = (run, *runs[len(absorbed) :])
        seen.append([each.rows for each in runs])
    return seen, work


class TestRuns:
    """Few runs, and little that is written again."""

    @given(st.lists(st.integers(1, 10_000), min_size=1, max_size=200))
    def test_there_are_two_at_most(self, sizes: list[int]) -> None:
        """And none loses a row."""
        seen, _ = grown(sizes)
        for number, runs in enumerate(seen, start=1):
            assert len(runs) <= 2
            assert sum(runs) == sum(sizes[:number])

    def test_a_lake_that_doubles_is_written_once(self) -> None:
        """Each row is written twice or so."""
        _, work = grown([2**n for n in range(16)])
        assert work < 4 * 2**16

    @pytest.mark.parametrize("each", [1, 10, 100])
    def test_small_changes_of_a_large_lake(self, each: int) -> None:
        """A change of b rows in a lake of n writes about the root of 2 n b, not n."""
        large, changes = 100_000, 300
        _, before = grown([large])
        _, work = grown([large, *[each] * changes])
        assert (work - before) / changes < 2.5 * (2 * large * each) ** 0.5

    def test_what_is_small_is_one(self) -> None:
        """As long as a run is read whole, there is no second one."""
        small, large = StoredFile("a", 1_000, 0, 9_000, ""), StoredFile("b", 2**20, 0, 9_000, "")
        assert absorbed_by([small], 1) == ([small], 0)
        assert absorbed_by([large], 1) == ([], 1)

    def test_odd_changes_between_do_not_cost_more(self) -> None:
        """A tiny change among larger ones does not make the large run be written again."""
        large, changes = 100_000, 200
        _, before = grown([large])
        _, work = grown([large, *[100, 1] * changes])
        assert (work - before) / (2 * changes) < 2.5 * (2 * large * 100) ** 0.5


@pytest.mark.parametrize("whole_below", [0, 2**30], ids=["ranges", "whole"])
def test_rows_of_runs_that_were_merged(site: Site, whole_below: int) -> None:
    """What was said last of each session and key is what is read, by place, by user, and in all."""
    lake = site.lake()
    expected: dict[tuple[str, str], SessionRow] = {}
    users = ["", "a", "b", "c"]

    def at(number: int) -> tuple[str, str]:
        return f"u{number % 3}" + "é" * (number % 2), f"s{number % 17:02}"

    for turn in range(12):
        changes = set_rows(key_row(f"k{turn % 5}", turn))
        for number in range(turn, turn + 5 + turn):
            place = at(number)
            changes.add(Change(expected.get(place), row(*place, turn + 1)))
        for place, change in changes.sessions.items():
            expected[place] = change.after
        publisher(lake, whole_below=whole_below, group_rows=4).publish(changes)
        assert rows(lake) == [expected[place] for place in sorted(expected)]
    manifest, archive = newest(lake), lake.sessions.archive
    assert len(manifest.table(EVENTS.name).runs) <= 2
    assert bool(manifest.table(STATE.name).runs[0].groups) is (whole_below == 0)
    wanted = [*expected, ("u0", "nobody"), ("zz", "z"), *((user, "") for user in users)]
    found = archive.sessions_at(manifest, wanted)
    assert {place: each.row for place, each in found.items()} == expected
    for user in sorted({user for user, _ in expected}):
        mine = [expected[place] for place in sorted(expected) if place[0] == user]
        assert [each.row for each in archive.sessions(manifest, user)] == mine
        after = archive.sessions(manifest, user, (user, mine[0].session_id))
        assert [each.row for each in after] == mine[1:]
    state = archive.state(manifest, [Scope(APP, None), Scope(APP, "ana")])
    assert sorted(one.key for one in state[Scope(APP, None)]) == [f"k{n}" for n in range(5)]
    assert state[Scope(APP, "ana")] == []


@pytest.mark.parametrize("order", [lambda a, b: (a, b), lambda a, b: (b, a)])
def test_two_hosts_that_pack_the_same(
    site: Site, order: Callable[[Lake, Lake], tuple[Lake, Lake]]
) -> None:
    """The second one's packs are nobody's; no event is there twice, and nothing is lost."""
    busy = Busy(site.lake())
    busy.work(60)
    before = answers(site.lake(), APP, busy.users)
    one, two = order(site.lake(), site.lake())

    def meanwhile() -> None:
        busy.service.append_event(next(iter(busy.sessions.values())), event(8_000))
        compact(one)

    store = InterruptedStore(site.store, Nth("put", holding="packs/"), meanwhile)
    compact(site.lake(store))
    compact(two)
    after = answers(site.lake(), APP, busy.users)
    assert len(after["events"]) == len(before["events"]) + 1
    delete_packed(site.lake(), site.store)
    assert answers(site.lake(), APP, busy.users) == after
