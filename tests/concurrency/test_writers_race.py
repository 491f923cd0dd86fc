"""Processes that write at once: to one session, to one user, to one app."""

from __future__ import annotations

from pathlib import Path

from google.adk.sessions import Session

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from tests.support.processes import PROCESSES, race
from tests.support.session_writers import (
    APP,
    append_in_turns,
    create_different,
    create_same,
    set_app_keys,
)

WRITERS = [f"w{number}" for number in range(PROCESSES)]
COUNT = 12


def begin(folder: Path, sessions: list[tuple[str, str]]) -> None:
    """Create the sessions, named by user and id."""
    with Lake.open(folder) as lake:
        for user, session_id in sessions:
            LakeSessionService(lake).sync.create_session(
                app_name=APP, user_id=user, session_id=session_id
            )


def read(service: SyncSessionService, user: str, session_id: str) -> Session:
    """Return the session as it is stored."""
    found = service.get_session(app_name=APP, user_id=user, session_id=session_id)
    assert found is not None
    return found


def check_dense(folder: Path, events: int) -> None:
    """All logs together hold one creation each and the events, under versions without a gap."""
    logs = [path for path in folder.glob("events/log/*/*/*") if path.is_dir()]
    versions = [
        sorted(int(path.stem) for path in log.iterdir() if not path.stem.endswith("r"))
        for log in logs
    ]
    assert all(found == list(range(1, len(found) + 1)) for found in versions)
    assert sum(len(found) for found in versions) == len(logs) + events


def check_all_there(
    folder: Path, sessions: list[tuple[str, str]], written: list[list[str]]
) -> None:
    """Each writer's events are in its session once and in order, and so is what they set."""
    everything = {name: int(name[-3:]) for names in written for name in names}
    with Lake.open(folder, read_only=True) as lake:
        service = LakeSessionService(lake).sync
        for place in dict.fromkeys(sessions):
            own = [names for where, names in zip(sessions, written, strict=True) if where == place]
            of_user = [
                names
                for where, names in zip(sessions, written, strict=True)
                if where[0] == place[0]
            ]
            session = read(service, *place)
            found = [event.id for event in session.events]
            assert sorted(found) == sorted(name for names in own for name in names)
            for names in own:
                assert [name for name in found if name in names] == names
            expected = {name: everything[name] for names in own for name in names}
            expected |= {"user:" + name: everything[name] for names in of_user for name in names}
            expected |= {"app:" + name: number for name, number in everything.items()}
            assert session.state == expected
    check_dense(folder, len(everything))


def run(folder: Path, sessions: list[tuple[str, str]]) -> None:
    """Let one writer append to each of `sessions`, all at once, and check what is stored."""
    begin(folder, list(dict.fromkeys(sessions)))
    arguments = [
        (str(folder), *place, writer, COUNT)
        for place, writer in zip(sessions, WRITERS, strict=True)
    ]
    written = race(append_in_turns, arguments)
    assert [len(names) for names in written] == [COUNT] * PROCESSES
    check_all_there(folder, sessions, written)


def test_one_session(tmp_path: Path) -> None:
    """Writers of one session that reload when stale lose nothing, and keep their own order."""
    run(tmp_path, [("u", "s")] * PROCESSES)


def test_sessions_of_one_user(tmp_path: Path) -> None:
    """Writers of a user's sessions don't hinder each other, and share the user's state."""
    run(tmp_path, [("u", f"s{number}") for number in range(PROCESSES)])


def test_different_users(tmp_path: Path) -> None:
    """Writers of different users share the app's state alone."""
    run(tmp_path, [(f"u{number}", "s") for number in range(PROCESSES)])


def test_thirty_two_app_keys(tmp_path: Path) -> None:
    """Keys that processes and their threads set at one moment are all there."""
    threads = 8
    begin(tmp_path, [("reader", "s")])
    race(set_app_keys, [(str(tmp_path), writer, threads) for writer in WRITERS])

    names = {f"{writer}-{number}": number for writer in WRITERS for number in range(threads)}
    with Lake.open(tmp_path, read_only=True) as lake:
        state = read(LakeSessionService(lake).sync, "reader", "s").state
    assert state.pop("app:last") in names
    assert state == {"app:" + name: number for name, number in names.items()}


# R032
def test_one_creator_wins(tmp_path: Path) -> None:
    """Of fifty and more creators of one id one wins, and the session is the one that it made."""
    Lake.open(tmp_path).close()
    ids = [f"s{number}" for number in range(6)]
    won = race(create_same, [(str(tmp_path), ids, writer, 13) for writer in WRITERS])

    with Lake.open(tmp_path, read_only=True) as lake:
        service = LakeSessionService(lake).sync
        for number, session_id in enumerate(ids):
            winners = [name for names in won for name in names[number]]
            assert len(winners) == 1
            assert read(service, "u", session_id).state == {"by": winners[0]}


# R032
def test_brand_new_lake(tmp_path: Path) -> None:
    """Processes that find no lake make one together, and every session with another id is made."""
    folder = tmp_path / "new" / "lake"
    made = race(create_different, [(str(folder), writer, 13) for writer in WRITERS])

    names = sorted(f"{writer}-{number}" for writer in WRITERS for number in range(13))
    assert sorted(name for each in made for name in each) == names
    with Lake.open(folder, read_only=True) as lake:
        sessions = LakeSessionService(lake).sync.list_sessions(app_name=APP).sessions
    assert sorted(session.id for session in sessions) == names
    shared = {f"{scope}:{name}": 1 for scope in ("app", "user") for name in names}
    assert all(session.state == shared for session in sessions)
