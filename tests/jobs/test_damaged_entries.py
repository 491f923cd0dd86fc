"""What a check tells of a damaged entry whose commit is not known any more."""

from __future__ import annotations

from lakestore.jobs import check, compact, prune_events, sweep
from lakestore.storage import MemoryStore
from tests.support.aging import AgingLake
from tests.support.clocks import ManualClock


def pruned() -> tuple[AgingLake, list[str]]:
    """Return a lake where three commits set one key and are pruned, with the keys of entries."""
    clock = ManualClock()
    aging = AgingLake(MemoryStore(clock=clock), clock)
    session = aging.create(state={"user:k": 0})
    for value in (1, 2):
        clock.advance(60)
        aging.say(session, "x", delta={"user:k": value})
    compact(aging.open())
    aging.pass_days(1)
    prune_events(aging.open(), older_than_days=1, now=aging.now)
    return aging, [one.key for one in aging.store.list("state/entries/")]


def damage(aging: AgingLake, key: str) -> None:
    """Put something else in place of an object."""
    aging.store.delete(key)
    aging.store.put_if_absent(key, b"x")


def test_a_pruned_commit_whose_entry_is_packed() -> None:
    """A damaged entry whose keys are packed costs nothing, before a sweep and after."""
    aging, entries = pruned()
    damage(aging, entries[1])
    for _ in range(2):
        report = check(aging.open(read_only=True))
        assert [(each.severity, each.kind) for each in report.findings] == [
            ("note", "damaged entry")
        ]
        aging.pass_days(1)
        sweep(aging.open())
    session = aging.service_of(aging.open()).get_session(
        app_name="travel", user_id="ana", session_id="s1"
    )
    assert session is not None
    assert session.state["user:k"] == 2


def test_an_entry_that_nobody_has_packed() -> None:
    """A damaged entry that no run names, of no commit that is known, is lost."""
    aging, entries = pruned()
    folder = entries[0].rpartition("/")[0]
    aging.store.put_if_absent(f"{folder}/01700000000000000-000009-0123456789abcdef.parquet", b"x")
    report = check(aging.open(read_only=True))
    assert [(each.severity, each.kind) for each in report.findings] == [("lost", "damaged entry")]
