"""Of the threads that work for event loops one at a time computes, and none waits for that long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event
from typing import TypeVar

import pytest
from typing_extensions import override

from lakestore import Lake, LakeSessionService
from lakestore.storage import Gate, MemoryStore, Pool
from tests.support.faulty_store import AroundStore, Kind
from tests.support.session_writers import APP, said

R = TypeVar("R")

PATIENCE = 1.0
"""What `Gate` promises, in seconds."""
AT_ONCE = 4


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads of the test's own."""
    with ThreadPoolExecutor(AT_ONCE) as made:
        yield made


def quickly(work: Callable[[], R]) -> R:
    """Do `work`, which takes far less than anyone's patience."""
    started = time.monotonic()
    result = work()
    assert time.monotonic() - started < PATIENCE / 2
    return result


def test_one_computes_at_a_time(threads: ThreadPoolExecutor) -> None:
    """The second begins when the first has ended."""
    gate, inside, done, begun = Gate(), Event(), Event(), Event()

    def first() -> bool:
        inside.set()
        done.wait(PATIENCE)
        return begun.is_set()

    early = threads.submit(partial(gate.inside, first))
    assert inside.wait(PATIENCE)
    second = threads.submit(partial(gate.inside, begun.set))
    assert not begun.wait(PATIENCE / 10)
    done.set()
    second.result()
    assert not early.result()


def test_who_waits_lets_others_compute(threads: ThreadPoolExecutor) -> None:
    """What is waited for may be what the next one inside does."""
    gate, told = Gate(), Event()
    waiting = threads.submit(partial(gate.inside, lambda: gate.outside(lambda: told.wait(9))))
    quickly(threads.submit(partial(gate.inside, told.set)).result)
    assert quickly(waiting.result)


def test_nobody_waits_for_longer_than_a_second(threads: ThreadPoolExecutor) -> None:
    """One who computes for long, or waits inside for another one, holds nobody up for good."""
    gate, told = Gate(), Event()
    waiting = threads.submit(partial(gate.inside, lambda: told.wait(9 * PATIENCE)))
    threads.submit(partial(gate.inside, told.set)).result(9 * PATIENCE)
    assert waiting.result()
    quickly(threads.submit(partial(gate.inside, told.is_set)).result)


def test_an_error_leaves_the_gate(threads: ThreadPoolExecutor) -> None:
    """What fails, inside or while it waits outside, keeps nobody out."""
    gate = Gate()
    for fail in (lambda: 1 // 0, lambda: gate.outside(lambda: 1 // 0)):
        with pytest.raises(ZeroDivisionError):
            threads.submit(partial(gate.inside, fail)).result()
        assert not gate.is_inside
        quickly(threads.submit(partial(gate.inside, dict)).result)


def test_a_call_waits_for_calls_of_its_own() -> None:
    """They are inside as it is, one at a time, and it is outside while it waits for them."""
    gate = Gate()
    inner, outer = Pool(2, "inner", gate), Pool(1, "outer", gate)

    def ask(_number: int) -> bool:
        return gate.is_inside

    def call() -> list[bool]:
        one = inner.submit(lambda: ask(0))
        return [one.result(), *inner.map(ask, range(3), near=False)]

    assert quickly(outer.submit(lambda: gate.inside(call)).result) == [True] * 4
    assert outer.submit(lambda: inner.submit(lambda: ask(0)).result()).result() is False
    inner.close()
    outer.close()


def test_an_error_of_an_own_call_is_raised() -> None:
    """Whoever waits inside gets it, as anyone else does."""
    gate = Gate()
    pool = Pool(2, "test", gate)
    failing = gate.inside(lambda: pool.submit(lambda: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        failing.result()
    pool.close()


class MeetingStore(AroundStore):
    """A store whose commits wait until so many are under way at once."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.near = False
        self.meeting = Barrier(AT_ONCE)
        self.on = False

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if self.on and kind == "put":
            self.meeting.wait(PATIENCE)
        return call()


async def test_requests_are_made_side_by_side() -> None:
    """Appends of many sessions compute in turn, and wait for the store together."""
    store = MeetingStore()
    with Lake(store) as lake:
        service = LakeSessionService(lake)
        sessions = [await service.create_session(app_name=APP, user_id="u") for _ in range(AT_ONCE)]
        store.on = True
        for turn in range(3):
            await asyncio.gather(*(service.append_event(s, said(f"{turn}")) for s in sessions))


async def test_what_a_loop_asks_for_computes_in_turn() -> None:
    """Calls of a lake that are awaited are inside one gate; blocking ones are in none."""
    with Lake(MemoryStore()) as lake:
        inside, begun = Event(), Event()

        def first() -> bool:
            inside.set()
            return begun.wait(PATIENCE / 5)

        early = lake.submit(first)
        assert inside.wait(PATIENCE)
        await lake.run(begun.set)
        assert not early.result()
