"""What is left of the artifacts of a user who was erased, and what others see of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.errors import UnknownOutcomeError
from lakestore.history.artifact_uploads import Draft
from lakestore.history.artifact_view import ArtifactView
from lakestore.jobs import EraseReceipt, compact, erase_user, sweep
from lakestore.log.keys import ArtifactKey, SessionKey, commit_key, payload_key
from lakestore.storage import LocalStore
from tests.support.artifacts import OTHER, REPORT, SHARED, objects, payloads, save
from tests.support.erasures import mentions
from tests.support.faulty_store import InterruptedStore, Nth
from tests.support.sites import APP, LIMIT, Site

SECRET = b"sesame"
BO = ArtifactKey(APP, "Bo", "s1", "report.pdf")
LONG = ArtifactKey(APP, "ana", "s1", "ana" * 60)
HIS = (REPORT, OTHER, SHARED, LONG)


@pytest.fixture
def site() -> Iterator[Site]:
    """A lake in which two users have artifacts, packed, fresh and deleted ones."""
    made = Site()
    for key in (*HIS, BO):
        save(made.lake, SECRET, key)
    compact(made.lake)
    for key in (REPORT, BO):
        save(made.lake, SECRET + b" again", key)
    made.lake.artifacts.delete(OTHER)
    yield made
    made.lake.close()


def erase(site: Site, *, finish: bool = True) -> EraseReceipt:
    """Erase ana."""
    receipt = erase_user(site.open(), APP, "ana")
    return receipt.finish(site.open()) if finish else receipt


def left(site: Site) -> list[str]:
    """Return the keys of objects that hold anything of ana, or whose keys name her."""
    return sorted({*mentions(site.store, "ana", "report.pdf"), *site.stored("ana")} - bos(site))


def bos(site: Site) -> set[str]:
    """Return the keys of the other's objects, and of those that are of both."""
    return {*site.stored("user=%42o"), *site.stored("runs/"), *site.stored("manifests/")}


def shown(lake: Lake, user: str) -> list[Any]:
    """Return what SQL and services show of a user's artifacts."""
    found: list[Any] = lake.sql(
        "select filename, version from artifacts where user_id = ? order by all", [user]
    ).fetchall()
    return [*found, *((it.key, it.saves) for it in lake.artifacts.views(APP, user, "s1"))]


@pytest.mark.parametrize("packs", [False, True])
def test_r104_nothing_is_left(site: Site, packs: bool) -> None:
    """No object holds a byte of the user's, or has a name of it; the receipt lists and proves."""
    if packs:
        compact(site.lake)
    before = shown(site.open(), "Bo")
    assert len(mentions(site.store, SECRET.decode())) > 5
    warm = site.open()
    shown(warm, "ana")
    receipt = erase(site, finish=False)
    assert receipt.status == "pending"
    assert len(receipt.artifacts) == len(HIS)
    assert receipt.sessions == ()
    for key in HIS:
        assert objects(site.store, key) == []
        assert any(it.startswith(key.objects) for it in receipt.removed)
    assert shown(warm, "ana") == shown(site.open(), "ana") == []
    receipt = receipt.finish(site.open())
    assert (receipt.status, receipt.left) == ("done", ())
    assert receipt.verify(site.open(read_only=True)) == ()
    assert left(site) == []
    assert mentions(site.store, SECRET.decode()) == sorted(objects(site.store, BO))
    assert mentions(site.store, '"ana"') == []
    assert shown(site.open(), "Bo") == before
    assert erase(site).is_empty


def test_no_folder_has_a_name_of_the_user(tmp_path: Path) -> None:
    """In a folder, those that held what was erased go with it: their names tell of people."""
    site = Site(LocalStore(tmp_path / "lake"))
    for user in ("ana", "ben"):
        sessions = LakeSessionService(site.lake, payload_threshold=8).sync
        session = sessions.create_session(app_name=APP, user_id=user, state={"user:a": 1})
        picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"p" * 90))
        sessions.append_event(session, Event(author=user, content=types.Content(parts=[picture])))
        save(site.lake, SECRET, ArtifactKey(APP, user, "s1", "report.pdf"))
    assert erase(site, finish=False).left == ()
    names = {path.name for path in (tmp_path / "lake").rglob("*")}
    assert [name for name in names if "ana" in name] == []
    roots = {path.relative_to(tmp_path).parts[1] for path in tmp_path.rglob("user=ben")}
    assert roots == {"events", "state", "artifacts"}


def test_versions_are_never_used_again(site: Site) -> None:
    """Who begins anew, under the same names, goes on above what was erased, from version 0."""
    last = {key: site.lake.artifacts.load(key).version for key in HIS}
    erase(site)
    with site.open() as lake:
        for key in HIS:
            saved = save(lake, b"new", key)
            assert (saved.artifact_version, saved.version > last[key]) == (0, True)
        compact(lake)
    site.pass_grace()
    sweep(site.lake)
    for key in HIS:
        assert payloads(site.open(), key) == {0: b"new"}


def test_a_save_under_way_brings_nothing_back(site: Site) -> None:
    """What was stored before, and committed after all was removed, is neither shown nor kept."""
    site.lake.artifacts.load(REPORT)

    def meanwhile() -> None:
        assert erase(site).status == "done"

    commits = Nth("put", holding=REPORT.log)
    saver = site.open(lambda inner: InterruptedStore(inner, commits, meanwhile))
    with saver, pytest.raises(UnknownOutcomeError):
        save(saver, SECRET + b" late")
    with site.open() as lake:
        assert shown(lake, "ana") == []
        compact(lake)
    for _ in range(4):
        site.pass_grace()
        sweep(site.lake)
        compact(site.lake)
    assert objects(site.store) == site.stored(REPORT.log) == []
    assert mentions(site.store, SECRET.decode()) == sorted(objects(site.store, BO))


@pytest.mark.parametrize("finishes", [False, True])
def test_payloads_that_land_late_go(site: Site, finishes: bool) -> None:
    """Before the second look the receipt removes them, after it sweeps do; no name stays."""
    receipt = erase(site, finish=not finishes)
    late = payload_key(REPORT.objects, "0" * 16, "report.pdf")
    site.store.put_if_absent(late, SECRET)
    assert receipt.verify(site.open(read_only=True)) == (late,)
    if finishes:
        receipt = receipt.finish(site.open())
        assert receipt.status == "done"
        assert late in receipt.removed
    else:
        for _ in range(5):
            site.pass_grace()
            sweep(site.lake)
            compact(site.lake)
    assert objects(site.store) == []
    assert left(site) == []
    assert save(site.open(), b"new").artifact_version == 0


def test_what_is_saved_while_it_is_erased(site: Site) -> None:
    """A version that lands after the end is begun anew, and keeps its payload."""

    def meanwhile() -> None:
        with site.open() as other:
            save(other, b"anew")

    ended = Nth("put", nth=2, holding=REPORT.log)
    with site.open(lambda inner: InterruptedStore(inner, ended, meanwhile)) as eraser:
        receipt = erase_user(eraser, APP, "ana")
    receipt = receipt.finish(site.open())
    assert receipt.status == "done"
    assert payloads(site.open()) == {0: b"anew"}
    assert mentions(site.store, SECRET.decode()) == sorted(objects(site.store, BO))


def test_damaged_artifacts_go(site: Site) -> None:
    """One that nobody can read is ended after whatever is last, and goes as the others."""
    for key in (REPORT, LONG):
        version = site.lake.artifacts.load(key).version + 1
        site.store.put_if_absent(commit_key(key.log, version), b"no Parquet")
    receipt = erase(site)
    assert (receipt.status, receipt.left) == ("done", ())
    assert mentions(site.store, SECRET.decode()) == sorted(objects(site.store, BO))
    for key in (REPORT, LONG):
        assert payloads(site.open(), key) == {}


def test_a_receipt_of_another_process(site: Site) -> None:
    """What one process has published another one removes."""
    receipt = erase_user(site.open(), APP, "ana", wait=False)
    assert receipt.status == "published"
    assert len(objects(site.store)) == 2
    assert shown(site.open(), "ana") == []
    receipt = receipt.finish(site.open()).finish(site.open())
    assert (receipt.status, receipt.left) == ("done", ())
    assert left(site) == []


def test_an_older_receipt_takes_nothing_back(site: Site) -> None:
    """What was erased up to a version stays so when an erasure from before is finished after."""
    key = SessionKey(APP, "ana", "s1")
    receipts = []
    for _ in range(2):
        with site.open() as lake:
            save(lake, b"anew")
            lake.sessions.create(key, {}, generated=False)
            receipts.append(erase_user(lake, APP, "ana", wait=False))
    first, second = receipts
    second = second.finish(site.open()).finish(site.open())
    assert second.status == "done"
    first.finish(site.open()).finish(site.open())
    known = site.lake.sessions.archive.erased(site.manifest())
    for row in (*second.sessions, *second.artifacts):
        assert known[row.digest].version >= row.version


def swept(site: Site, key: ArtifactKey) -> None:
    """Leave of an artifact only what is packed, and its payloads."""
    for _ in range(2):
        compact(site.lake)
        site.pass_grace()
        sweep(site.lake)
    assert not any(site.store.names(key.log))


def test_only_a_row_tells_of_a_long_name(site: Site) -> None:
    """One whose commits were swept goes, though in its keys only a digest is left of its name."""
    swept(site, LONG)
    receipt = erase(site)
    assert (receipt.status, len(receipt.artifacts)) == ("done", len(HIS))
    assert payloads(site.open(), LONG) == {}
    assert objects(site.store, LONG) == []


def test_a_long_name_that_was_begun_anew(site: Site) -> None:
    """A second look takes nothing of what has begun since, though only a row tells of that."""
    receipt = erase(site, finish=False)
    with site.open() as lake:
        save(lake, b"new", LONG)
    swept(site, LONG)
    assert receipt.finish(site.open()).status == "done"
    assert payloads(site.open(), LONG) == {0: b"new"}


def test_a_long_name_that_is_begun_meanwhile(site: Site) -> None:
    """What was stored for a first version is not removed when that is committed by then."""
    begun = replace(LONG, filename="her" * 60)
    payload = save(site.lake, b"new", begun).payload
    first = commit_key(begun.log, 1)
    commit = site.store.get(first)
    site.store.delete(first)

    def meanwhile() -> None:
        site.store.put_if_absent(first, commit)

    published = Nth("put", holding="manifests/")
    with site.open(lambda inner: InterruptedStore(inner, published, meanwhile)) as eraser:
        receipt = erase_user(eraser, APP, "ana")
    assert receipt.finish(site.open()).status == "done"
    assert objects(site.store, begun) == [payload]
    assert payloads(site.open(), begun) == {0: b"new"}


def test_what_was_begun_anew_can_be_deleted(site: Site) -> None:
    """Of an artifact that was erased once, saved again, packed and deleted, nothing stays."""
    erase(site)
    with site.open() as lake:
        save(lake, SECRET + b" new", SHARED)
        compact(lake)
        lake.artifacts.delete(SHARED)
    for _ in range(5):
        site.pass_grace()
        sweep(site.lake)
        compact(site.lake)
    assert objects(site.store, SHARED) == site.stored(SHARED.log) == []
    assert left(site) == []


def test_a_sweep_soon_after_an_erasure(site: Site) -> None:
    """It waits for the eraser's manifest to be old, since older ones name what is gone."""
    site.pass_grace()
    erase(site, finish=False)
    assert sweep(site.lake).failures == 0
    site.pass_grace()
    report = sweep(site.lake)
    assert (report.failures, report.deleted["manifests"].objects > 0) == (0, True)


def test_a_saver_who_passes_over_an_erasure_keeps_its_payload(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had stored before was named as going, behind what it can read; so it stores anew."""
    saver = site.open()
    saver.artifacts.load(REPORT)
    stalled, published = threading.Event(), threading.Event()
    load, sleep = saver.artifacts.load, site.clock.sleep

    def parts() -> Iterator[bytes]:
        yield b"new"
        site.clock.advance(LIMIT)  # so that it looks again before it commits

    def late(key: ArtifactKey) -> ArtifactView:
        stalled.set()
        assert published.wait(20)
        return load(key)

    monkeypatch.setattr(saver.artifacts, "load", late)
    with ThreadPoolExecutor(1) as threads:
        saving = threads.submit(saver.artifacts.save, REPORT, Draft("{}"), parts())
        assert stalled.wait(20)

        def saved_meanwhile(seconds: float) -> None:
            published.set()
            saving.result(20)
            sleep(seconds)

        monkeypatch.setattr(site.clock, "sleep", saved_meanwhile)
        erase_user(site.open(), APP, "ana")
    found = site.open().artifacts.read_payload(REPORT, None)
    assert found is not None
    assert found[1] == b"new"
