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
