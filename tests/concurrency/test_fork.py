"""Services that were made before a fork work after it, in the child and in the parent (R064)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakestore import Lake, LakeSessionService

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

ROOT = Path(__file__).parents[2]
WORKERS = 4
COUNT = 5

BEGIN = """
import asyncio, os, signal, sys, threading
from lakestore import Lake, LakeSessionService
from lakestore.storage import LocalStore
from tests.support.session_writers import APP, append_or_reload, reload, said

FOLDER, WORKERS, COUNT, SECONDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 20

def begin(service, session_id):
    return service.sync.create_session(app_name=APP, user_id="u", session_id=session_id)

async def work(service, shared, writer):
    own = await service.create_session(app_name=APP, user_id="u", session_id=writer)
    for number in range(COUNT):
        name = f"{writer}-{number}"
        await service.append_event(own, said(name, {"user:" + name: 1, "app:" + name: 1}))
        shared = append_or_reload(service.sync, shared, lambda _: said(name))
        await service.get_session(app_name=APP, user_id="u", session_id=writer)
        await service.list_sessions(app_name=APP)

def fork(service, shared, writer):
    child = os.fork()
    if child:
        return child
    # A child that hangs is ended by this signal, which the parent sees.
    signal.alarm(SECONDS)
    code = 1
    try:
        asyncio.run(work(service, shared, writer))
        service.lake.close()
        code = 0
    finally:
        os._exit(code)

def check(children):
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * len(children), codes
"""

# Threads of the parent append all the time, so that forks come in the middle of appends.
WHILE_APPENDING = """
service = LakeSessionService(Lake.open(FOLDER))
shared = begin(service, "shared")
appended, enough = threading.Semaphore(0), threading.Event()
stored = []

def append():
    session = shared
    # With pauses: who never lets go of a session starves those that reload before they append.
    while not enough.wait(0.02):
        name = f"parent-{len(stored)}"
        session = append_or_reload(service.sync, session, lambda _: said(name))
        stored.append(name)
        appended.release()

asyncio.run(work(service, reload(service.sync, shared), "before"))
thread = threading.Thread(target=append)
thread.start()
children = []
for number in range(WORKERS):
    appended.acquire(timeout=SECONDS)
    children.append(fork(service, reload(service.sync, shared), f"w{number}"))
check(children)
enough.set()
thread.join(SECONDS)
asyncio.run(work(service, reload(service.sync, shared), "after"))
print(*stored)
"""

# Every lock that an append holds is held by a thread that the child does not have.
WITHIN_AN_APPEND = """
class Stopping(LocalStore):
    inside, free = threading.Event(), threading.Event()

    def put_if_absent(self, key, body):
        if threading.current_thread().name == "stops":
            self.inside.set()
            assert self.free.wait(2 * SECONDS)
        super().put_if_absent(key, body)

store = Stopping(FOLDER)
service = LakeSessionService(Lake(store), durability=sys.argv[4])
shared = begin(service, "shared")
service.sync.append_event(shared, said("parent-0"))

def append():
    event = said("parent-1")
    event.author = "agent"
    append_or_reload(service.sync, shared, lambda _: event)

thread = threading.Thread(target=append, name="stops")
thread.start()
store.inside.wait(SECONDS)
with Lake.open(FOLDER) as lake:
    handle = LakeSessionService(lake).sync.get_session(
        app_name=APP, user_id="u", session_id="shared"
    )
children = [fork(service, handle, f"w{number}") for number in range(WORKERS)]
try:
    check(children)
finally:
    store.free.set()
thread.join(SECONDS)
service.sync.close()
print("parent-0", "parent-1")
"""


def run(script: str, folder: Path, *more: str) -> list[str]:
    """Run a script that forks; return what its parent has stored in the shared session."""
    command = [sys.executable, "-c", BEGIN + script, str(folder), str(WORKERS), str(COUNT)]
    ended = subprocess.run(
        [*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def check_stored(folder: Path, writers: list[str], parent: list[str]) -> None:
    """Every process's events are there once, in its order, with what they set."""
    names = [f"{writer}-{number}" for writer in writers for number in range(COUNT)]
    with Lake.open(folder, read_only=True) as lake:
        service = LakeSessionService(lake).sync
        found = {
            session_id: service.get_session(app_name="race", user_id="u", session_id=session_id)
            for session_id in ("shared", *writers)
        }
    events = {
        session_id: [event.id for event in session.events]
        for session_id, session in found.items()
        if session is not None
    }
    assert sorted(events["shared"]) == sorted([*names, *parent])
    for writer in writers:
        own = [name for name in names if name.startswith(writer + "-")]
        assert events[writer] == own
        assert [name for name in events["shared"] if name in own] == own
    assert [name for name in events["shared"] if name in parent] == parent
    shared = found["shared"]
    assert shared is not None
    assert shared.state == {f"{scope}:{name}": 1 for scope in ("user", "app") for name in names}


def test_fork_while_appending(tmp_path: Path) -> None:
    """Workers that are forked while the parent appends, and the parent, lose and double nothing."""
    parent = run(WHILE_APPENDING, tmp_path)
    writers = ["before", *(f"w{number}" for number in range(WORKERS)), "after"]
    check_stored(tmp_path, writers, parent)


def test_fork_within_an_append(tmp_path: Path) -> None:
    """A child does not wait for what a thread of its parent holds, also in the same session."""
    parent = run(WITHIN_AN_APPEND, tmp_path, "append")
    check_stored(tmp_path, [f"w{number}" for number in range(WORKERS)], parent)
