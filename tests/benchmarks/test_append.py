"""Appending: one by one, by turns, and ten at a time, each against ADK's services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from google.adk.sessions import BaseSessionService, Session

from lakestore import LakeSessionService
from tests.benchmarks.contenders import close_lake, open_lake, opened
from tests.benchmarks.histories import APP, TURN, USER, begin, events
from tests.benchmarks.measuring import (
    DATABASE,
    OURS,
    PEERS,
    SQLITE,
    Figures,
    Scale,
    Stopwatch,
    take_turns,
)
from tests.benchmarks.shares import shares

Work = Callable[[int], Awaitable[float]]

_BATCH = 10
_EIGHT = dict.fromkeys(PEERS, 8.0)


def one_by_one(
    service: BaseSessionService, session: Session, a_round: int, *, shared_state: bool = False
) -> Work:
    """Return the work of appending `a_round` events to a session that grows, one by one."""

    async def work(number: int) -> float:
        new = events(a_round, number * a_round, shared_state=shared_state)
        with Stopwatch() as watch:
            for event in new:
                await service.append_event(session, event)
        return watch.seconds / a_round

    return work


def by_batches(service: LakeSessionService, session: Session, a_round: int) -> Work:
    """Return the same work done with `append_events`, ten at a time."""

    async def work(number: int) -> float:
        new = events(a_round, number * a_round)
        with Stopwatch() as watch:
            for first in range(0, a_round, _BATCH):
                await service.append_events(session, new[first : first + _BATCH])
        return watch.seconds / a_round

    return work


async def ids(service: BaseSessionService, session_id: str) -> list[str]:
    """Return the ids of the stored events of a session."""
    found = await service.get_session(app_name=APP, user_id=USER, session_id=session_id)
    assert found is not None
    return [event.id for event in found.events]


async def test_append_one_by_one(arena: Path, scale: Scale, figures: Figures) -> None:
    """Every service stores what it was given, however fast."""
    folder = arena / "one"
    folder.mkdir()
    a_round = scale.turns_a_round * TURN
    async with opened(folder) as services:
        work = {
            name: one_by_one(service, await begin(service, "one"), a_round)
            for name, service in services.items()
        }
        samples = await take_turns(scale.rounds, work)
        wanted = [event.id for event in events(scale.rounds * a_round)]
        for service in services.values():
            assert await ids(service, "one") == wanted
    figures.add("append_event", samples, targets={SQLITE: 2.0, DATABASE: 5.0})


async def test_append_with_user_state(arena: Path, scale: Scale, figures: Figures) -> None:
    """A `user:` key on every fourth event costs one more object, and is there afterwards."""
    folder = arena / "shared"
    folder.mkdir()
    a_round = scale.turns_a_round * TURN
    async with opened(folder) as services:
        work = {
            name: one_by_one(service, await begin(service, "one"), a_round, shared_state=True)
            for name, service in services.items()
        }
        samples = await take_turns(scale.rounds, work)
        last = scale.rounds * scale.turns_a_round - 1
        for service in services.values():
            state = await service.get_user_state(app_name=APP, user_id=USER)
            assert state == {"last_route": f"JFK-SEA {last}"}
    figures.add("append_event, user: state on every fourth", samples)


async def test_append_by_turns(arena: Path, scale: Scale, figures: Figures) -> None:
    """With durability="turn" four events are one commit, and all are there afterwards."""
    folder = arena / "turns"
    folder.mkdir()
    a_round = scale.turns_a_round * TURN
    async with opened(folder) as services:
        by_turn = open_lake(folder, durability="turn")
        contenders = {**services, OURS: by_turn}
        work = {
            name: one_by_one(service, await begin(service, "turns"), a_round)
            for name, service in contenders.items()
        }
        samples = await take_turns(scale.rounds, work)
        await close_lake(by_turn)
        wanted = [event.id for event in events(scale.rounds * a_round)]
        assert await ids(services[OURS], "turns") == wanted
    figures.add('append_event, durability="turn", turns of 4, per event', samples, targets=_EIGHT)


async def test_append_ten_at_a_time(arena: Path, scale: Scale, figures: Figures) -> None:
    """Ten events appended at once are one commit, and all are there afterwards."""
    folder = arena / "ten"
    folder.mkdir()
    a_round = scale.turns_a_round * _BATCH
    async with opened(folder) as services:
        work = {
            name: by_batches(service, await begin(service, "ten"), a_round)
            if isinstance(service, LakeSessionService)
            else one_by_one(service, await begin(service, "ten"), a_round)
            for name, service in services.items()
        }
        samples = await take_turns(scale.rounds, work)
        wanted = [event.id for event in events(scale.rounds * a_round)]
        assert await ids(services[OURS], "ten") == wanted
    figures.add("append_events of 10, per event", samples, targets=_EIGHT)


async def test_shares_of_an_append(arena: Path, scale: Scale, figures: Figures) -> None:
    """The parts of an append are not longer than the whole."""
    folder = arena / "shares"
    folder.mkdir()
    service = open_lake(folder)
    session = await begin(service, "shares")
    count = scale.rounds * scale.turns_a_round * TURN
    found = await shares(service, session, 0, count)
    await close_lake(service)
    assert found.fsync < found.whole
    figures.notes.append(str(found))
