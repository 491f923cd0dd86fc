"""What a sweep deletes of artifacts: covered commits, and payloads that were named before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
from typing_extensions import override

from lakestore import Lake
from lakestore.errors import StorageError
from lakestore.history.artifact_uploads import Draft
from lakestore.jobs import SweepReport, compact, prune_artifacts, sweep
from lakestore.log.keys import ArtifactKey, commit_key, payload_key
from lakestore.storage import ObjectStore
from lakestore.tables.artifacts import encode_commit
from tests.support.artifacts import OTHER, REPORT, SHARED, objects, payloads, save
from tests.support.faulty_store import AroundStore, InterruptedStore, Kind, Nth
from tests.support.sites import APP, GRACE, Site

R = TypeVar("R")

DAY = timedelta(days=1)


@pytest.fixture
def site() -> Iterator[Site]:
    """An empty lake in memory."""
    made = Site()
    yield made
    made.lake.close()


def orphan(site: Site, token: str = "0" * 16, key: ArtifactKey = REPORT) -> str:
    """Store a payload as a save does that then dies; return its key."""
    name = payload_key(key.objects, token, "report.pdf")
    site.store.put_if_absent(name, b"nobody's")
    return name


def kinds(report: SweepReport) -> dict[str, int]:
    """Return how many objects of each kind were deleted."""
    return {kind: swept.objects for kind, swept in report.deleted.items()}


def test_commits_below_an_old_one_go(site: Site) -> None:
    """A commit that is older than the grace covers those below it, with no job before."""
    for number in range(3):
        save(site.lake, b"%d" % number)
    site.pass_grace()
    save(site.lake, b"young")
    report = sweep(site.lake)
    assert kinds(report) == {"commits": 2}
    assert site.stored("artifacts/log/") == [commit_key(REPORT.log, v) for v in (3, 4)]
    assert payloads(site.open()) == {0: b"0", 1: b"1", 2: b"2", 3: b"young"}


def test_nothing_is_covered_by_a_damaged_commit(site: Site) -> None:
    """Commits below an old one stay where that cannot be read."""
    for number in range(3):
        save(site.lake, b"%d" % number)
    key = commit_key(REPORT.log, 3)
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[:-4])
    site.pass_grace()
    orphan(site)
    site.pass_grace()
    assert kinds(sweep(site.open())) == {}
    assert len(site.stored("artifacts/log/")) == 3


def test_orphans_are_named_then_go(site: Site) -> None:
    """A crash between payload and commit leaves one: named once old, gone a grace later."""
    save(site.lake, b"one")
    lost = orphan(site)
    assert sweep(site.lake).named == 0
    site.pass_grace()
    first = sweep(site.lake)
    assert (first.named, kinds(first)) == (1, {})
    site.clock.advance(GRACE - 10)
    assert sweep(site.lake).named == 0
    assert lost in objects(site.store)
    site.clock.advance(20)
    assert kinds(sweep(site.lake)) == {"commits": 1, "payloads": 1}
    assert len(objects(site.store)) == 1
    assert payloads(site.open()) == {0: b"one"}


def test_an_orphan_of_a_first_save_goes(site: Site) -> None:
    """Also where no version was ever saved."""
    orphan(site)
    for _ in range(3):
        site.pass_grace()
        sweep(site.lake)
    assert objects(site.store) == []
    assert save(site.lake, b"one").artifact_version == 0


def test_names_that_are_packed_or_swept_count(site: Site) -> None:
    """What was named may go once its commit is covered by an old manifest, or swept."""
    save(site.lake, b"one")
    orphan(site)
    site.pass_grace()
    assert sweep(site.lake).named == 1
    compact(site.lake)
    save(site.lake, b"two")
    site.pass_grace()
    save(site.lake, b"three")
    report = sweep(site.lake)
    assert kinds(report)["payloads"] == 1
    assert payloads(site.open()) == {0: b"one", 1: b"two", 2: b"three"}


@pytest.mark.parametrize("packs", [False, True])
def test_payloads_of_dropped_versions_go(site: Site, packs: bool) -> None:
    """Pruned and deleted versions lose their payloads, those that live keep theirs."""
    for key in (REPORT, OTHER, SHARED):
        for number in range(3):
            save(site.lake, b"%d" % number, key)
            site.clock.advance(2 * DAY.total_seconds())
    if packs:
        compact(site.lake)
    site.lake.artifacts.delete(OTHER)
    assert prune_artifacts(site.lake, older_than_days=3)["deleted_count"] == 4
    if packs:
        compact(site.lake)
    for _ in range(3):
        site.pass_grace()
        sweep(site.lake)
    assert objects(site.store, OTHER) == []
    assert payloads(site.open()) == payloads(site.open(), SHARED) == {2: b"2"}
    assert len(objects(site.store)) == len(objects(site.store, SHARED)) == 1


def test_grace_0_sweeps_at_once(site: Site) -> None:
    """With no grace all that is needless goes in one sweep, named all the same."""
    save(site.lake, b"one")
    save(site.lake, b"two")
    site.lake.artifacts.delete(OTHER)
    save(site.lake, b"other", OTHER)
    site.lake.artifacts.delete(OTHER)
    compact(site.lake)
    dry = sweep(site.lake, grace=0, dry_run=True)
    report = sweep(site.lake, grace=0)
    assert kinds(report) == kinds(dry)
    assert kinds(report)["payloads"] == 1
    assert objects(site.store, OTHER) == []
    assert payloads(site.open()) == {0: b"one", 1: b"two"}


def test_a_dry_run_changes_nothing(site: Site) -> None:
    """It tells what would be named, and deletes and commits nothing."""
    save(site.lake, b"one")
    orphan(site)
    site.pass_grace()
    before = site.stored()
    assert sweep(site.lake, dry_run=True).named == 1
    assert site.stored() == before


def test_a_save_under_way_stores_its_payload_again(site: Site) -> None:
    """A payload that was named between its upload and its commit is stored under a new name."""
    save(site.lake, b"one")
    site.lake.artifacts.load(REPORT)
    commits = Nth("put", holding=REPORT.log)

    def meanwhile() -> None:
        with site.open() as sweeper:
            site.pass_grace()
            assert sweep(sweeper).named == 1

    with site.open(lambda inner: InterruptedStore(inner, commits, meanwhile)) as saver:
        saved = save(saver, b"two")
    assert saved.artifact_version == 1
    for _ in range(3):
        site.pass_grace()
        sweep(site.lake)
    assert payloads(site.open()) == {0: b"one", 1: b"two"}
    assert len(objects(site.store)) == 2


def test_what_is_saved_while_a_sweep_judges_stays(site: Site) -> None:
    """A version that is committed before the sweep has named its payload keeps it."""
    save(site.lake, b"one")
    stored = orphan(site)
    site.pass_grace()

    def meanwhile() -> None:
        view = site.open().artifacts.load(REPORT)
        late = replace(view.saves[0], version=2, token="t", artifact_version=1, payload=stored)
        commit = view.commit("save", "t", late.committed_at, saved=late)
        site.store.put_if_absent(commit_key(REPORT.log, 2), encode_commit(commit))

    names = Nth("put", holding=REPORT.log)
    with site.open(lambda inner: InterruptedStore(inner, names, meanwhile)) as sweeper:
        assert sweep(sweeper).named == 0
    site.pass_grace()
    assert sweep(site.open()).named == 0
    assert stored in objects(site.store)


class Refusing(AroundStore):
    """Refuses every third delete."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.deletes = 0
        self.refused: list[str] = []

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        self.deletes += kind == "delete"
        if kind == "delete" and self.deletes % 3 == 0:
            self.refused.append(key)
            raise StorageError(f"slow down. {key=}")
        return call()


def test_r074_refused_deletes(site: Site) -> None:
    """Each delete that the store refuses is reported by its key, and a rerun does it."""
    keys = [ArtifactKey(APP, "ana", "s1", f"{number}.txt") for number in range(4)]
    for key in keys:
        for number in range(3):
            save(site.lake, b"%d" % number, key)
    site.clock.advance(31 * DAY.total_seconds())
    for key in keys:
        save(site.lake, b"new", key)
    assert prune_artifacts(site.lake, older_than_days=30)["deleted_count"] == 12
    compact(site.lake)
    site.pass_grace()
    assert sweep(site.lake).named == 12
    site.pass_grace()
    store = Refusing(site.store)
    with site.open(lambda _: store) as lake:
        report = sweep(lake)
        assert report.failures == len(store.refused) > 3
        assert all(any(key in reason for reason in report.reasons) for key in store.refused[:-1])
        assert len(site.stored("artifacts/objects/")) > len(keys)
        while sweep(lake).failures:
            pass
    for key in keys:
        assert payloads(site.open(), key) == {3: b"new"}
        assert len(objects(site.store, key)) == 1


def asked(lake: Lake) -> dict[str, int]:
    """Sweep, and return what that asked of the store."""
    before = lake.metrics.requests
    sweep(lake)
    return dict(lake.metrics.requests_since(before))


def test_work_is_what_there_is_to_sweep(site: Site) -> None:
    """Packed artifacts cost no request each; of n to name and n to delete each costs one."""
    keys = [ArtifactKey(APP, "ana", "s1", f"{number}.txt") for number in range(12)]
    for key in keys:
        save(site.lake, b"one", key)
    compact(site.lake)
    site.pass_grace()
    sweep(site.lake)
    site.pass_grace()
    with site.open() as lake:
        idle = asked(lake)
    assert idle.get("GET", 0) <= 3
    assert idle["DELETE"] == idle["PUT"] == 1  # to learn the store's time
    for number, key in enumerate(keys[:5]):
        orphan(site, f"{number:016}", key)
    site.pass_grace()
    with site.open() as lake:
        naming = asked(lake)
    assert naming["PUT"] == idle["PUT"] + 5
    assert naming.get("GET", 0) <= idle.get("GET", 0)
    assert naming["LIST"] <= idle["LIST"]
    site.pass_grace()
    with site.open() as lake:
        deleting = asked(lake)
    assert deleting["DELETE"] == idle["DELETE"] + 5
    assert deleting.get("GET", 0) <= idle.get("GET", 0) + 5


def test_long_names(site: Site) -> None:
    """An artifact whose names only digests tell is swept as any other, once it has a commit."""
    key = ArtifactKey(APP, "a" * 200, "s" * 200, "ü" * 100)
    site.lake.artifacts.save(key, Draft("{}"), b"one")
    site.lake.artifacts.delete(key)
    compact(site.lake)
    for _ in range(3):
        site.pass_grace()
        sweep(site.lake)
    assert objects(site.store, key) == []
