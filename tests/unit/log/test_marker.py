"""The format marker: one creator, a store that is put to the test, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakestore.clock import SystemClock, new_token
from lakestore.errors import (
    FormatError,
    InputError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedStoreError,
)
from lakestore.log.keys import MARKER_KEY
from lakestore.log.marker import Limits, open_lake, read_limits
from lakestore.storage import (
    CountingStore,
    LocalStore,
    MemoryStore,
    Metrics,
    ObjectStore,
    ReadOnlyStore,
)
from tests.support.clocks import ManualClock
from tests.support.faulty_store import CarelessStore, FailingStore, LostReplyStore, Nth
from tests.support.racing import Processes, WaitsForAll, in_threads

SHORT = Limits(view_age=1.0, grace=10.0)


def opened(store: ObjectStore, limits: Limits | None = None, *, read_only: bool = False) -> Limits:
    """Open the lake in `store`."""
    return open_lake(store, limits, ManualClock(), new_token, read_only=read_only)


def keys(store: ObjectStore) -> list[str]:
    """Return all that is stored."""
    return [stored.key for stored in store.list("")]


def test_the_first_to_open_creates() -> None:
    """An empty store becomes a lake with the default limits, and the marker says what it is."""
    store = MemoryStore()

    assert opened(store) == Limits(300.0, 3600.0)
    assert keys(store) == ["lakestore.json"]
    marker = json.loads(store.get("lakestore.json"))
    assert marker.pop("token")
    assert marker == {
        "format": "lakestore",
        "format_version": 1,
        "created_at": 1_700_000_000.0,
        "view_age_seconds": 300.0,
        "grace_seconds": 3600.0,
    }


def test_a_lake_keeps_its_limits() -> None:
    """Limits are chosen once; who opens later gets those, whatever they ask for."""
    store = MemoryStore()
    opened(store, SHORT)

    assert opened(store) == opened(store, Limits(2.0, 20.0)) == SHORT
    assert opened(store, read_only=True) == read_limits(store) == SHORT


def test_opening_again_writes_nothing() -> None:
    """A lake that is there costs one read."""
    inner, metrics = MemoryStore(), Metrics()
    opened(inner)
    opened(CountingStore(inner, metrics))

    assert metrics.requests == {"GET": 1}


def test_the_store_is_put_to_the_test() -> None:
    """Who creates the lake creates the marker twice, and the second time must be refused."""
    metrics = Metrics()
    opened(CountingStore(MemoryStore(), metrics))

    assert metrics.requests == {"GET": 1, "PUT": 3, "DELETE": 1}


def test_a_store_that_ignores_the_condition_is_refused() -> None:
    """No lake is made in a store that writes over objects, and no marker stays."""
    store = CarelessStore(MemoryStore("careless"))

    for _ in range(2):
        with pytest.raises(UnsupportedStoreError, match="memory://careless"):
            opened(store)
        assert keys(store) == []


def test_a_proof_that_was_cut_off_is_made_up_for() -> None:
    """A store whose test failed on the way is not taken for a good one the next time."""
    store = CarelessStore(MemoryStore())
    with pytest.raises(StorageError):
        opened(FailingStore(store, Nth("put", 2)))

    with pytest.raises(UnsupportedStoreError):
        opened(store)


def test_a_resend_is_no_other_creator() -> None:
    """A creator that was refused by its own first request has a lake all the same."""
    store = LostReplyStore(MemoryStore(), Nth("put"), "resent")

    assert opened(store, SHORT) == SHORT


@pytest.mark.parametrize("outcome", ["landed", "dropped"])
def test_a_lost_reply_can_be_tried_again(outcome: Any) -> None:
    """Opening fails when nobody knows whether there is a lake, and works the next time."""
    inner = MemoryStore()
    with pytest.raises(UnknownOutcomeError):
        opened(LostReplyStore(inner, Nth("put"), outcome), SHORT)

    assert opened(inner, SHORT) == SHORT


def test_reading_only_creates_nothing() -> None:
    """A lake that is not there is not found, and stays away."""
    store = MemoryStore("nothing")

    with pytest.raises(NotFoundError, match="memory://nothing"):
        opened(store, read_only=True)
    with pytest.raises(ReadOnlyError):
        opened(ReadOnlyStore(store))
    assert keys(store) == []


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_format_is_refused(version: int) -> None:
    """A lake of a newer version is not touched, and the error names both versions."""
    store = MemoryStore("newer")
    content = {"format_version": version, "view_age_seconds": 1, "grace_seconds": 10}
    store.put_if_absent(MARKER_KEY, json.dumps(content).encode())

    for read_only in (True, False):
        with pytest.raises(FormatError, match="memory://newer") as caught:
            opened(store, read_only=read_only)
        assert f"is {version}," in str(caught.value)
        assert "reads 1" in str(caught.value)


def test_what_a_later_version_adds_is_ignored() -> None:
    """Fields that this version does not know are no reason to refuse its own format."""
    store = MemoryStore()
    opened(store, SHORT)
    marker = json.loads(store.get(MARKER_KEY)) | {"hint": {"new": [1]}}
    store.delete(MARKER_KEY)
    store.put_if_absent(MARKER_KEY, json.dumps(marker).encode())

    assert opened(store) == SHORT


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b" ",
        b"\x00",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"{}",
        b'{"format_version": 1}',
        b'{"format_version": "1", "view_age_seconds": 1, "grace_seconds": 10}',
        b'{"format_version": null, "view_age_seconds": 1, "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": 1}',
        b'{"format_version": 1, "view_age_seconds": "x", "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": null, "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": [], "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": -1, "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": 6, "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": NaN, "grace_seconds": 10}',
        b'{"format_version": 1, "view_age_seconds": 1, "grace_seconds": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ],
    ids=lambda body: body[:60].decode(errors="replace"),
)
def test_a_damaged_marker_is_named(body: bytes) -> None:
    """A marker that says nothing is a FormatError that names the lake, and is left alone."""
    store = MemoryStore("damaged")
    store.put_if_absent(MARKER_KEY, body)

    with pytest.raises(FormatError, match=r"memory://damaged"):
        opened(store)
    assert store.get(MARKER_KEY) == body


@pytest.mark.parametrize(
    ("view_age", "grace"),
    [(0, 10), (-1, 10), (5, 10), (6, 10), (1, -10), (float("nan"), 10), (1, float("nan"))],
)
def test_limits_that_protect_nothing_are_refused(view_age: float, grace: float) -> None:
    """The grace is more than twice the view age limit, and both are times."""
    with pytest.raises(InputError):
        Limits(view_age, grace)


def _open_at_once(root: Path, number: int, barrier: WaitsForAll) -> Limits:
    """Open a lake when everyone else does; each would like other limits."""
    barrier.wait()
    mine = Limits(view_age=1.0 + number, grace=100.0)
    return open_lake(LocalStore(root), mine, SystemClock(), new_token, read_only=False)


@pytest.fixture
def processes() -> Iterator[Processes]:
    """New processes, none of which outlives the test."""
    started = Processes()
    yield started
    started.close()


# R032
def test_processes_that_create_one_lake_agree(tmp_path: Path, processes: Processes) -> None:
    """Of processes that create a lake together one decides, and all keep its limits."""
    barrier = processes.context.Barrier(3, timeout=30)
    for number in range(3):
        processes.start(_open_at_once, tmp_path / "lake", number, barrier)

    first, *others = processes.results()
    assert others == [first, first]
    assert read_limits(LocalStore(tmp_path / "lake")) == first
    assert sorted(os.listdir(tmp_path / "lake")) == [".tmp", "lakestore.json"]


def test_threads_that_create_one_lake_agree() -> None:
    """So do threads."""
    for _ in range(20):
        store = MemoryStore()

        found = in_threads(
            [partial(opened, store, Limits(1.0 + number, 100.0)) for number in range(4)]
        )
        assert found == [read_limits(store)] * 4
