"""Payloads of artifacts as they are read: the right bytes, asked for once, or what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier

import pytest

from lakestore import Lake
from lakestore.errors import FormatError
from lakestore.history import artifacts
from lakestore.log.keys import ARTIFACT_OBJECTS, ArtifactKey, commit_key
from tests.support.archives import Site
from tests.support.artifacts import (
    APP,
    REPORT,
    payloads,
    save,
)
from tests.support.damage import change
from tests.support.faulty_store import InterruptedStore, Nth

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


def test_a_payload_that_is_gone_or_damaged(site: Site, lake: Lake) -> None:
    """One that a version refers to is an error that names its key, never other bytes."""
    key = save(lake).payload
    assert key is not None
    body = change(site.store, key, lambda _: b"two")
    with pytest.raises(FormatError, match=key):
        lake.artifacts.read_payload(REPORT, None)
    change(site.store, key, lambda _: b"on")
    for found in (b"on", None):
        if found is None:
            site.store.delete(key)
        with pytest.raises(FormatError, match=key):
            lake.artifacts.read_payload(REPORT, 0)
        with pytest.raises(FormatError, match=key):
            lake.open_artifact(app_name=APP, user_id="ana", session_id="s1", filename="report.pdf")
    site.store.put_if_absent(key, body)
    assert payloads(lake) == {0: b"one"}


def test_a_payload_that_was_swept_is_of_no_version(site: Site, lake: Lake) -> None:
    """Who finds it gone looks again, and finds that the version is, too."""
    reader = site.lake()
    key = save(lake).payload
    assert key is not None
    assert payloads(reader) == {0: b"one"}
    view = reader.artifacts.read(REPORT)
    lake.artifacts.delete(REPORT)
    site.store.delete(key)
    assert view.find(None) is not None
    assert reader.artifacts.read_payload(REPORT, None) is None


def test_a_payload_is_asked_for_ahead(site: Site, lake: Lake) -> None:
    """In a bucket, what is known is fetched while it is asked whether anything is newer."""
    save(lake)
    together = Barrier(2, timeout=20)
    payload = Nth("get", holding=ARTIFACT_OBJECTS)
    following = Nth("get", holding=commit_key(REPORT.log, 2))
    store = InterruptedStore(site.store, payload, together.wait)
    store = InterruptedStore(store, following, together.wait)
    store.near = False
    reader = site.lake(store)
    reader.artifacts.load(REPORT)
    assert reader.artifacts.read_payload(REPORT, None) == (reader.artifacts.find(REPORT, 0), b"one")
    save(lake, b"two")
    assert payloads(reader) == {0: b"one", 1: b"two"}
    lake.artifacts.delete(REPORT)
    assert reader.artifacts.read_payload(REPORT, None) is None


@pytest.mark.parametrize("version", [None, 0])
def test_a_large_payload_is_not_asked_for_in_vain(
    site: Site, lake: Lake, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest may be another by now; a version with its number is the same for ever."""
    monkeypatch.setattr(artifacts, "_FORESEEN_BYTES", 2)
    save(lake)
    asked = Nth("get", holding=ARTIFACT_OBJECTS)
    store = InterruptedStore(site.store, asked, lambda: None)
    store.near = False
    reader = site.lake(store)
    reader.artifacts.load(REPORT)
    save(lake, b"two")
    found = reader.artifacts.read_payload(REPORT, version)
    assert found is not None
    assert found[1] == (b"two" if version is None else b"one")
    assert asked.met == 1
