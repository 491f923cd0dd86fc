"""Jobs and telemetry: no row is shown twice or missing, and what was forgotten stays so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakestore import Lake
from lakestore.history.archive import TELEMETRY
from lakestore.jobs import (
    check,
    compact,
    departed,
    erase_user,
    prune_events,
    prune_telemetry,
    stats,
    sweep,
)
from lakestore.jobs.changes import Publisher
from lakestore.jobs.fresh_rows import fresh_changes
from lakestore.log.keys import TELEMETRY_ENTRIES, run_key
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock
from tests.support.measured import APP, USER, measured, put, shown

GRACE = 3_601.0


@pytest.fixture
def aging() -> Iterator[AgingLake]:
    """A lake with a session of the user."""
    clock = ManualClock()
    made = AgingLake(MemoryStore(clock=clock), clock)
    made.create()
    yield made
    made.lake.close()


def entries(aging: AgingLake) -> list[str]:
    """Return the keys of all entries of telemetry."""
    return list(aging.store.names(TELEMETRY_ENTRIES))


def newest(lake: Lake) -> dict[str, int]:
    """Return how many rows the runs of telemetry have, by their keys."""
    manifest = lake.sessions.archive.newest(f"manifests/app={APP}/")
    runs = manifest.table(TELEMETRY.name).runs
    return {run_key(APP, TELEMETRY.name, run.id): run.rows for run in runs}


def test_each_row_is_shown_once(aging: AgingLake) -> None:
    """Fresh, packed, packed and still there, swept; by who follows and by who begins anew."""
    warm, ids = aging.open(), []
    for _ in range(3):
        ids += put(aging.lake, measured(), measured("ben"))
        assert shown(warm) == shown(aging.open()) == ids
        compact(aging.lake)
        assert shown(warm) == shown(aging.open()) == ids
        aging.clock.advance(GRACE)
        sweep(aging.lake)
        assert entries(aging) == []
        assert shown(warm) == shown(aging.open()) == ids
    assert sum(newest(aging.lake).values()) == len(ids)
    assert compact(aging.lake).elapsed_ms >= 0
    assert check(aging.lake).findings == ()


def test_a_batch_that_lands_twice_counts_once(aging: AgingLake) -> None:
    """An entry may be put again under another stamp, and land when the first was long swept."""
    row = measured()
    (name,) = put(aging.lake, row)
    put(aging.lake, row)
    warm = aging.open()
    assert shown(warm) == shown(aging.open()) == [name]
    put(aging.lake, row)
    assert shown(warm) == [name]
    compact(aging.lake)
    assert shown(warm) == shown(aging.open()) == [name]
    aging.clock.advance(GRACE)
    sweep(aging.lake)
    put(aging.lake, row)
    assert shown(warm) == shown(aging.open()) == [name]
    compact(aging.lake)
    assert shown(warm) == shown(aging.open()) == [name]
    assert sum(newest(aging.lake).values()) == 1


def test_what_was_pruned_does_not_come_back(aging: AgingLake) -> None:
    """Neither from entries that are still there, nor by a job that had read them before."""
    put(aging.lake, measured())
    with aging.open() as slow:
        (made,) = fresh_changes(slow, APP)
        report = prune_telemetry(aging.lake, dry_run=True)
        assert {**prune_telemetry(aging.lake), "elapsed_ms": 0, "dry_run": True} == {
            **report,
            "elapsed_ms": 0,
        }
        assert report["deleted_count"] == 1
        assert len(entries(aging)) == 1
        Publisher(slow.environment, slow.sessions.archive, APP).publish(made)
    compact(aging.lake)
    assert shown(aging.lake) == shown(aging.open()) == []
    aging.clock.advance(GRACE)
    sweep(aging.lake)
    assert entries(aging) == []


def test_only_what_is_old_and_asked_for_is_pruned(aging: AgingLake) -> None:
    """By the time at which it began, and of one user where one is named."""
    young = int(aging.clock.wall() * 1e6)
    old, others, new = put(aging.lake, measured(), measured("ben"), measured(started_at=young))
    assert prune_telemetry(aging.lake, app_name=APP, user_id=USER)["deleted_count"] == 1
    assert shown(aging.lake) == [others, new]
    assert prune_telemetry(aging.lake, older_than_days=1)["deleted_count"] == 1
    assert shown(aging.lake) == [new]
    assert old != new


@pytest.mark.parametrize("packed", [False, True])
def test_deleted_sessions_show_none(aging: AgingLake, packed: bool) -> None:
    """Nor does what begins anew under the same ids show what was measured before."""
    put(aging.lake, measured(version=1))
    (other,) = put(aging.lake, measured(session_id="elsewhere", version=0))
    if packed:
        compact(aging.lake)
    aging.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
    assert shown(aging.lake) == [other]
    compact(aging.lake)
    assert shown(aging.lake) == shown(aging.open()) == [other]
    aging.create()
    assert shown(aging.lake) == [other]
    (name,) = put(aging.lake, measured(version=3))
    assert shown(aging.lake) == sorted([other, name])
    compact(aging.lake)
    assert shown(aging.lake) == shown(aging.open()) == sorted([other, name])


def test_cut_sessions_show_all(aging: AgingLake) -> None:
    """What was measured of events that were pruned stays: its session goes on."""
    session = aging.create("s2")
    aging.say(session, "one")
    (name,) = put(aging.lake, measured(session_id="s2", version=1))
    aging.pass_days(100)
    aging.say(session, "two")
    assert prune_events(aging.lake)["deleted_count"] == 1
    assert shown(aging.lake) == shown(aging.open()) == [name]
    aging.pass_days(100)
    assert prune_events(aging.lake)["deleted_count"] == 1
    assert shown(aging.lake) == shown(aging.open()) == [name]


def test_rows_go_with_the_last_trace_of_their_session(aging: AgingLake) -> None:
    """When what is packed tells nothing of a deleted session any more, neither does telemetry."""
    put(aging.lake, measured(version=1), measured(session_id="elsewhere", version=0))
    aging.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
    compact(aging.lake)
    for days in (1, 2, departed.KEPT / departed.LOOK_EVERY + 1):
        aging.pass_days(days)
        sweep(aging.lake)
    assert sum(newest(aging.lake).values()) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_an_erase_takes_all_of_a_user(aging: AgingLake, packed: bool) -> None:
    """Rows of sessions that the lake knows and of others, and those that land late; not others'."""
    put(aging.lake, measured(version=1), measured(session_id="elsewhere", version=0))
    (others,) = put(aging.lake, measured("ben", version=0))
    if packed:
        compact(aging.lake)
    warm = aging.open()
    assert len(shown(warm)) == 3
    receipt = erase_user(aging.lake, APP, USER, wait=False)
    assert shown(warm) == shown(aging.open()) == [others]
    put(aging.lake, measured(version=1), measured(session_id="elsewhere", version=0))
    assert shown(warm) == shown(aging.open()) == [others]
    receipt = receipt.finish(aging.lake)
    assert receipt.verify(aging.lake) == ()
    aging.clock.advance(GRACE)
    assert receipt.finish(aging.lake).status == "done"
    assert [key for key in entries(aging) if f"user={USER}" in key] == []
    aging.create()
    (again,) = put(aging.lake, measured(version=3))
    assert shown(warm) == sorted([others, again])


def test_a_damaged_entry_hides_itself_alone(aging: AgingLake) -> None:
    """It is named by a check, kept by sweeps, and what others hold is shown."""
    (name,) = put(aging.lake, measured())
    damaged = entries(aging)[0].replace(entries(aging)[0][-20:], "0000000000000000.parquet"[-20:])
    aging.store.put_if_absent(damaged, b"no Parquet")
    assert shown(aging.lake) == [name]
    compact(aging.lake)
    assert shown(aging.lake) == shown(aging.open()) == [name]
    (finding,) = check(aging.lake).findings
    assert (finding.severity, finding.kind, finding.key) == ("lost", "damaged entry", damaged)
    aging.clock.advance(GRACE)
    sweep(aging.lake)
    assert entries(aging) == [damaged]


def test_stats_count_what_is_fresh(aging: AgingLake) -> None:
    """Entries of telemetry make compaction due, and cost no opening of a session anything."""
    compact(aging.lake)
    before = stats(aging.lake).apps[0]
    put(aging.lake, measured())
    (app,) = stats(aging.lake).apps
    assert (app.other_entries, app.entries, app.total.fresh_objects) == (1, 0, 1)
    assert app.requests_now == before.requests_now
    compact(aging.lake)
    (app,) = stats(aging.lake).apps
    assert (app.other_entries, app.total.fresh_objects) == (0, 0)
    assert app.total.covered_objects > 0


def test_a_damaged_run_of_telemetry_fails_no_query(aging: AgingLake) -> None:
    """What is in it is not shown, sessions are; sweeps keep the entries that it may hold."""
    put(aging.lake, measured())
    compact(aging.lake)
    (key,) = newest(aging.lake)
    aging.store.delete(key)
    aging.store.put_if_absent(key, b"x" * 100)
    with aging.open(read_only=True) as lake:
        assert shown(lake) == []
        assert lake.sql("select count(*) from sessions").fetchall() == [(1,)]
    aging.clock.advance(GRACE)
    report = sweep(aging.lake)
    assert report.failures == 1
    assert len(entries(aging)) == 1
