"""Which versions of artifacts are pruned, and how that is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakestore.errors import InputError, ReadOnlyError
from lakestore.jobs import RetentionPolicy, compact, prune_artifacts
from lakestore.log.keys import ArtifactKey
from tests.support.artifacts import OTHER, REPORT, SHARED, payloads, save
from tests.support.faulty_store import InterruptedStore, Nth
from tests.support.sites import APP, Site

DAY = 86_400.0
BO = ArtifactKey(APP, "Bo", "s1", "report.pdf")


@pytest.fixture
def site() -> Iterator[Site]:
    """An empty lake in memory."""
    made = Site()
    yield made
    made.lake.close()


def aged(site: Site, *keys: ArtifactKey, days: tuple[int, ...] = (40, 30, 20, 10)) -> None:
    """Save versions of so many days ago."""
    now = 0.0
    for day in days:
        site.clock.advance((max(days) - day) * DAY - now)
        now = (max(days) - day) * DAY
        for key in keys:
            save(site.lake, b"%d days" % day, key)
    site.clock.advance(min(days) * DAY)


def living(site: Site, key: ArtifactKey = REPORT) -> list[int]:
    """Return which versions there are."""
    return list(payloads(site.open(), key))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"older_than_days": 25}, [2, 3]),
        ({"older_than_days": 5}, [3]),
        ({"older_than_days": 5, "keep_last": 3}, [1, 2, 3]),
        ({"older_than_days": 5, "keep_last": 9}, [0, 1, 2, 3]),
        ({"older_than_days": 5, "latest": True}, []),
        ({"older_than_days": 15, "latest": True}, [3]),
        ({"older_than_days": 50}, [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("packs", [False, True])
def test_what_stays(site: Site, asked: dict[str, Any], left: list[int], packs: bool) -> None:
    """The oldest versions go by their age, never the latest unless asked; numbers stay."""
    aged(site, REPORT)
    if packs:
        compact(site.lake)
    would = prune_artifacts(site.lake, **asked, dry_run=True)
    assert living(site) == [0, 1, 2, 3]
    report = prune_artifacts(site.lake, **asked)
    assert living(site) == left
    assert report["table"] == "artifacts"
    assert report["deleted_count"] == would["deleted_count"] == 4 - len(left)
    assert report["deleted_bytes"] == would["deleted_bytes"] == 7 * (4 - len(left))
    assert prune_artifacts(site.lake, **asked)["deleted_count"] == 0


def test_scopes(site: Site) -> None:
    """An app, a user, a session: what is not asked for stays."""
    keys = (REPORT, OTHER, SHARED, BO)
    aged(site, *keys, days=(40, 10))
    asked: dict[str, Any] = {"older_than_days": 20, "app_name": APP}
    assert prune_artifacts(site.lake, **asked, user_id="Bo")["deleted_count"] == 1
    assert [len(living(site, key)) for key in keys] == [2, 2, 2, 1]
    compact(site.lake)
    found = prune_artifacts(site.lake, **asked, user_id="ana", session_id="s1")
    assert found["deleted_count"] == 2
    assert [len(living(site, key)) for key in keys] == [1, 1, 2, 1]
    assert prune_artifacts(site.lake, older_than_days=20)["deleted_count"] == 1


def test_shared_payloads_count_once(site: Site) -> None:
    """Bytes are those of payloads that no version refers to afterwards."""
    for _ in range(3):
        save(site.lake, b"same")
        save(site.lake, b"other")
    site.clock.advance(40 * DAY)
    report = prune_artifacts(site.lake, older_than_days=30, keep_last=2)
    assert (report["deleted_count"], report["deleted_bytes"]) == (4, 0)


def test_what_is_saved_meanwhile_stays(site: Site) -> None:
    """It is judged anew: a save between judging and pruning is neither lost nor counted."""
    aged(site, REPORT, days=(40, 30))
    puts = Nth("put", holding=REPORT.log)
    with site.open(
        lambda inner: InterruptedStore(inner, puts, lambda: save(site.lake, b"new"))
    ) as lake:
        report = prune_artifacts(lake, older_than_days=5, latest=True)
    assert report["deleted_count"] == 2
    assert payloads(site.open()) == {2: b"new"}


def test_a_policy_prunes_artifacts(site: Site, tmp_path: Path) -> None:
    """A retention policy names how old, how many stay, and whether the latest may go."""
    aged(site, REPORT)
    path = tmp_path / "retention.toml"
    path.write_text("artifacts_older_than_days = 5\nartifacts_keep_last = 2\n")
    report = compact(site.lake, policy=RetentionPolicy.from_toml(path))
    assert [(it["table"], it["deleted_count"]) for it in report.pruned] == [("artifacts", 2)]
    assert living(site) == [2, 3]
    RetentionPolicy(artifacts_older_than_days=5, artifacts_latest=True).apply(site.lake)
    assert living(site) == []


def test_damaged_artifacts_are_passed_over(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot be read is logged, and the others are pruned."""
    aged(site, REPORT, OTHER, days=(40, 10))
    compact(site.lake)
    save(site.lake, b"new", OTHER)
    (key,) = [key for key in site.stored(OTHER.log) if key.endswith("3.parquet")]
    site.store.delete(key)
    site.store.put_if_absent(key, b"no Parquet")
    with site.open() as lake:
        assert prune_artifacts(lake, older_than_days=20)["deleted_count"] == 1
    assert OTHER.log in caplog.text


def test_now(site: Site) -> None:
    """Ages count to the time that is given."""
    aged(site, REPORT, days=(2, 1))
    now = datetime.fromtimestamp(site.clock.wall(), UTC) + timedelta(days=29)
    assert prune_artifacts(site.lake, older_than_days=30, now=now)["deleted_count"] == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"older_than_days": 0},
        {"keep_last": 0},
        {"latest": 1},
        {"latest": True, "keep_last": 2},
        {"user_id": "ana"},
        {"app_name": APP, "session_id": "s1"},
        {"app_name": APP, "user_id": "ana", "session_id": ""},
    ],
)
def test_bad_arguments(site: Site, asked: dict[str, Any]) -> None:
    """What makes no sense is one clear error before anything is read."""
    with pytest.raises(InputError):
        prune_artifacts(site.lake, **asked)


def test_read_only(site: Site) -> None:
    """A lake that is open for reading is not pruned; a dry run is."""
    aged(site, REPORT, days=(40, 10))
    with site.open(read_only=True) as lake:
        with pytest.raises(ReadOnlyError):
            prune_artifacts(lake, older_than_days=20)
        assert prune_artifacts(lake, older_than_days=20, dry_run=True)["deleted_count"] == 1


def test_requests(site: Site) -> None:
    """Packed artifacts take one request each that is pruned, and none where nothing is old."""
    keys = [ArtifactKey(APP, "ana", "s1", f"{number}.txt") for number in range(12)]
    aged(site, *keys, days=(40, 10))
    aged(site, OTHER, days=(0,))
    compact(site.lake)
    with site.open() as lake:
        before = lake.metrics.requests
        assert prune_artifacts(lake, older_than_days=20)["deleted_count"] == len(keys)
        asked = lake.metrics.requests_since(before)
    assert asked["PUT"] == len(keys)
    assert asked["GET"] <= 4
    assert asked["LIST"] <= 16
