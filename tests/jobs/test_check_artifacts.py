"""What a check tells of artifacts: nothing of whole ones, and what is wrong, by its key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakestore.history.artifact_uploads import Draft
from lakestore.jobs import CheckReport, check, compact, prune_artifacts, sweep
from lakestore.jobs.progress import Progress
from lakestore.log.keys import ArtifactKey, commit_key, manifest_key, payload_key, run_key
from lakestore.storage import UnreadableError
from tests.support.artifacts import OTHER, REPORT, SHARED, objects, save
from tests.support.faulty_store import ClosedStore, FailingStore, Nth
from tests.support.sites import APP, Site

LONG = ArtifactKey(APP, "ana", "s1", "ana" * 60)
KEYS = (REPORT, OTHER, SHARED, LONG)


@pytest.fixture
def site() -> Iterator[Site]:
    """A lake with artifacts that are packed, fresh, deleted, pruned."""
    made = Site()
    for number in range(2):
        for key in KEYS:
            save(made.lake, b"%d" % number, key)
        if not number:
            compact(made.lake)
    made.lake.artifacts.delete(OTHER)
    yield made
    made.lake.close()


def found(site: Site, *, deep: bool = False) -> dict[tuple[str, str], str]:
    """Return the keys of what a check finds, by severity and kind."""
    with site.open(read_only=True) as lake:
        return {(it.severity, it.kind): it.key for it in check(lake, deep=deep).findings}


def replaced(site: Site, key: str, body: bytes) -> None:
    """Put other bytes in the place of an object."""
    site.store.delete(key)
    site.store.put_if_absent(key, body)


def test_whole_ones(site: Site) -> None:
    """Fresh, packed, pruned, swept: nothing is wrong, and what lives is counted, and read."""
    site.lake.artifacts.save(SHARED, Draft("{}", file_uri="gs://b/x.png"))
    for _ in range(4):
        with site.open(read_only=True) as lake:
            report: CheckReport = check(lake, deep=True)
        assert report.healthy, report.findings
        assert report.artifacts == len(KEYS) - 1
        site.clock.advance(3 * 86_400)
        prune_artifacts(site.lake, older_than_days=2)
        compact(site.lake)
        sweep(site.lake)


def test_damaged_commits(site: Site) -> None:
    """Of the newest the artifact is lost; of one below nothing is."""
    save(site.lake, b"2")
    replaced(site, commit_key(REPORT.log, 2), b"no Parquet")
    assert found(site) == {("note", "damaged commit"): commit_key(REPORT.log, 2)}
    replaced(site, commit_key(REPORT.log, 3), b"no Parquet")
    assert found(site)["lost", "damaged commit"] == commit_key(REPORT.log, 3)


def test_a_payload_that_is_closed_is_not_called_damaged(site: Site) -> None:
    """What the store said of it is told: its bytes may be whole."""
    payload = save(site.lake, b"closed to us").payload
    assert payload is not None
    closed = Nth("get_range", times=9, holding=payload)
    with site.open(lambda store: FailingStore(store, closed, UnreadableError)) as lake:
        (finding,) = check(lake, deep=True).findings
    assert finding.key == payload
    assert finding.problem.startswith("the store failed")


@pytest.mark.parametrize("packs", [False, True])
def test_payloads(site: Site, packs: bool) -> None:
    """One that is gone, or of another size, is lost; other bytes are if it is to read them."""
    if packs:
        compact(site.lake)
        site.pass_grace()
        sweep(site.lake)
    first = objects(site.store)[0]
    body = site.store.get(first)
    replaced(site, first, b"?")
    assert found(site) == {}
    assert found(site, deep=True) == {("lost", "damaged payload"): first}
    replaced(site, first, b"longer")
    assert found(site) == {("lost", "damaged payload"): first}
    for key in (first, *objects(site.store)):
        site.store.delete(key)
    assert ("lost", "damaged payload") in found(site)
    site.store.put_if_absent(first, body)


@pytest.mark.parametrize("done", ["an artifact is deleted", "one is packed"])
def test_what_is_done_meanwhile_hides_no_loss(site: Site, done: str) -> None:
    """An artifact of which nothing is left is told, and each that was there is counted once."""
    for key in (OTHER, SHARED, LONG):
        site.lake.artifacts.delete(key)
    compact(site.lake)
    sweep(site.lake, grace=0)
    lost = {saved.payload or "" for saved in site.lake.artifacts.load(REPORT).saves}
    for payload in lost:
        site.store.delete(payload)
    save(site.lake, b"there", SHARED)
    if done == "one is packed":
        save(site.lake, b"fresh", OTHER)
    else:
        save(site.lake, b"there", OTHER)
        compact(site.lake)

    def act(progress: Progress) -> None:
        if progress.unit == "artifact" and site.lake.artifacts.load(OTHER).alive:
            if done == "an artifact is deleted":
                site.lake.artifacts.delete(OTHER)
            compact(site.lake)

    with site.open(read_only=True) as lake:
        report = check(lake, progress=act)
    assert {finding.key for finding in report.findings} == lost
    assert report.artifacts == len({REPORT, SHARED, OTHER})


def test_whose_payload_it_is(site: Site) -> None:
    """A finding says which versions of which file suffer, however the name is written in keys."""
    name = ArtifactKey(APP, "ana", "s1", "Été\x1b[2J.pdf")
    for body in (b"0", b"1", b"0"):
        saved = save(site.lake, body, name)
    assert saved.payload
    site.store.delete(saved.payload)
    (finding,) = check(site.lake).findings
    assert finding.cost == r"it cannot be loaded as 'Été\x1b[2J.pdf', versions 0, 2"


def test_orphans(site: Site) -> None:
    """A payload of a saver that died is noted once it is old, and no more once it is named."""
    lost = payload_key(REPORT.objects, "0" * 16, "report.pdf")
    site.store.put_if_absent(lost, b"nobody's")
    assert ("note", "orphan") not in found(site)
    site.pass_grace()
    save(site.lake, b"now")
    site.lake.artifacts.delete(LONG)
    assert found(site)["note", "orphan"].startswith("artifacts/objects/")
    sweep(site.lake)
    assert found(site) == {}


def test_strays(site: Site) -> None:
    """What is no artifact's is noted."""
    site.store.put_if_absent(f"{REPORT.log}note.txt", b"a note")
    assert found(site) == {("note", "stray"): f"{REPORT.log}note.txt"}


def test_a_closed_folder(site: Site) -> None:
    """It is told, and all others are looked at."""
    replaced(site, commit_key(LONG.log, 2), b"no Parquet")
    with site.open(lambda inner: ClosedStore(inner, REPORT.log), read_only=True) as lake:
        found = {(it.severity, it.kind): it.key for it in check(lake, app_name=APP).findings}
    assert found["lost", "closed folder"] == REPORT.log
    assert found["lost", "damaged commit"] == commit_key(LONG.log, 2)


def test_a_lost_manifest(site: Site) -> None:
    """A commit that builds on what no manifest has packed says so."""
    compact(site.lake)
    site.lake.artifacts.load(REPORT)
    save(site.lake, b"2")
    site.store.delete(manifest_key(APP, site.manifest().number))
    lost = found(site)
    assert lost["lost", "unpacked commit"] == commit_key(REPORT.log, 3)


def test_damaged_runs(site: Site) -> None:
    """A damaged run of artifacts is told, and keeps no session from being proven."""
    (run,) = site.manifest().table("artifacts").runs
    key = run_key(APP, "artifacts", run.id)
    replaced(site, key, site.store.get(key)[:-20])
    assert found(site) == {("lost", "damaged run"): key}
