"""Two handles on one session that append at once and never reload (R005)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from tests.support.processes import PROCESSES, race
from tests.support.session_writers import APP, append_until_stale, said

COUNT = 20


def check_one_won(accepted: list[list[str]], stored: list[str]) -> None:
    """One handle wrote its whole turn, the others nothing: no turns are mixed."""
    assert sorted(len(names) for names in accepted) == [0] * (len(accepted) - 1) + [COUNT]
    assert stored == [name for names in accepted for name in names]


def test_handles_in_processes(tmp_path: Path) -> None:
    """Of handles in several processes one appends all its events; the others are stale."""
    with Lake.open(tmp_path) as lake:
        LakeSessionService(lake).sync.create_session(app_name=APP, user_id="u", session_id="s")
    arguments = [(str(tmp_path), "u", "s", f"w{n}", COUNT) for n in range(PROCESSES)]
    accepted = race(append_until_stale, arguments)

    with Lake.open(tmp_path, read_only=True) as lake:
        session = LakeSessionService(lake).sync.get_session(
            app_name=APP, user_id="u", session_id="s"
        )
    assert session is not None
    check_one_won(accepted, [event.id for event in session.events])


async def test_handles_in_one_loop(tmp_path: Path) -> None:
    """So it is with two handles of one service, whose tasks run in one event loop."""
    with Lake.open(tmp_path) as lake:
        service = LakeSessionService(lake)
        first = await service.create_session(app_name=APP, user_id="u", session_id="s")
        second = await service.get_session(app_name=APP, user_id="u", session_id="s")
        assert second is not None

        async def append_all(session: Session, writer: str) -> list[str]:
            names = []
            for number in range(COUNT):
                try:
                    event = await service.append_event(session, said(f"{writer}-{number}"))
                except StaleSessionError:
                    continue
                names.append(event.id)
            return names

        accepted = await asyncio.gather(append_all(first, "a"), append_all(second, "b"))
        session = await service.get_session(app_name=APP, user_id="u", session_id="s")
    assert session is not None
    check_one_won(list(accepted), [event.id for event in session.events])
