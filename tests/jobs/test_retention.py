from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakestore.errors import InputError
from lakestore.jobs import RetentionPolicy, compact
from lakestore.log.keys import app_manifests
from tests.support.aging import APP, AgingLake, texts


def test_compact_applies_a_policy(aging: AgingLake) -> None:
    """One call prunes what the policy allows, packs the rest and tells what it pruned."""
    session = aging.create("s1", state={"user:a": 1})
    aging.create("idle")
    aging.say(session, "old")
    aging.pass_days(200)
    aging.say(session, "young")
    policy = RetentionPolicy(
        sessions_idle_days=30, events_older_than_days=90, user_state_idle_days=180
    )
    report = compact(aging.lake, policy=policy)
    assert [(each["table"], each["deleted_count"]) for each in report.pruned] == [
        ("sessions", 1),
        ("events", 1),
        ("state", 1),
    ]
    found = aging.load(session)
    assert found is not None
    assert (texts(found.events), found.state) == (["young"], {})
    assert aging.ids() == ["s1"]


@pytest.mark.parametrize("state", ["fresh", "packed", "gone on"])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_dry_run_reports_what_a_run_then_prunes(aging: AgingLake, state: str, keep: int) -> None:
    """Step by step: of sessions that would be deleted no events are counted; nothing is changed."""
    for user in ("ana", "ben"):
        for name in ("s1", "s2", "s3"):
            session = aging.create(name, user_id=user, state={f"user:{name}": 1})
            for number in range(3):
                aging.say(session, f"old {number}", f"turn {number}")
    lives = session
    if state != "fresh":
        compact(aging.lake)
    if state == "gone on":
        aging.say(lives, "more", "turn 4")
    aging.pass_days(200)
    aging.say(lives, "young", "turn 5", delta={"user:s3": 2})
    policy = RetentionPolicy(
        sessions_idle_days=30,
        sessions_keep_last=keep,
        events_older_than_days=90,
        user_state_idle_days=180,
    )
    before = {one.key: aging.store.get(one.key) for one in aging.store.list("")}
    would = compact(aging.open(read_only=True), policy=policy, dry_run=True)
    assert {one.key: aging.store.get(one.key) for one in aging.store.list("")} == before
    assert would.dry_run
    assert (would.sessions, would.events, would.packed_bytes) == (0, 0, 0)
    done = compact(aging.open(), policy=policy)
    assert [each["deleted_count"] for each in done.pruned] == [
        5 - keep,
        3 + 3 * keep + (state == "gone on"),
        5,
    ]
    same = {"dry_run": None, "elapsed_ms": None}
    assert [{**each, **same} for each in would.pruned] == [{**each, **same} for each in done.pruned]
    again = compact(aging.open(), policy=policy, dry_run=True)
    assert [each["deleted_count"] for each in again.pruned] == [0, 0, 0]


def test_what_a_policy_packs_is_counted(aging: AgingLake) -> None:
    """Pruning events packs first: the report tells of those rows too."""
    aging.say(aging.create("s1"), "old")
    aging.pass_days(1)
    report = compact(aging.lake, policy=RetentionPolicy(events_older_than_days=90))
    assert (report.sessions, report.events) == (1, 2)
    assert report.packed_bytes > 0


def test_a_dry_run_without_a_policy_is_refused(aging: AgingLake) -> None:
    """There is nothing that it could report."""
    with pytest.raises(InputError, match="policy"):
        compact(aging.lake, dry_run=True)


def test_nothing_is_pruned_unless_it_is_asked_for(aging: AgingLake) -> None:
    """No policy, or one that says nothing, keeps everything for ever."""
    session = aging.create("s1", state={"user:a": 1})
    aging.say(session, "old")
    aging.pass_days(10_000)
    before = aging.load(session)
    assert compact(aging.lake).pruned == ()
    assert compact(aging.lake, policy=RetentionPolicy()).pruned == ()
    assert aging.load(session) == before


def test_what_is_no_policy_is_refused(aging: AgingLake) -> None:
    """A dict, as TOML gives it, is no policy."""
    given: Any = {"sessions_idle_days": 30}
    with pytest.raises(InputError, match="RetentionPolicy"):
        compact(aging.lake, policy=given)


def test_a_policy_for_one_app(aging: AgingLake) -> None:
    """With `app_name` the policy is applied to that app alone."""
    for app in (APP, "other"):
        aging.create("s1", app_name=app)
    aging.pass_days(100)
    compact(aging.lake, app_name=APP, policy=RetentionPolicy(sessions_idle_days=30))
    assert (aging.ids(APP), aging.ids("other")) == ([], ["s1"])


def test_a_lake_with_nothing_to_compact_is_pruned_too(aging: AgingLake) -> None:
    """What is packed already is pruned as well."""
    aging.say(aging.create("s1"), "old")
    compact(aging.lake)
    number = aging.lake.sessions.archive.newest(app_manifests(APP)).number
    aging.pass_days(100)
    (report,) = compact(aging.lake, policy=RetentionPolicy(events_older_than_days=90)).pruned
    assert report["deleted_count"] == 1
    assert aging.lake.sessions.archive.newest(app_manifests(APP)).number == number + 1


def test_a_policy_is_read_from_toml(tmp_path: Path) -> None:
    """Keys are the names of the fields; what is not said is kept for ever."""
    path = tmp_path / "retention.toml"
    path.write_text("sessions_idle_days = 30\nsessions_keep_last = 5\n")
    assert RetentionPolicy.from_toml(path) == RetentionPolicy(30, 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sesions_idle_days = 30", "sesions_idle_days"),
        ("sessions_idle_days = 0", "sessions_idle_days"),
        ("sessions_idle_days = true", "sessions_idle_days"),
        ('events_older_than_days = "90"', "events_older_than_days"),
        ("user_state_idle_days = 1.5", "user_state_idle_days"),
        ("sessions_keep_last = -1", "sessions_keep_last"),
        ("artifacts_keep_last = 3", "artifacts_older_than_days is needed"),
        ("artifacts_latest = true", "artifacts_older_than_days is needed"),
        (
            "artifacts_older_than_days = 9\nartifacts_keep_last = 3\nartifacts_latest = true",
            "artifacts_latest.*give one",
        ),
        ("[sessions]\nidle_days = 3", "sessions"),
        ("this is no toml", "no TOML"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """A misspelt key, or a value of another type, is named together with the file."""
    path = tmp_path / "retention.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as refused:
        RetentionPolicy.from_toml(path)
    assert "retention.toml" in str(refused.value)
