"""Compaction of artifacts: what is fresh becomes rows of runs, and no answer changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from lakestore import Lake
from lakestore.errors import FormatError
from lakestore.history.archive import ARTIFACTS
from lakestore.jobs import artifact_packing, compact, sweep
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.log.keys import ArtifactKey, manifest_key
from lakestore.tables.artifacts import ArtifactRow
from tests.support.artifacts import OTHER, REPORT, SHARED, payloads, save
from tests.support.faulty_store import InterruptedStore, Nth
from tests.support.sites import APP, Site

KEYS = (REPORT, OTHER, SHARED, ArtifactKey(APP, "Bo", "s1", "x" * 150))


@pytest.fixture
def site() -> Iterator[Site]:
    """An empty lake in memory."""
    made = Site()
    yield made
    made.lake.close()


def shown(lake: Lake) -> dict[ArtifactKey, dict[int, bytes]]:
    """Return all that is loaded of the artifacts."""
    return {key: payloads(lake, key) for key in KEYS}


def rows(site: Site) -> list[ArtifactRow]:
    """Return what is packed."""
    manifest = site.manifest()
    files = manifest.table(ARTIFACTS.name).runs
    return list(site.lake.sessions.archive.rows_in(ARTIFACTS, APP, files))


def test_no_answer_changes(site: Site) -> None:
    """Before, after and once all is swept, readers new and old load the same versions."""
    numbers = count()
    for round_ in range(4):
        for key in KEYS[round_ % 2 :]:
            save(site.lake, b"%d" % next(numbers), key)
        if round_ == 2:
            site.lake.artifacts.delete(OTHER)
        before = shown(site.lake)
        assert compact(site.lake).artifacts >= len(KEYS) - 1
        assert shown(site.lake) == shown(site.open()) == before
        site.pass_grace()
        sweep(site.lake)
        assert site.stored("artifacts/log/") == site.stored(OTHER.log)
        assert shown(site.lake) == shown(site.open()) == before
    site.pass_grace()
    sweep(site.lake)
    assert compact(site.lake).artifacts <= 1  # what named a payload of the deleted one
    assert compact(site.lake).artifacts == 0


def test_one_manifest_for_all(site: Site) -> None:
    """Artifacts and what else is fresh come in one manifest; a read for each, and one run."""
    for number in range(20):
        save(site.lake, b"x", ArtifactKey(APP, "ana", "s1", f"{number}.txt"))
    with site.open() as lake:
        before = lake.metrics.requests
        assert compact(lake).artifacts == 20
        asked = lake.metrics.requests_since(before)
    assert (asked["GET"], asked["PUT"]) == (21, 2)
    assert asked["LIST"] <= 22
    assert site.manifest().number == 1


def test_parts_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many artifacts some are published at a time; a run holds one row each, in the end."""
    monkeypatch.setattr(artifact_packing, "_SAVES_AT_ONCE", 6)
    keys = [ArtifactKey(APP, "ana", "s1", f"{number}.txt") for number in range(10)]
    for key in keys:
        save(site.lake, b"x", key)
    assert compact(site.lake).artifacts == len(keys)
    assert site.manifest().number > 2
    assert [row.filename for row in rows(site)] == [key.filename for key in keys]


def test_a_change_counts_only_if_nothing_came_between(site: Site) -> None:
    """Who lost the race for a manifest keeps what the winner has not touched."""
    save(site.lake, b"one")
    save(site.lake, b"one", OTHER)

    def meanwhile() -> None:
        save(site.lake, b"two")
        with site.open() as winner:
            row = winner.artifacts.load(REPORT).row()
            made = Changes(artifacts={ARTIFACTS.place(row): Change(None, row)})
            Publisher(winner.environment, winner.sessions.archive, APP).publish(made)

    puts = Nth("put", holding="manifests/")
    with site.open(lambda inner: InterruptedStore(inner, puts, meanwhile)) as loser:
        compact(loser)
    assert {row.filename: row.version for row in rows(site)} == {"report.pdf": 2, "other.txt": 1}
    assert payloads(site.open()) == {0: b"one", 1: b"two"}


def test_deleted_artifacts_keep_their_row(site: Site) -> None:
    """A version of the log is never used again, packed and swept or not."""
    save(site.lake, b"one")
    site.lake.artifacts.delete(REPORT)
    compact(site.lake)
    for _ in range(3):
        site.pass_grace()
        sweep(site.lake)
        compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    assert site.stored("artifacts/log/") == site.stored("artifacts/objects/") == []
    # A commit has named the payload before it went.
    assert [(row.version, row.saves) for row in rows(site)] == [(3, ())]
    with site.open() as lake:
        assert save(lake, b"two").version == 4
        assert payloads(lake) == {0: b"two"}


def test_damaged_artifacts_are_passed_over(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot be read stays in its log, and stops no other."""
    save(site.lake, b"one")
    save(site.lake, b"one", OTHER)
    (key,) = site.stored(f"{OTHER.log}")
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[:-8])
    with site.open() as lake:
        assert compact(lake).artifacts == 1
    assert OTHER.log in caplog.text
    site.pass_grace()
    sweep(site.lake)
    assert site.stored("artifacts/log/") == [key]


def test_a_lost_manifest_is_told_by_a_run_of_artifacts(site: Site) -> None:
    """What only a run that no manifest names tells of is not built over."""
    save(site.lake, b"one")
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    lost = site.store.get(manifest_key(APP, 1))
    site.store.delete(manifest_key(APP, 1))
    with site.open() as lake:
        with pytest.raises(FormatError, match="newest manifest of the app is lost"):
            compact(lake)
        site.pass_grace()
        assert sweep(lake).deleted == {}
    assert len(site.stored("artifacts/objects/")) == 1
    site.store.put_if_absent(manifest_key(APP, 1), lost)
    assert payloads(site.open()) == {0: b"one"}


def test_a_job_that_died_has_lost_nothing(site: Site) -> None:
    """A run of artifacts whose logs are there still is an orphan, and others go on."""
    save(site.lake, b"one")
    compact(site.lake)
    site.store.delete(manifest_key(APP, 1))
    save(site.lake, b"two")
    with site.open() as lake:
        assert compact(lake).artifacts == 1
    assert payloads(site.open()) == {0: b"one", 1: b"two"}
