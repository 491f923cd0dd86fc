"""What a process was doing when it was killed, and what came of it.

`run_and_kill` runs in a worker (`tests.support.processes`) and forks a child for each death: the
worker has imported ADK already. Only POSIX has such children.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from google.adk.events import Event
from google.adk.sessions import Session

from lakestore import Lake, LakeArtifactService, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.storage import LocalStore, MemoryStore
from tests.support.killing_store import KillingStore, Moment, die_in_system_call
from tests.support.session_writers import said

USER, SESSION = "u", "s"
FILE: Any = {"user_id": USER, "session_id": SESSION, "filename": "plan.txt"}
DELTA: dict[str, Any] = {"k": 1, "user:k": 1, "app:k": 1}

Step = Literal[
    "append", "append without marker", "append three", "create", "delete", "save", "delete file"
]
Where = Moment | Literal["in a system call", "in half a write"]


@dataclass(frozen=True)
class Death:
    """How a child ended."""

    killed: bool
    """False: it got to the end of its step first."""
    acknowledged: bool
    """The step returned."""


def begin(service: SyncSessionService, app: str) -> Session:
    """Create the session that the steps work on, with one event and state of every scope."""
    old = dict.fromkeys(DELTA, 0)
    session = service.create_session(app_name=app, user_id=USER, session_id=SESSION, state=old)
    service.append_event(session, said("first"))
    return session


def event(event_id: str, delta: dict[str, Any] | None = None) -> Event:
    """Return the event of that id, the same whoever makes it."""
    made = said(event_id, delta)
    made.timestamp = 1_750_000_000.25
    return made


def step(service: SyncSessionService, session: Session, what: Step) -> None:
    """Do one step on a lake in which `begin` was done."""
    scope = {"app_name": session.app_name, "user_id": session.user_id}
    if what == "create":
        service.create_session(**scope, session_id="new", state=dict(DELTA))
    elif what == "save":
        artifacts = LakeArtifactService(service.lake).sync
        artifacts.save_artifact(**FILE, app_name=session.app_name, artifact={"text": "new"})
    elif what == "delete file":
        artifacts = LakeArtifactService(service.lake).sync
        artifacts.delete_artifact(**FILE, app_name=session.app_name)
    elif what == "delete":
        service.delete_session(**scope, session_id=session.id)
    elif what == "append three":
        service.append_events(session, [event("new", DELTA), event("new 2"), event("new 3")])
    else:
        service.append_event(session, event("new", DELTA))


def run_and_kill(folder: str, app: str, what: Step, where: Where, nth: int) -> Death:
    """Do a step in a child that is killed at the `nth` request or system call of it."""
    _warm_up()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # The child must not come back to whoever runs this worker.
        _exit_after(lambda: _die(folder, app, what, where, nth, writer))
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        acknowledged = pipe.read() == b"acknowledged"
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise AssertionError(f"the step failed. {what=} {where=} {nth=}")
    return Death(os.WIFSIGNALED(status), acknowledged)


@cache
def _warm_up() -> None:
    """Build what is built on first use, pydantic's validators above all, before children are."""
    with Lake(MemoryStore()) as lake:
        service = LakeSessionService(lake).sync
        session = begin(service, "app")
        step(service, session, "append")
        step(service, session, "save")
        service.get_session(app_name="app", user_id=USER, session_id=SESSION)


def _exit_after(call: Callable[[], None]) -> None:
    code = 1
    try:
        call()
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent raises
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(code)


def _die(folder: str, app: str, what: Step, where: Where, nth: int, writer: int) -> None:
    store = KillingStore(LocalStore(folder))
    service = LakeSessionService(Lake(store)).sync
    session = service.get_session(app_name=app, user_id=USER, session_id=SESSION)
    assert session is not None
    if what == "append without marker":
        session = Session.model_validate_json(session.model_dump_json())
    if where == "in half a write":
        # A write that crosses the limit stops there; the system call after it is the next write.
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
    if where in ("before", "after"):
        store.arm(nth, where)
    else:
        die_in_system_call(nth)
    try:
        step(service, session, what)
    finally:
        sys.setprofile(None)
    os.write(writer, b"acknowledged")


def stored(folder: str, app: str, session_id: str = SESSION) -> Session | None:
    """Return the session as a reader sees it that can repair nothing."""
    with Lake.open(folder, read_only=True) as lake:
        return LakeSessionService(lake).sync.get_session(
            app_name=app, user_id=USER, session_id=session_id
        )
