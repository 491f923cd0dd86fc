"""On a far store, log and shared state are asked for at the same time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Event
from typing import TypeVar

import pytest
from typing_extensions import override

from lakestore.log.keys import EVENT_LOGS, STATE_ENTRIES
from lakestore.storage import ObjectStore
from tests.support.faulty_store import AroundStore, Kind
from tests.support.histories import ANA, KEY, World, ids, said, several

R = TypeVar("R")

SECONDS = 20.0


class FarStore(AroundStore):
    """Lists both scopes' entries, then runs `meanwhile`, and only then answers about commits."""

    def __init__(self, inner: ObjectStore, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self.near = False
        self.armed = False
        self._meanwhile = meanwhile
        self._listed = Barrier(2)
        self._done = Event()

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if not self.armed or self._done.is_set():
            return call()
        if kind == "get" and key.startswith(EVENT_LOGS):
            assert self._done.wait(SECONDS)
        answer = call()
        if kind == "list" and key.startswith(STATE_ENTRIES):
            if self._listed.wait(SECONDS) == 0:
                self._meanwhile()
                self._done.set()
            assert self._done.wait(SECONDS)
        return answer


@pytest.mark.parametrize("commits", [1, 2, 5])
def test_what_landed_while_state_was_listed_shows_in_the_state(world: World, commits: int) -> None:
    """A session never shows an event whose shared state it lacks, however late it was found."""
    writer = world.host()
    marker = writer.append(writer.create(), said("before", {"user:0": 0, "app:kept": "a"}))

    def meanwhile() -> None:
        writer.append_each(
            marker, *(said(f"e{n}", {f"user:{n}": n}) for n in range(1, commits + 1))
        )

    store = FarStore(world.store, meanwhile)
    reader = world.host(store)
    assert reader.events() == ["before"]
    store.armed = True

    found = reader.sessions.read(KEY)
    assert found is not None
    view, folds = found
    assert ids(view) == ["before", *(f"e{n}" for n in range(1, commits + 1))]
    assert folds[ANA].values() == {str(n): n for n in range(commits + 1)}
    assert reader.state() == folds[ANA].values()


def test_many_commits_behind_is_one_listing(world: World) -> None:
    """A warm reader that is far behind lists once and reads side by side."""
    writer = world.host()
    marker = writer.create()
    store = AroundStore(world.store)
    store.near = False
    reader = world.host(store)
    assert reader.events() == []
    writer.append_each(marker, *several(50))
    before = reader.metrics.snapshot()
    assert len(reader.events()) == 50
    after = reader.metrics.snapshot()
    assert after["requests_list"] - before["requests_list"] == 2 + 1
    assert after["requests_get"] - before["requests_get"] == 50
