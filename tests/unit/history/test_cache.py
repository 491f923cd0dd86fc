"""The cache: bounded by bytes, dropping what was not used for longest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.history.cache import ByteCache
from tests.support.racing import in_threads


@dataclass(frozen=True)
class Value:
    nbytes: int
    name: str = ""


def test_what_was_put_is_found() -> None:
    """A value is found under its key, and nothing under any other."""
    cache: ByteCache[str, Value] = ByteCache(100)
    cache.put("a", Value(10, "first"))

    assert cache.get("a") == Value(10, "first")
    assert cache.get("b") is None
    assert cache.nbytes == 10


def test_the_least_used_goes_first() -> None:
    """To make room, what was neither put nor asked for lately is dropped."""
    cache: ByteCache[str, Value] = ByteCache(30)
    for key in "abc":
        cache.put(key, Value(10))
    cache.get("a")
    cache.put("d", Value(10))

    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]


def test_a_large_value_takes_the_place_of_many() -> None:
    """As many are dropped as it needs."""
    cache: ByteCache[str, Value] = ByteCache(30)
    for key in "abc":
        cache.put(key, Value(10))
    cache.put("d", Value(15))

    assert [key for key in "abcd" if cache.get(key)] == ["c", "d"]
    assert cache.nbytes == 25


def test_what_never_fits_is_not_kept() -> None:
    """It drops nothing else, and an older value under its key is no longer true."""
    cache: ByteCache[str, Value] = ByteCache(30)
    cache.put("a", Value(10))
    cache.put("b", Value(10))
    cache.put("a", Value(31))

    assert cache.get("a") is None
    assert cache.get("b") is not None
    assert cache.nbytes == 10


def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    """Caching can be turned off."""
    cache: ByteCache[str, Value] = ByteCache(0)
    cache.put("a", Value(1))

    assert cache.get("a") is None
    assert cache.nbytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 60)), max_size=60))
def test_bytes_are_counted_right(puts: list[tuple[str, int]]) -> None:
    """The cache never holds more than it may, counts what it holds, and holds the newest put."""
    cache: ByteCache[str, Value] = ByteCache(100)
    newest: dict[str, Value] = {}
    for key, nbytes in puts:
        newest[key] = Value(nbytes, f"{key}{len(newest)}{nbytes}")
        cache.put(key, newest[key])
        kept = {each: cache.get(each) for each in newest}
        assert cache.get(key) == newest[key]
        assert all(value in (None, newest[each]) for each, value in kept.items())
        assert cache.nbytes == sum(value.nbytes for value in kept.values() if value) <= 100


def test_many_threads_may_use_it() -> None:
    """Counting survives any mixture of threads."""
    cache: ByteCache[int, Value] = ByteCache(200)

    def work(seed: int) -> None:
        for number in range(300):
            key = (number * seed) % 17
            cache.put(key, Value(key + 1))
            cache.get((key + seed) % 17)

    in_threads([partial(work, seed) for seed in (1, 2, 3, 5, 7, 11)])

    kept = [cache.get(key) for key in range(17)]
    assert cache.nbytes == sum(value.nbytes for value in kept if value) <= 200


def test_one_larger_value_is_kept_beside_what_fits() -> None:
    """If a cache is to keep a larger one, only another such takes its place."""
    cache: ByteCache[str, Value] = ByteCache(30, keeps_larger=True)
    for key, nbytes in (("a", 10), ("b", 31), ("c", 20)):
        cache.put(key, Value(nbytes))
    assert [key for key in "abc" if cache.get(key)] == ["a", "b", "c"]

    cache.put("d", Value(40))
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    cache.put("d", Value(30))
    assert [key for key in "abcd" if cache.get(key)] == ["d"]
    assert cache.nbytes == 30


@pytest.mark.parametrize("end", [lambda cache: cache.drop("a"), lambda cache: cache.clear()])
def test_a_larger_value_can_be_dropped(end: Callable[[ByteCache[str, Value]], None]) -> None:
    """It goes as others do."""
    cache: ByteCache[str, Value] = ByteCache(30, keeps_larger=True)
    cache.put("a", Value(40))
    end(cache)
    assert cache.get("a") is None


def test_no_room_keeps_nothing() -> None:
    """A capacity of 0 keeps not even a larger one."""
    cache: ByteCache[str, Value] = ByteCache(0, keeps_larger=True)
    cache.put("a", Value(10))
    assert cache.get("a") is None
