"""Artifacts as logs and runs tell of them: versions, what is stored, read and refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from lakestore import Lake
from lakestore.errors import FormatError
from lakestore.history.artifact_uploads import Draft
from lakestore.history.artifact_view import ArtifactView
from lakestore.log.commits import list_log
from lakestore.log.keys import ArtifactKey, app_manifests, commit_key
from lakestore.storage import UnreadableError
from tests.support.archives import Site
from tests.support.artifacts import (
    APP,
    OTHER,
    REPORT,
    SHARED,
    delete_below,
    delete_packed,
    objects,
    pack,
    payloads,
    save,
)
from tests.support.damage import change, flipped
from tests.support.faulty_store import ClosedStore

LONG = ArtifactKey(APP, "ana", "s1", "図" * 60 + ".png")
"""Of its name only a digest is in keys."""


@pytest.fixture
def site() -> Iterator[Site]:
    """One lake in memory, on a clock that stands still."""
    made = Site()
    yield made
    made.close()


@pytest.fixture
def lake(site: Site) -> Lake:
    """Open the lake."""
    return site.lake()


def names(lake: Lake, session_id: str | None = "s1") -> list[str]:
    """Return the names that are listed."""
    return [view.key.filename for view in lake.artifacts.views(APP, "ana", session_id)]


def test_versions_count_from_zero(site: Site, lake: Lake) -> None:
    """Each save is the next version, whoever saves, and each keeps its bytes."""
    other = site.lake()
    for number in range(4):
        saved = save((lake, other)[number % 2], b"%d" % number)
        assert saved.artifact_version == number
    for each in (lake, other, site.lake()):
        assert payloads(each) == {n: b"%d" % n for n in range(4)}


@pytest.mark.parametrize("parts", [False, True], ids=["bytes", "parts"])
def test_equal_content_is_stored_once(site: Site, lake: Lake, parts: bool) -> None:
    """A version with the bytes and the type of one that lives refers to that one's payload."""
    for body, mime in ((b"one", None), (b"two", None), (b"one", None), (b"one", "text/plain")):
        save(lake, iter([body[:1], body[1:]]) if parts else body, mime_type=mime)

    assert len(objects(site.store)) == 3
    assert payloads(site.lake()) == {0: b"one", 1: b"two", 2: b"one", 3: b"one"}


def test_equal_content_of_a_deleted_version_is_stored_anew(site: Site, lake: Lake) -> None:
    """A payload that no version refers to may go at any time."""
    save(lake)
    lake.artifacts.delete(REPORT)
    save(lake)
    assert len(objects(site.store)) == 2


@pytest.mark.parametrize("cut", [False, True], ids=["gone", "cut"])
def test_equal_content_that_is_lost_is_stored_anew(site: Site, lake: Lake, cut: bool) -> None:
    """A version refers to a payload only where that is there whole: what is saved can be loaded."""
    lost = save(lake).payload or ""
    site.store.delete(lost)
    if cut:
        site.store.put_if_absent(lost, b"on")
    saved = save(site.lake())
    assert lake.artifacts.read_payload(REPORT, 1) == (saved, b"one")
    assert save(lake).payload == saved.payload


def test_what_raises_midway_saves_nothing(site: Site, lake: Lake) -> None:
    """When the parts of a payload cannot be read, there is no version and no object."""

    def parts() -> Iterator[bytes]:
        yield b"one"
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        save(lake, parts())
    assert (objects(site.store), payloads(lake)) == ([], {})


def test_after_a_delete_versions_begin_at_zero(site: Site, lake: Lake) -> None:
    """As in ADK; versions of the log go on, so no name of an object is used twice."""
    for body in (b"one", b"two"):
        save(lake, body)
    lake.artifacts.delete(REPORT)
    assert payloads(site.lake()) == {}
    lake.artifacts.delete(REPORT)
    assert save(lake, b"three").artifact_version == 0

    assert payloads(site.lake()) == {0: b"three"}
    assert list_log(site.store, REPORT.log).commits == [1, 2, 3, 4]


@pytest.mark.parametrize("swept", [False, True], ids=["packed", "swept"])
def test_what_is_packed_reads_alike(site: Site, lake: Lake, swept: bool) -> None:
    """Whether a version is packed, and its commit gone, nobody can tell by what is read."""
    for number in range(3):
        save(lake, b"%d" % number)
    save(lake, b"x", OTHER)
    lake.artifacts.delete(OTHER)
    pack(lake)
    if swept:
        delete_packed(lake, site.store)
    for reader in (lake, site.lake()):
        assert payloads(reader) == {n: b"%d" % n for n in range(3)}
        assert names(reader) == ["report.pdf"]
    assert save(lake, b"3").artifact_version == 3
    assert save(lake, b"y", OTHER).artifact_version == 0
    for reader in (lake, site.lake()):
        assert payloads(reader) == {n: b"%d" % n for n in range(4)}
        assert names(reader) == ["other.txt", "report.pdf"]


def test_the_newest_commit_is_enough(site: Site, lake: Lake) -> None:
    """Without those below it, nothing is missing."""
    for number in range(3):
        save(lake, b"%d" % number)
    delete_below(site.store)
    assert payloads(site.lake()) == {n: b"%d" % n for n in range(3)}


def test_a_manifest_that_is_too_old_is_looked_for_again(site: Site, lake: Lake) -> None:
    """A commit that builds on what was packed since is read with the manifest that says so."""
    reader = site.lake()
    save(lake)
    assert payloads(reader) == {0: b"one"}
    pack(lake)
    delete_packed(lake, site.store)
    lake.artifacts.load(REPORT)
    save(lake, b"two")
    save(lake, b"two", OTHER)

    assert payloads(reader) == {0: b"one", 1: b"two"}
    assert names(reader) == ["other.txt", "report.pdf"]


def test_a_lost_manifest_is_told(site: Site, lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """A log that builds on what no manifest has any more is an error, and hides no other."""
    save(lake)
    pack(lake)
    lake.artifacts.load(REPORT)
    save(lake, b"two")
    save(lake, b"x", OTHER)
    for key in list(site.store.names(app_manifests(APP))):
        site.store.delete(key)

    reader = site.lake()
    with pytest.raises(FormatError, match="no manifest"):
        reader.artifacts.load(REPORT)
    with caplog.at_level(logging.ERROR):
        assert names(reader) == ["other.txt"]
    assert len(caplog.records) == 1


def test_a_name_that_only_a_digest_tells(site: Site, lake: Lake) -> None:
    """An artifact whose name is not in keys is known by its commit, fresh or packed."""
    save(lake, b"one", LONG)
    assert names(site.lake()) == [LONG.filename]
    assert [view.key for view, _ in site.lake().artifacts.fresh(APP)] == [LONG]
    pack(lake)
    delete_packed(lake, site.store)
    assert names(site.lake()) == [LONG.filename]
    assert payloads(site.lake(), LONG) == {0: b"one"}


def test_a_listing_has_what_is_shared(lake: Lake) -> None:
    """A session's listing has its own artifacts and the user's; without a session only those."""
    for key in (
        REPORT,
        SHARED,
        ArtifactKey(APP, "ana", "s2", "b"),
        ArtifactKey(APP, "ben", "s1", "c"),
    ):
        save(lake, b"x", key)
    assert names(lake) == ["report.pdf", "user:notes.txt"]
    assert names(lake, None) == ["user:notes.txt"]


@pytest.mark.parametrize("key", [REPORT, LONG], ids=["name", "digest"])
def test_a_damaged_commit_hides_no_other(
    site: Site, lake: Lake, key: ArtifactKey, caplog: pytest.LogCaptureFixture
) -> None:
    """One artifact cannot be read; a listing passes it over, with one error."""
    save(lake, b"one", key)
    save(lake, b"x", OTHER)
    change(site.store, commit_key(key.log, 1), flipped)
    reader = site.lake()
    with pytest.raises(FormatError, match="name="):
        reader.artifacts.load(key)
    with caplog.at_level(logging.ERROR):
        assert names(reader) == names(reader) == ["other.txt"]
        assert [view.key for view, _ in reader.artifacts.fresh(APP)] == [OTHER]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("key", [REPORT, LONG], ids=["name", "digest"])
def test_a_closed_log_hides_no_other(
    site: Site, lake: Lake, key: ArtifactKey, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that cannot be listed is passed over, with one error; by itself it is told."""
    save(lake, b"one", key)
    save(lake, b"x", OTHER)
    reader = site.lake(ClosedStore(site.store, key.log))
    with pytest.raises(UnreadableError):
        reader.artifacts.load(key)
    with caplog.at_level(logging.ERROR):
        assert names(reader) == names(reader) == ["other.txt"]
        assert [view.key for view, _ in reader.artifacts.fresh(APP)] == [OTHER]
    assert len(caplog.records) == 1


def test_a_commit_in_another_log_is_refused(site: Site, lake: Lake) -> None:
    """What lies in the log of another artifact, or under another version, is damaged."""
    save(lake)
    body = site.store.get(commit_key(REPORT.log, 1))
    for key in (commit_key(OTHER.log, 1), commit_key(REPORT.log, 2)):
        site.store.put_if_absent(key, body)
    for log in (OTHER, REPORT):
        with pytest.raises(FormatError, match="another artifact or version"):
            site.lake().artifacts.load(log)


def _judged(lake: Lake) -> ArtifactView:
    for number in range(3):
        save(lake, b"%d" % number)
    return lake.artifacts.load(REPORT)


def test_prune_drops_the_oldest(site: Site, lake: Lake) -> None:
    """Others keep their numbers, and the next version follows the last."""
    view = _judged(lake)
    assert lake.artifacts.prune(view, view.saves[1:])
    assert payloads(site.lake()) == {1: b"1", 2: b"2"}
    assert save(lake, b"3").artifact_version == 3


@pytest.mark.parametrize("old", [False, True], ids=["young", "old"])
def test_what_was_judged_must_be_all(site: Site, lake: Lake, old: bool) -> None:
    """Pruning, ending and naming do nothing when somebody has saved since."""
    view = _judged(lake)
    save(site.lake(), b"3")
    if old:
        site.clock.advance(lake.environment.limits.view_age + 1)
    assert not lake.artifacts.prune(view, view.saves[1:])
    assert not lake.artifacts.end(view)
    assert not lake.artifacts.name(view, ["artifacts/objects/x"])
    assert len(payloads(lake)) == 4
    now = lake.artifacts.load(REPORT)
    site.clock.advance(2 * lake.environment.limits.view_age if old else 0)
    assert lake.artifacts.name(now, ["artifacts/objects/x"])
    assert lake.artifacts.end(lake.artifacts.load(REPORT))


def test_what_is_fresh(site: Site, lake: Lake) -> None:
    """What has more than is packed comes with its packed row, deleted or not, and nothing else."""
    for key in (REPORT, OTHER, SHARED):
        save(lake, b"x", key)
    assert {view.key: row for view, row in lake.artifacts.fresh(APP)} == dict.fromkeys(
        (REPORT, OTHER, SHARED)
    )
    pack(lake)
    assert list(lake.artifacts.fresh(APP)) == []
    save(lake, b"y", REPORT)
    lake.artifacts.delete(SHARED)
    found = {
        view.key: (row and row.version, len(view.saves)) for view, row in lake.artifacts.fresh(APP)
    }
    assert found == {REPORT: (1, 2), SHARED: (1, 0)}
    assert [v.key for v, _ in lake.artifacts.fresh(APP, REPORT.log, REPORT.log)] == [REPORT]


def test_forget(site: Site, lake: Lake) -> None:
    """After `forget` nothing is taken from what was read before."""
    save(lake)
    lake.artifacts.forget()
    before = lake.metrics.requests
    lake.artifacts.read(REPORT)
    assert lake.metrics.requests_since(before)["LIST"] == 1


def test_without_payload(site: Site, lake: Lake) -> None:
    """A version may only point at something: nothing is stored for it."""
    saved = lake.artifacts.save(REPORT, Draft("{}", file_uri="gs://b/x.png"))
    assert (saved.payload, saved.size, objects(site.store)) == (None, None, [])
    assert lake.artifacts.read_payload(REPORT, 0) == (saved, b"")


def test_names_for_people(lake: Lake) -> None:
    """A payload is named as its file, with an extension, and no header holds what is no type."""
    saved = [
        save(
            lake,
            key=ArtifactKey(APP, "ana", None, "user:q3/my plan"),
            content_type="image/png",
            extension=".png",
        ),
        save(
            lake, key=ArtifactKey(APP, "ana", "s1", "résumé (1).pdf"), content_type="x\r\nevil: 1"
        ),
    ]
    assert [str(each.payload).rpartition("/")[2] for each in saved] == [
        "my_plan.png",
        "résumé_1_.pdf",
    ]
