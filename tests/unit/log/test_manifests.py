"""Manifests: their bytes, finding the newest, and what counts as published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal

import pytest

from lakestore.errors import (
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.log.keys import app_manifests, manifest_key
from lakestore.log.manifests import (
    Doomed,
    Group,
    Manifest,
    StoredFile,
    TableFiles,
    decode,
    encode,
    list_manifests,
    newest_manifest,
    publish,
)
from lakestore.log.marker import Limits
from lakestore.storage import MemoryStore, Metrics, ObjectStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import (
    FailingStore,
    InterruptedStore,
    LostReplyStore,
    Nth,
    SlowStore,
)

APP = "Ü/1"
PREFIX = app_manifests(APP)
LIMITS = Limits()
LIMIT = LIMITS.view_age + 1
FULL = Manifest(
    APP,
    3,
    "aa",
    "99",
    1_700_000_000_000_000,
    {
        "events": TableFiles(
            (StoredFile("r1", 900, 90, 5, "d1", groups=(Group(("ü", "s"), 4, 70),), spent=7),),
            (StoredFile("p1", 5_000, 500, 99, "d2", dead=3),),
        ),
        "state": TableFiles(
            (StoredFile("r2", 80, 8, 2, "d3", groups=(Group((None, "k"), 4, 9),)),)
        ),
    },
    (Doomed("packs/app=x/events/old.parquet", 2),),
)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """A store without manifests."""
    return MemoryStore(clock=clock)


def manifest(number: int, token: str = "aa") -> Manifest:
    """Return a manifest without files."""
    return Manifest(APP, number, token)


def put(store: ObjectStore, *made: Manifest) -> None:
    """Create manifests."""
    for one in made:
        store.put_if_absent(manifest_key(APP, one.number), encode(one))


def published(store: ObjectStore, clock: ManualClock, one: Manifest, seen: float) -> None:
    """Publish a manifest."""
    publish(store, one, seen=seen, limits=LIMITS, clock=clock, metrics=Metrics())


def replaced(whole: Any, odd: Any) -> Iterator[Any]:
    """Yield `whole` with `odd` in place of each value in it, one at a time."""
    yield odd
    if isinstance(whole, dict):
        for key, value in whole.items():
            yield from ({**whole, key: other} for other in replaced(value, odd))
    elif isinstance(whole, list):
        for place, value in enumerate(whole):
            for other in replaced(value, odd):
                yield [*whole[:place], other, *whole[place + 1 :]]


def kinds(found: Any) -> set[tuple[str, type]]:
    """Return the types of the fields of a manifest and of all that is in it."""
    if isinstance(found, Mapping):
        return set().union(*map(kinds, found.values()))
    if isinstance(found, tuple):
        return set().union(*map(kinds, found))
    if not is_dataclass(found):
        return set()
    own = {(each.name, type(getattr(found, each.name))) for each in fields(found)}
    return own.union(*(kinds(getattr(found, each.name)) for each in fields(found)))


class TestBytes:
    """What is written is what is read, and damage is told."""

    def test_round_trip(self) -> None:
        """All fields come back, ids of any letters and the scope of an app among them."""
        assert decode(manifest_key(APP, 3), encode(FULL)) == FULL

    @pytest.mark.parametrize("length", [0, 1, 40, -2])
    def test_a_part_of_one_is_damaged(self, length: int) -> None:
        """Half of a manifest is a FormatError that names the key."""
        with pytest.raises(FormatError, match="a manifest") as caught:
            decode(manifest_key(APP, 3), encode(FULL)[:length])
        assert manifest_key(APP, 3) in str(caught.value)

    @pytest.mark.parametrize(
        "changed",
        [
            {"tables": []},
            {"tables": {"events": {}}},
            {"doomed": [{"key": "k"}]},
            {"doomed": 7},
            {"token": None, "number": "3"},
        ],
    )
    def test_other_json_is_damaged(self, changed: dict[str, Any]) -> None:
        """So is JSON that is no manifest."""
        body = json.dumps({**json.loads(encode(FULL)), **changed}).encode()
        with pytest.raises(FormatError):
            decode(manifest_key(APP, 3), body)

    @pytest.mark.parametrize("odd", [None, -1, 1.5, True, "x", [], {}, [[]]], ids=repr)
    def test_each_value_is_what_it_should_be_or_it_is_damaged(self, odd: Any) -> None:
        """Whatever stands in its place, a manifest is read with the types it has, or not at all."""
        for changed in replaced(json.loads(encode(FULL)), odd):
            with suppress(FormatError):
                found = decode(manifest_key(APP, 3), json.dumps(changed).encode())
                assert kinds(found) <= kinds(FULL)

    def test_a_newer_version_is_refused(self) -> None:
        """What it says might be misunderstood."""
        body = json.dumps({**json.loads(encode(FULL)), "format_version": 2}).encode()
        with pytest.raises(FormatError, match="newer version"):
            decode(manifest_key(APP, 3), body)

    @pytest.mark.parametrize("key", [manifest_key(APP, 4), manifest_key("other", 3)])
    def test_the_key_counts(self, key: str) -> None:
        """A manifest that stands under another's name is refused."""
        with pytest.raises(FormatError, match="than its key"):
            decode(key, encode(FULL))

    def test_what_a_manifest_does_not_name(self) -> None:
        """A pack that is referred to and not named is damage."""
        assert FULL.table("memory") == TableFiles()
        assert FULL.table("events").pack("p1").rows == 99
        with pytest.raises(FormatError, match="does not name"):
            FULL.table("events").pack("p2")

    def test_the_next_one(self) -> None:
        """It follows, keeps the tables that are not replaced, and names each object to go once."""
        tables = {"state": TableFiles()}
        following = FULL.following("bb", 5, tables).dooming(["new", FULL.doomed[0].key])
        assert (following.number, following.previous, following.created_at) == (4, "aa", 5)
        assert following.tables == {"events": FULL.tables["events"], "state": TableFiles()}
        assert following.doomed == (*FULL.doomed, Doomed("new", 4))


class TestNewest:
    """The greatest number counts."""

    def test_none(self, store: MemoryStore) -> None:
        """An app that no job has worked on has number 0."""
        assert newest_manifest(store, PREFIX).number == 0

    def test_the_greatest_number(self, store: MemoryStore) -> None:
        """Strays and other apps' are passed over."""
        put(store, manifest(9), manifest(10))
        store.put_if_absent(f"{PREFIX}99.json", b"stray")
        store.put_if_absent(manifest_key(APP + "2", 11), b"another app's")
        assert list_manifests(store, PREFIX) == [9, 10]
        assert newest_manifest(store, PREFIX).number == 10

    def test_one_that_is_known_is_not_read(self, store: MemoryStore) -> None:
        """It costs the listing alone."""
        put(store, manifest(1))
        known = newest_manifest(store, PREFIX)
        failing = FailingStore(store, Nth("get", times=99))
        assert newest_manifest(failing, PREFIX, known) is known

    def test_swept_since_it_was_listed(self, store: MemoryStore) -> None:
        """The newer one is found."""
        put(store, manifest(1))

        def act() -> None:
            put(store, manifest(2, "bb"))
            store.delete(manifest_key(APP, 1))

        assert newest_manifest(InterruptedStore(store, Nth("get"), act), PREFIX).token == "bb"

    def test_a_store_that_lists_what_it_lacks(self, store: MemoryStore) -> None:
        """It is a StorageError in the end."""
        put(store, manifest(1))
        haunted = FailingStore(store, Nth("get", times=99), NotFoundError)
        with pytest.raises(StorageError, match="faster"):
            newest_manifest(haunted, PREFIX)


class TestPublish:
    """Exclusive creation decides, while what it was made from is known to be the newest."""

    def test_one_of_two_wins(self, store: MemoryStore, clock: ManualClock) -> None:
        """The other is told."""
        published(store, clock, manifest(1, "aa"), clock.elapsed())
        with pytest.raises(ConflictError, match="first"):
            published(store, clock, manifest(1, "bb"), clock.elapsed())
        assert newest_manifest(store, PREFIX).token == "aa"

    @pytest.mark.parametrize("outcome", ["landed", "resent", "dropped"])
    def test_a_lost_reply(
        self,
        store: MemoryStore,
        clock: ManualClock,
        outcome: Literal["landed", "resent", "dropped"],
    ) -> None:
        """It recognises itself by its token, or is sent again."""
        lossy = LostReplyStore(store, Nth("put"), outcome)
        published(lossy, clock, manifest(1), clock.elapsed())
        assert newest_manifest(store, PREFIX) == manifest(1)

    def test_an_outcome_that_nobody_can_tell(self, store: MemoryStore, clock: ManualClock) -> None:
        """It says that it may have landed."""
        lossy = LostReplyStore(store, Nth("put", times=99), "dropped")
        with pytest.raises(UnknownOutcomeError):
            published(lossy, clock, manifest(1), clock.elapsed())

    def test_a_number_that_was_swept(self, store: MemoryStore, clock: ManualClock) -> None:
        """A stalled job that creates a superseded number again has published nothing (S7)."""
        seen = clock.elapsed()

        def act() -> None:
            put(store, manifest(1, "bb"), manifest(2, "cc"))
            clock.advance(LIMITS.grace + 1)
            store.delete(manifest_key(APP, 1))

        with pytest.raises(ConflictError, match="longer than the view age limit"):
            published(InterruptedStore(store, Nth("put"), act), clock, manifest(1), seen)
        assert newest_manifest(store, PREFIX).token == "cc"

    @pytest.mark.parametrize("times", [{"before": LIMIT}, {"after": LIMIT}])
    def test_slow_and_still_the_newest(
        self, store: MemoryStore, clock: ManualClock, times: dict[str, float]
    ) -> None:
        """Nothing came between, so it counts."""
        slow = SlowStore(store, Nth("put"), clock, **times)
        published(slow, clock, manifest(1), clock.elapsed())

    def test_made_from_one_that_was_read_long_ago(
        self, store: MemoryStore, clock: ManualClock
    ) -> None:
        """The time before the creation counts too."""
        seen = clock.elapsed()
        put(store, replace(manifest(2), token="cc"))
        clock.advance(LIMIT)
        with pytest.raises(ConflictError):
            published(store, clock, manifest(1), seen)
