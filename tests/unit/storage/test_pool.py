"""The pool: results in order, errors after all have ended, few threads for near stores."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Event, current_thread

import pytest

from lakestore.storage import Pool


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Four threads."""
    made = Pool(4, "test")
    yield made
    made.close()


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2, 31, 32, 33, 100])
def test_results_keep_the_order_of_items(pool: Pool, number: int, near: bool) -> None:
    """Whatever ends first, each result stands where its item stood."""
    assert pool.map(str, range(number), near=near) == [str(i) for i in range(number)]


def test_far_calls_run_side_by_side(pool: Pool) -> None:
    """Calls that wait for a network wait together."""
    together = Barrier(4)

    assert sorted(pool.map(lambda _: together.wait(10), range(4), near=False)) == [0, 1, 2, 3]


def test_few_near_calls_stay_in_their_thread(pool: Pool) -> None:
    """Handing a quick call to a thread would cost more than the call."""
    names = pool.map(lambda _: current_thread().name, range(8), near=True)

    assert set(names) == {current_thread().name}


def test_threads_say_whose_they_are(pool: Pool) -> None:
    """A stack of threads tells which are the lake's."""
    name = pool.submit(lambda: current_thread().name).result()

    assert name.startswith("lakestore-test")


def test_an_error_comes_after_all_have_ended(pool: Pool) -> None:
    """The first error is raised, and no call goes on behind the caller's back."""
    go = Event()
    ended = []

    def call(item: int) -> None:
        if item == 0:
            go.set()
            raise ValueError("the first")
        go.wait(10)
        ended.append(item)

    with pytest.raises(ValueError, match="the first"):
        pool.map(call, range(4), near=False)
    assert sorted(ended) == [1, 2, 3]


def test_an_error_in_one_slice_lets_the_others_end(pool: Pool) -> None:
    """Near calls run in slices; the error of one is raised when all slices are over."""
    ended = []

    def call(item: int) -> None:
        if item == 5:
            raise ValueError("five")
        ended.append(item)

    with pytest.raises(ValueError, match="five"):
        pool.map(call, range(40), near=True)
    assert {0, 1, 2, 3, 4, 39} <= set(ended)


def test_a_closed_pool_starts_again(pool: Pool) -> None:
    """Closing ends the threads, and using it later starts new ones."""
    assert pool.submit(lambda: 1).result() == 1
    pool.close()
    pool.close()

    assert pool.submit(lambda: 2).result() == 2
