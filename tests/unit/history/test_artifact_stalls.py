"""Savers that stand still, lose replies or meet others: no version is lost, skipped or overwritten.

A stall is what others do between a saver's decision and the moment when its request arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from lakestore import Lake
from lakestore.errors import FormatError, StorageError, UnknownOutcomeError
from lakestore.log.commits import list_log
from lakestore.log.keys import ARTIFACT_LOGS, ARTIFACT_OBJECTS, commit_key
from tests.support.archives import Site
from tests.support.artifacts import (
    REPORT,
    delete_below,
    delete_packed,
    objects,
    pack,
    payloads,
    save,
)
from tests.support.faulty_store import (
    FailingStore,
    InterruptedStore,
    LostReplyStore,
    Nth,
    SlowStore,
    TornStore,
)
from tests.support.histories import GRACE, LIMIT


@pytest.fixture
def site() -> Iterator[Site]:
    """One lake in memory, on a clock that stands still."""
    made = Site()
    yield made
    made.close()


def put_of(version: int) -> Nth:
    """Pick the creation of a commit."""
    return Nth("put", holding=commit_key(REPORT.log, version))


def stalled(site: Site, version: int, act: Callable[[], object]) -> Lake:
    """Open the lake for a saver whose creation of a commit stands still while others act."""
    return site.lake(InterruptedStore(site.store, put_of(version), act))


def overtake(site: Site, others: Lake, *, packed: bool) -> None:
    """Let others save, and sweep all that a slow saver could build on."""
    for number in range(3):
        save(others, b"b%d" % number)
    site.clock.advance(GRACE)
    if packed:
        pack(others)
        site.clock.advance(GRACE)
        delete_packed(others, site.store)
    else:
        delete_below(site.store)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "below"])
def test_a_version_under_a_swept_name_is_not_acknowledged(site: Site, packed: bool) -> None:
    """It landed where no reader looks: its saver hears that nobody knows, and nothing is lost."""
    others = site.lake()
    save(others, b"b")
    saver = stalled(site, 2, lambda: overtake(site, others, packed=packed))
    with pytest.raises(UnknownOutcomeError, match="s1"):
        save(saver, b"lost")

    expected = {0: b"b", 1: b"b0", 2: b"b1", 3: b"b2"}
    for each in (saver, others, site.lake()):
        assert payloads(each) == expected
    assert save(saver, b"after").artifact_version == 4
    assert payloads(site.lake()) == {**expected, 4: b"after"}


def test_a_stray_is_nobodys_predecessor(site: Site) -> None:
    """Who finds the stray of another stalled saver in its place builds nothing on it."""
    others = site.lake()
    save(others, b"b")

    def first() -> None:
        saver = stalled(site, 2, lambda: overtake(site, others, packed=True))
        with pytest.raises(UnknownOutcomeError):
            save(saver, b"x")

    save(stalled(site, 2, first), b"y")
    assert [*payloads(site.lake()).values()] == [b"b", b"b0", b"b1", b"b2", b"y"]


def test_a_slow_upload_is_confirmed_before_and_after(site: Site) -> None:
    """A saver whose upload took longer than a view may be old decides on what there is then."""
    others = site.lake()
    save(others, b"b")
    slow = SlowStore(site.store, Nth("put", holding=ARTIFACT_OBJECTS), site.clock, after=GRACE)
    saver = site.lake(
        InterruptedStore(
            slow, Nth("put", holding=ARTIFACT_OBJECTS), lambda: overtake(site, others, packed=True)
        )
    )
    saver.artifacts.load(REPORT)
    assert save(saver, b"slow").artifact_version == 4
    assert payloads(site.lake())[4] == b"slow"


def test_a_slow_commit_is_confirmed(site: Site) -> None:
    """One that took longer than a view may be old is acknowledged when a load shows it."""
    saver = site.lake(SlowStore(site.store, put_of(1), site.clock, after=LIMIT))
    before = saver.metrics.requests
    save(saver)
    assert saver.metrics.requests_since(before)["LIST"] == 4
    assert payloads(site.lake()) == {0: b"one"}


def test_a_slow_commit_that_cannot_be_confirmed(site: Site) -> None:
    """It stands: its saver hears that nobody knows, not that nothing was saved."""
    slow = SlowStore(site.store, put_of(1), site.clock, after=LIMIT)
    saver = site.lake(FailingStore(slow, Nth("list", nth=2, holding=REPORT.log)))
    with pytest.raises(UnknownOutcomeError, match="list the versions"):
        save(saver)
    assert payloads(site.lake()) == {0: b"one"}


@pytest.mark.parametrize("parts", [False, True], ids=["bytes", "parts"])
@pytest.mark.parametrize("passed", [False, True], ids=["refused", "passed over"])
def test_a_payload_that_was_named_is_stored_again(site: Site, parts: bool, passed: bool) -> None:
    """What a sweep has said it will delete is never referred to, however late the saver looks."""
    sweeper = site.lake()
    named: list[str] = []

    def sweep() -> None:
        view = sweeper.artifacts.load(REPORT)
        named.extend(objects(site.store))
        assert sweeper.artifacts.name(view, named)
        if passed:
            save(sweeper, b"other")
            site.clock.advance(GRACE)

    picked = Nth("put", holding=ARTIFACT_LOGS)
    saver = site.lake(InterruptedStore(site.store, picked, sweep))
    saved = save(saver, iter([b"o", b"ne"]) if parts else b"one")
    assert len(named) == 1
    assert saved.payload not in named
    site.store.delete(named[0])
    assert b"one" in payloads(site.lake()).values()


@pytest.mark.parametrize("body", [b"one", iter([b"o", b"ne"])], ids=["bytes", "parts"])
def test_a_payload_that_is_gone_is_stored_again_or_told(site: Site, body: object) -> None:
    """After a stall in which the payload went, bytes are stored again; parts cannot be."""
    others = site.lake()

    def sweep() -> None:
        (key,) = objects(site.store)
        assert others.artifacts.name(others.artifacts.load(REPORT), [key])
        site.clock.advance(GRACE)
        site.store.delete(key)
        save(others, b"more")
        delete_below(site.store)

    upload = Nth("put", holding=ARTIFACT_OBJECTS)
    saver = site.lake(InterruptedStore(site.store, upload, sweep, when="after"))
    saver.artifacts.load(REPORT)
    if isinstance(body, bytes):
        save(saver, body)
        assert payloads(site.lake()) == {0: b"more", 1: b"one"}
    else:
        with pytest.raises(StorageError, match="swept while"):
            save(saver, body)
        assert payloads(site.lake()) == {0: b"more"}


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [
        (ARTIFACT_LOGS, "landed"),
        (ARTIFACT_LOGS, "resent"),
        (ARTIFACT_LOGS, "dropped"),
        (ARTIFACT_OBJECTS, "landed"),
        (ARTIFACT_OBJECTS, "resent"),
    ],
)
def test_lost_replies(
    site: Site, lost: str, outcome: Literal["landed", "resent", "dropped"]
) -> None:
    """A save is acknowledged, and there once, though the reply to its commit or upload is lost."""
    for number in range(3):
        reply = Nth("put", holding=lost)
        save(site.lake(LostReplyStore(site.store, reply, outcome)), b"%d" % number)
    assert payloads(site.lake()) == {n: b"%d" % n for n in range(3)}


def test_a_lost_upload(site: Site) -> None:
    """A save whose payload may not be stored has no doubt about it: nothing was saved."""
    upload = Nth("put", holding=ARTIFACT_OBJECTS)
    saver = site.lake(LostReplyStore(site.store, upload, "dropped"))
    with pytest.raises(StorageError) as raised:
        save(saver)
    assert raised.type is StorageError
    assert payloads(site.lake()) == {}
    assert save(saver).artifact_version == 0


# R014
@pytest.mark.parametrize("failing", ["list", "get"])
def test_a_failed_read_decides_no_version(site: Site, failing: Literal["list", "get"]) -> None:
    """When the log cannot be read, nothing is saved, and nothing overwritten."""
    save(site.lake())
    saver = site.lake(FailingStore(site.store, Nth(failing, holding=REPORT.log)))
    with pytest.raises(StorageError):
        save(saver, b"two")
    assert save(saver, b"two").artifact_version == 1
    assert payloads(site.lake()) == {0: b"one", 1: b"two"}


# R014
def test_a_stale_listing_decides_no_version(site: Site) -> None:
    """A listing that does not show the last commits costs requests, and no version."""
    for number in range(3):
        save(site.lake(), b"%d" % number)
    saver = site.lake(TornStore(site.store, missing=commit_key(REPORT.log, 3)))
    assert save(saver, b"3").artifact_version == 3
    assert payloads(site.lake()) == {n: b"%d" % n for n in range(4)}


def test_a_stale_cache_decides_no_version(site: Site) -> None:
    """A saver that knows nothing of many others' versions is the next after them all."""
    saver, others = site.lake(), site.lake()
    save(saver)
    for number in range(1, 30):
        save(others, b"%d" % number)
    assert save(saver, b"last").artifact_version == 30
    assert list(payloads(site.lake())) == list(range(31))


def test_a_refusal_by_what_is_damaged(site: Site) -> None:
    """What stands in the place of the next version and cannot be read is an error."""
    saver = site.lake()
    save(saver)
    site.store.put_if_absent(commit_key(REPORT.log, 2), b"x")
    with pytest.raises(FormatError, match="name="):
        save(saver, b"two")
    assert list_log(site.store, REPORT.log).commits == [1, 2]


def test_a_delete_that_took_long(site: Site) -> None:
    """Deleting is confirmed like saving: what others saved after it lives."""
    save(site.lake())
    others = site.lake()
    store = InterruptedStore(site.store, put_of(2), lambda: save(others, b"n"), when="after")
    deleter = site.lake(SlowStore(store, put_of(2), site.clock, after=LIMIT))
    deleter.artifacts.delete(REPORT)
    assert payloads(site.lake()) == {0: b"n"}
