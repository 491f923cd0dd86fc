"""Reading over many sessions of one user, as they were recorded: nothing is compacted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from google.adk.sessions import BaseSessionService

from lakestore import LakeSessionService
from tests.benchmarks.contenders import CONTENDERS, Contender, opened
from tests.benchmarks.histories import APP, USER
from tests.benchmarks.measuring import Figures, Scale, Stopwatch, take_turns

_LISTS_A_ROUND = 3


async def count_events(service: BaseSessionService) -> int:
    """Read all events of the user in the best way that the service has; return how many."""
    if isinstance(service, LakeSessionService):
        return len(await service.get_user_events(app_name=APP, user_id=USER))
    listed = await service.list_sessions(app_name=APP, user_id=USER)
    count = 0
    for session in listed.sessions:
        found = await service.get_session(app_name=APP, user_id=USER, session_id=session.id)
        assert found is not None
        count += len(found.events)
    return count


async def count_sessions(service: BaseSessionService) -> int:
    """List the sessions of the user; return how many."""
    return len((await service.list_sessions(app_name=APP, user_id=USER)).sessions)


def fresh(
    contender: Contender,
    folder: Path,
    count: Callable[[BaseSessionService], Awaitable[int]],
    wanted: int,
) -> Callable[[int], Awaitable[float]]:
    """Return the work of counting with a service that was just opened and has read nothing."""

    async def work(_number: int) -> float:
        service = contender.open(folder)
        with Stopwatch() as watch:
            found = await count(service)
        await contender.close(service)
        assert found == wanted
        return watch.seconds

    return work


async def test_user_events(many_sessions: Path, scale: Scale, figures: Figures) -> None:
    """All events of a user are found, by one call of ours or a list and a get per session."""
    wanted = scale.sessions * scale.events_a_session
    work = {
        name: fresh(each, many_sessions, count_events, wanted) for name, each in CONTENDERS.items()
    }
    samples = await take_turns(scale.session_rounds, work)
    workload = f"user events, {scale.sessions} sessions x {scale.events_a_session}, not compacted"
    figures.add(workload, samples)


async def test_list_sessions(many_sessions: Path, scale: Scale, figures: Figures) -> None:
    """All sessions of a user are listed by a service that has read nothing before."""
    work = {
        name: fresh(each, many_sessions, count_sessions, scale.sessions)
        for name, each in CONTENDERS.items()
    }
    samples = await take_turns(scale.session_rounds, work)
    figures.add(f"list_sessions, {scale.sessions} sessions, first time, not compacted", samples)


async def test_list_sessions_again(many_sessions: Path, scale: Scale, figures: Figures) -> None:
    """A service that has listed the sessions before lists them again."""

    def listing(service: BaseSessionService) -> Callable[[int], Awaitable[float]]:
        async def work(_number: int) -> float:
            with Stopwatch() as watch:
                for _ in range(_LISTS_A_ROUND):
                    assert await count_sessions(service) == scale.sessions
            return watch.seconds / _LISTS_A_ROUND

        return work

    async with opened(many_sessions) as services:
        for service in services.values():
            await count_sessions(service)
        work = {name: listing(service) for name, service in services.items()}
        samples = await take_turns(scale.session_rounds, work)
    figures.add(f"list_sessions, {scale.sessions} sessions, again, not compacted", samples)
