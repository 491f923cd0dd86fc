"""Programs that end without closing anything (R065): quickly, silently, and with nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event

from lakestore import Lake, LakeSessionService

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="programs here are forked")

ROOT = Path(__file__).parents[2]
SECONDS = 6.0
KEY: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s"}

BEGIN = """
import asyncio, sys, time
from google.adk.events import Event
from google.genai import types
from lakestore import Lake, LakeSessionService
from lakestore.errors import StorageError
from lakestore.storage import LocalStore

KEY = {"app_name": "a", "user_id": "u", "session_id": "s"}

def said(event_id, author="user"):
    parts = [types.Part(text=event_id)]
    return Event(id=event_id, author=author, content=types.Content(role="user", parts=parts))

def done():
    with open(FOLDER + ".done", "w") as file:
        file.write(str(time.monotonic()))
"""

# Importing ADK takes seconds, so it is done once: each program is the rest of a forked process,
# which ends as any Python program does.
STARTER = """
import json, os
with Lake.open("memory://warm-up") as lake:
    twin = LakeSessionService(lake).sync
    twin.append_event(twin.create_session(**KEY), said("e"))
    twin.get_session(**KEY)
del lake, twin
ended = []
for FOLDER, text in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        errors = os.open(FOLDER + ".errors", os.O_CREAT | os.O_WRONLY)
        os.dup2(errors, 2)
        os.close(errors)
        exec(text)
        break
    _, status = os.waitpid(child, 0)
    ended.append((os.waitstatus_to_exitcode(status), time.monotonic()))
else:
    print(json.dumps(ended))
"""

APPEND = """
async def main():
    service = LakeSessionService(Lake.open(FOLDER))
    session = await service.create_session(**KEY)
    await service.append_event(session, said("e"))
    done()
asyncio.run(main())
"""

BLOCKING = """
service = LakeSessionService(Lake.open(FOLDER)).sync
service.append_event(service.create_session(**KEY), said("e"))
done()
"""

# The event loop ends, and with it the program, while a thread writes.
RAISE_IN_A_WRITE = """
async def main():
    service = LakeSessionService(Lake.open(FOLDER))
    session = await service.create_session(**KEY)
    writing = asyncio.ensure_future(service.append_event(session, said("e")))
    while not writing.done() and not service.lake.metrics.requests["PUT"] > 3:
        await asyncio.sleep(0)
    done()
    raise RuntimeError("on purpose")
asyncio.run(main())
"""

FAIL_IN_A_WRITE = """
class Broken(LocalStore):
    def put_if_absent(self, key, body):
        if "/session=s/" in key and key.endswith("2.parquet"):
            raise StorageError("on purpose")
        super().put_if_absent(key, body)

async def main():
    service = LakeSessionService(Lake(Broken(FOLDER)))
    session = await service.create_session(**KEY)
    done()
    await service.append_event(session, said("e"))
asyncio.run(main())
"""

TURN = """
service = LakeSessionService(Lake.open(FOLDER), durability="turn")
session = asyncio.run(service.create_session(**KEY))
asyncio.run(service.append_event(session, said("e")))
done()
"""

TURN_IN_A_FUNCTION = """
async def main():
    service = LakeSessionService(Lake.open(FOLDER), durability="turn")
    session = await service.create_session(**KEY)
    await service.append_event(session, said("e"))
    done()
asyncio.run(main())
"""

TURN_OF_THE_TWIN = """
service = LakeSessionService(Lake.open(FOLDER), durability="turn").sync
service.append_event(service.create_session(**KEY), said("e"))
done()
sys.exit(3)
"""

# So many versions that the one written at exit calls for a rollup.
TURN_OF_A_LONG_SESSION = """
service = LakeSessionService(Lake.open(FOLDER), durability="turn").sync
session = service.create_session(**KEY)
for number in range(102):
    service.append_event(session, said(f"e{number}", author="agent"))
service.append_event(session, said("e"))
done()
"""

# So old a session, and so many commits, that many requests are made before the last one.
TURN_OF_AN_OLD_SESSION = """
from tests.support.clocks import ManualClock
clock = ManualClock()
service = LakeSessionService(Lake(LocalStore(FOLDER), clock=clock), durability="turn").sync
session = service.create_session(**KEY)
for number in range(50):
    service.append_event(session, said(f"e{number}", author="agent"))
service.append_event(session, said("e"))
clock.advance(1000)
done()
"""


@dataclass(frozen=True)
class Program:
    """A program, and how it should end."""

    text: str
    code: int = 0
    error: str = ""
    """What its last line on the error output says."""


PROGRAMS = {
    "append": Program(APPEND),
    "blocking": Program(BLOCKING),
    "raise in a write": Program(RAISE_IN_A_WRITE, 1, "RuntimeError: on purpose"),
    "fail in a write": Program(FAIL_IN_A_WRITE, 1, "lakestore.errors.StorageError: on purpose"),
    "turn": Program(TURN),
    "turn in a function": Program(TURN_IN_A_FUNCTION),
    "turn of the twin": Program(TURN_OF_THE_TWIN, 3),
    "turn of a long session": Program(TURN_OF_A_LONG_SESSION),
    "turn of an old session": Program(TURN_OF_AN_OLD_SESSION),
}
MAY_BE_LOST = ("raise in a write", "fail in a write")


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    folder: Path
    code: int
    errors: str
    seconds: float
    """From its last statement to its end."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """How each program ended, with every warning shown."""
    places = {name: tmp_path_factory.mktemp("lake") / "lake" for name in PROGRAMS}
    texts = [(str(places[name]), program.text) for name, program in PROGRAMS.items()]
    starter = subprocess.run(
        [
            sys.executable,
            "-W",
            "default::ResourceWarning",
            "-c",
            BEGIN + STARTER,
            json.dumps(texts),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=SECONDS * 30,
        check=True,
    )
    found = {}
    for (name, folder), (code, at) in zip(places.items(), json.loads(starter.stdout), strict=True):
        errors = folder.with_suffix(".errors").read_text()
        finished = folder.with_suffix(".done")
        assert finished.exists(), errors
        found[name] = Ended(folder, code, errors, at - float(finished.read_text()))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_ends_quickly_and_silently(ended: dict[str, Ended], name: str) -> None:
    """A program that closes nothing ends by itself, and complains of nothing but its own error."""
    program, end = PROGRAMS[name], ended[name]
    assert end.code == program.code, end.errors
    assert end.seconds < SECONDS
    assert end.errors.count("Traceback") == (1 if program.error else 0), end.errors
    assert "Warning" not in end.errors
    if program.error:
        assert end.errors.rstrip().splitlines()[-1] == program.error
    else:
        assert end.errors == ""


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in MAY_BE_LOST])
def test_nothing_is_lost(ended: dict[str, Ended], name: str) -> None:
    """What an append took before the end is stored, once."""
    assert stored(ended[name].folder).count("e") == 1


@pytest.mark.parametrize("name", MAY_BE_LOST)
def test_nothing_is_doubled(ended: dict[str, Ended], name: str) -> None:
    """What was being written is stored once or not at all, and the session goes on."""
    before = stored(ended[name].folder)
    assert before in ([], ["e"])
    with Lake.open(ended[name].folder) as lake:
        service = LakeSessionService(lake).sync
        session = service.get_session(**KEY)
        assert session is not None
        service.append_event(session, session.events[0] if before else _next())
    assert len(stored(ended[name].folder)) == 1


def _next() -> Event:
    return Event(id="next", author="user")


def stored(folder: Path) -> list[str]:
    """Return the ids of the session's events."""
    with Lake.open(folder, read_only=True) as lake:
        session = LakeSessionService(lake).sync.get_session(**KEY)
    assert session is not None
    return [event.id for event in session.events]
