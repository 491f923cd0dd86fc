"""Entries: names and how they are created; the fold is decided above."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.log.entries import Entry, list_entries, put_entry
from lakestore.log.keys import Scope, app_entries
from lakestore.log.stamps import stamp_text
from lakestore.storage import MemoryStore, Metrics
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth, PlaceholderStore

ANA = Scope("app", "ana").entries
APP = Scope("app", None).entries
put = partial(put_entry, clock=ManualClock(), metrics=Metrics())
STAMPS = [stamp_text(micros, 0, "00000000000000ff") for micros in (1, 2, 3)]


def test_an_entry_is_listed_with_its_stamp() -> None:
    """A listing tells stamp and kind of every entry, oldest stamp first."""
    store = MemoryStore()
    for stamp in reversed(STAMPS):
        put(store, ANA, stamp, b"x", fold=stamp == STAMPS[1])

    assert [*list_entries(store, ANA)] == [
        (ANA, Entry(f"{ANA}{STAMPS[0]}.parquet", STAMPS[0], False)),
        (ANA, Entry(f"{ANA}{STAMPS[1]}f.parquet", STAMPS[1], True)),
        (ANA, Entry(f"{ANA}{STAMPS[2]}.parquet", STAMPS[2], False)),
    ]


def test_one_listing_tells_scopes_apart() -> None:
    """All entries of an app come with the scope that each belongs to."""
    store = MemoryStore()
    ben = Scope("app", "ben").entries
    for scope in (ANA, ben, APP):
        put(store, scope, STAMPS[0], b"x", fold=False)
    put(store, Scope("apple", None).entries, STAMPS[0], b"x", fold=False)

    assert [folder for folder, _ in list_entries(store, app_entries("app"))] == [APP, ANA, ben]


def test_strays_are_no_entries() -> None:
    """Other names among entries, and empty objects of consoles, are passed over."""
    store = MemoryStore()
    put(store, ANA, STAMPS[0], b"x", fold=False)
    for stray in (".DS_Store", "_SUCCESS", "00000000000000000001.parquet", "README"):
        store.put_if_absent(ANA + stray, b"x")

    for listed in (store, PlaceholderStore(store)):
        assert [entry.stamp for _, entry in list_entries(listed, ANA)] == STAMPS[:1]


def test_putting_an_entry_again_is_no_error() -> None:
    """A stamp belongs to one content, so one that stands already is this one."""
    store = MemoryStore()
    keys = {put(store, ANA, STAMPS[0], b"x", fold=False) for _ in range(3)}

    assert len(keys) == 1
    assert store.get(keys.pop()) == b"x"


@pytest.mark.parametrize("outcome", ["landed", "dropped"])
def test_an_unknown_outcome_is_sent_again(outcome: Literal["landed", "dropped"]) -> None:
    """An entry that may be there is put again, which is safe, until it is known to be."""
    inner, metrics = MemoryStore(), Metrics()
    store = LostReplyStore(inner, Nth("put"), outcome)
    key = put(store, ANA, STAMPS[0], b"x", fold=False, metrics=metrics)

    assert inner.get(key) == b"x"
    assert metrics.retries == 1


def test_an_outcome_that_stays_unknown_is_raised() -> None:
    """Nobody acknowledges an entry that may not be there, and putting it again mends it."""
    inner = MemoryStore()
    with pytest.raises(UnknownOutcomeError):
        put(LostReplyStore(inner, Nth("put", times=9), "dropped"), ANA, STAMPS[0], b"x", fold=False)
    key = put(inner, ANA, STAMPS[0], b"x", fold=False)

    assert inner.get(key) == b"x"


def test_a_resend_is_no_error() -> None:
    """An entry that was refused by itself stands."""
    inner = MemoryStore()
    store = LostReplyStore(inner, Nth("put"), "resent")
    key = put(store, ANA, STAMPS[0], b"x", fold=False)

    assert inner.get(key) == b"x"


def test_a_failure_is_raised() -> None:
    """An entry that was not written is not passed over."""
    with pytest.raises(StorageError):
        put(FailingStore(MemoryStore(), Nth("put")), ANA, STAMPS[0], b"x", fold=False)
