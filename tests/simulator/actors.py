"""What actors do, through the product's public face, and how it is recorded for the checker.

A new kind of actor, a job of a later issue, is one function here with `@action`, which calls the
product through `actor.call`, and a line in the weights of `tests.simulator.plan`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from lakestore.adk.appending import session_key
from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.log.keys import Scope
from tests.simulator.plan import APP, Op
from tests.simulator.processes import Process, await_done
from tests.simulator.record import Call, Name, Seen, SharedKey
from tests.simulator.scheduler import Crashed
from tests.simulator.store import GRACE

if TYPE_CHECKING:
    from tests.simulator.world import World

Action = Callable[["Actor", Op], None]
ACTIONS: dict[str, Action] = {}

_OUTCOMES: dict[type[Exception], str] = {
    StaleSessionError: "stale",
    SessionNotFoundError: "missing",
    AlreadyExistsError: "exists",
    UnknownOutcomeError: "unknown",
    StorageError: "failed",
}
_RECENT = 2
_SQL = f"""
SELECT s.user_id, s.session_id, s.state,
  list(e.event_id ORDER BY e.version, e.ordinal) FILTER (e.event_id IS NOT NULL)
FROM sessions AS s LEFT JOIN events AS e
  ON s.app_name = e.app_name AND s.user_id = e.user_id AND s.session_id = e.session_id
WHERE s.app_name = '{APP}' GROUP BY ALL
"""


def action(name: str) -> Callable[[Action], Action]:
    """Let actors do something under that name."""

    def register(do: Action) -> Action:
        ACTIONS[name] = do
        return do

    return register


class Actor:
    """Does what its script says, one thing after the other, in a process that may crash."""

    def __init__(
        self,
        world: World,
        name: str,
        script: Mapping[int, Op],
        skew: float = 0.0,
        *,
        near: bool = False,
    ) -> None:
        self.world = world
        self.name = name
        self._script = script
        self._skew = skew
        self._near = near
        self._starts = 0
        self._named: dict[str, int] = {}
        self.final = False
        """Whether it reads after all others have ended."""
        self._begin()

    def _begin(self) -> None:
        self._starts += 1
        self.process = self._new_process(f"{self.name}{self._starts}")

    def _new_process(self, name: str, *, read_only: bool = False) -> Process:
        return Process(self.world, name, self._skew, near=self._near, read_only=read_only)

    @contextmanager
    def reading_only(self) -> Iterator[None]:
        """Let what is inside be done by another process, which has the lake open for reading."""
        mine = self.process
        self.process = self._new_process(f"{mine.name}r", read_only=True)
        self.process.life = mine.life
        try:
            yield
        finally:
            self.process = mine

    @property
    def service(self) -> Any:
        """The sync session service of its process."""
        return self.process.service

    def run(self) -> None:
        """Do everything; after a crash go on in a new process."""
        fiber = self.world.scheduler.current
        assert fiber is not None
        for number, op in self._script.items():
            fiber.prefix = fiber.op = f"{self.name}.{number}"
            fiber.count = 0
            try:
                self.do(op)
            except Crashed:
                self._begin()
                fiber.life = self.process.life
                self.world.scheduler.note("a new process begins")

    def do(self, op: Op) -> None:
        """Do one thing."""
        ACTIONS[op.do](self, op)

    @property
    def where(self) -> str:
        """Where in its script it is."""
        fiber = self.world.scheduler.current
        return fiber.op if fiber else f"{self.name}.{self.world.scheduler.ticks}"

    def call(self, kind: str, ask: Callable[[], Any], **facts: Any) -> tuple[Call, Any]:
        """Ask a service, and record question and answer."""
        scheduler, process = self.world.scheduler, self.process
        scheduler.outside = self.name
        call = Call(kind, process.name, self.where, scheduler.tick(), final=self.final, **facts)
        self.world.calls.append(call)
        before = process.faults, process.stalls
        scheduler.note(f"{kind} {_words(call)}begins")
        answer = None
        try:
            answer = ask()
            call.outcome = "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, the checker judges it
            call.outcome = _outcome(error)
        call.faults, call.stalls = process.faults - before[0], process.stalls - before[1]
        call.ended = scheduler.tick()
        scheduler.note(f"{kind} {_words(call)}-> {call.outcome}")
        return call, answer

    def get(self, user: str, session_id: str, recent: int | None = None) -> Session | None:
        """Read a session; None when there is none, or it could not be read."""
        config = None if recent is None else GetSessionConfig(num_recent_events=recent)
        call, session = self.call(
            "get",
            lambda: self.service.get_session(
                app_name=APP, user_id=user, session_id=session_id, config=config
            ),
            session=(user, session_id),
        )
        if call.is_ok:
            self._saw(call, (user, session_id), session, tail=recent is not None)
        return session if isinstance(session, Session) else None

    def _saw(self, call: Call, name: Name, session: Session | None, *, tail: bool) -> None:
        if session is None:
            call.seen.append(Seen(name, None))
            return
        ids = tuple(event.id for event in session.events)
        seen = Seen(
            name,
            session.state.get("life"),
            None if tail else ids,
            ids if tail else None,
            session.state.get("last"),
            complete=True,
        )
        call.seen.append(seen)
        call.shared, call.scopes = shared_of(session), (name[0], "")
        self.world.scheduler.note(f"sees {' '.join(ids) or 'no events'}, {_state(session)}")

    def handle(self, op: Op) -> Session | None:
        """Return a `Session` object to work with, reading the session if there is none yet."""
        held = self.process.handles.setdefault((op.user, op.session), [])
        if not held:
            found = self.get(op.user, op.session)
            if found is None:
                return None
            held.append(found)
        return held[0] if op.old else held[-1]

    def append(self, session: Session, events: list[Event], kind: str = "append") -> Call:
        """Append through a `Session` object."""
        call, _ = self.call(
            kind,
            lambda: self.service.append_events(session, events),
            **_facts(session, events),
        )
        self.after_append(call, session)
        return call

    def after_append(self, call: Call, session: Session) -> None:
        """Record what the object shows after an append that was acknowledged."""
        if call.is_ok and call.session:
            ids = tuple(event.id for event in session.events)
            call.seen.append(Seen(call.session, session.state.get("life"), ids))

    def events(self, op: Op) -> list[Event]:
        """Make events that nobody else makes."""
        made = []
        for i in range(op.events):
            event_id = op.event or self._name()
            sets = {} if i and op.do != "talk" else dict.fromkeys(op.sets, event_id)
            delta = {"last": event_id, **sets}
            made.append(
                Event(
                    id=event_id,
                    author="user",
                    timestamp=1.0 if op.event else self.world.scheduler.now,
                    actions=EventActions(state_delta=delta),
                )
            )
        return made


    def _name(self) -> str:
        """Return a name that nothing else in the history has."""
        where = self.where
        self._named[where] = self._named.get(where, 0) + 1
        return f"{where}-{self._named[where]}"


def _outcome(error: Exception) -> str:
    for kind, name in _OUTCOMES.items():
        if type(error) is kind:
            return name
    return f"{type(error).__name__}: {error}"


def _words(call: Call) -> str:
    name = f"{call.session[0]}/{call.session[1]} " if call.session else ""
    return name + "".join(f"{event} " for event in call.sent)


def _state(session: Session) -> str:
    return " ".join(f"{k[1]}={v}" for k, v in sorted(shared_of(session).items())) or "no state"


def _facts(session: Session, events: list[Event]) -> dict[str, Any]:
    return {
        "session": (session.user_id, session.id),
        "life": session.state.get("life"),
        "known": tuple(event.id for event in session.events),
        "sent": tuple(event.id for event in events),
        "writes": {
            key: value
            for event in events
            for key, value in shared_keys(session.user_id, event.actions.state_delta)
        },
        "handle": id(session),
    }


def shared_keys(user: str, delta: Mapping[str, Any]) -> Iterator[tuple[SharedKey, Any]]:
    """Yield the shared keys of a delta or state of that user, with their values."""
    for key, value in delta.items():
        if key.startswith("user:"):
            yield (user, key), value
        elif key.startswith("app:"):
            yield ("", key), value


def shared_of(session: Session) -> dict[SharedKey, str]:
    """Return the shared state that a session shows."""
    return dict(shared_keys(session.user_id, session.state))


@action("create")
def create(actor: Actor, op: Op) -> None:
    """Create a session with a given id, which is looked for first."""
    life = f"life {actor.where}"
    state = {"life": life, **dict.fromkeys(op.sets, life)}
    call, session = actor.call(
        "create",
        lambda: actor.service.create_session(
            app_name=APP, user_id=op.user, session_id=op.session, state=state
        ),
        session=(op.user, op.session),
        life=life,
        writes=dict(shared_keys(op.user, state)),
    )
    if session is not None:
        call.seen.append(Seen((op.user, op.session), session.state.get("life"), ()))
        actor.process.handles.setdefault((op.user, op.session), []).append(session)


@action("append")
def append(actor: Actor, op: Op) -> None:
    """Append through a `Session` object, again while the outcome is not known."""
    session = actor.handle(op)
    if session is None:
        return
    events = actor.events(op)
    for attempt in range(op.tries):
        one_by_one = op.singly and attempt
        batches = [[event] for event in events] if one_by_one else [events]
        calls = [actor.append(session, batch) for batch in batches]
        if not any(call.outcome in ("unknown", "failed") for call in calls):
            break
    if any(call.outcome in ("stale", "missing") for call in calls):
        actor.process.handles[op.user, op.session].remove(session)


@action("talk")
def talk(actor: Actor, op: Op) -> None:
    """Append many events one by one, which makes the product roll up and fold on its own."""
    session = actor.handle(op)
    if session is not None:
        for event in actor.events(op):
            if not actor.append(session, [event]).is_ok:
                break


@action("pair")
def pair(actor: Actor, op: Op) -> None:
    """Two tasks of one process append through one `Session` object, as in an event loop."""
    session = actor.handle(op)
    fiber = actor.world.scheduler.current
    if session is None or fiber is None:
        return
    done: list[Call] = []

    def task(prefix: str) -> None:
        own = actor.world.scheduler.current
        assert own is not None
        own.op = prefix
        (event,) = actor.events(op)
        service, key = actor.service, session_key(APP, op.user, op.session)

        def ask() -> None:
            begun = service.locks.run(
                key,
                actor.process.lake.submit,
                lambda: service.appender.commit(key, session, [event])(),
            )
            await_done(actor.world.scheduler, begun)
            begun.result()

        call, _ = actor.call("append", ask, **_facts(session, [event]))
        actor.after_append(call, session)
        done.append(call)

    for letter in "xy":
        prefix = f"{fiber.op}{letter}"
        actor.world.scheduler.spawn(prefix, actor.process.life, partial(task, prefix))
    actor.world.scheduler.wait(fiber.next_place(), lambda: len(done) == 2)
    if any(call.outcome in ("stale", "missing") for call in done):
        actor.process.handles[op.user, op.session].remove(session)


@action("get")
def get(actor: Actor, op: Op) -> None:
    """Read a session whole, and hold it."""
    session = actor.get(op.user, op.session)
    if session is not None:
        held = actor.process.handles.setdefault((op.user, op.session), [])
        held[:] = [*held[-1:], session]


@action("hand on")
def hand_on(actor: Actor, op: Op) -> None:
    """Take over a session from a process that only reads, as JSON does: without its marker."""
    with actor.reading_only():
        session = actor.get(op.user, op.session)
    if session is not None:
        held = actor.process.handles.setdefault((op.user, op.session), [])
        held[:] = [*held[-1:], Session.model_validate(session.model_dump())]


@action("recent")
def recent(actor: Actor, op: Op) -> None:
    """Read the last events of a session."""
    actor.get(op.user, op.session, _RECENT)


@action("delete")
def delete(actor: Actor, op: Op) -> None:
    """Delete a session."""
    actor.call(
        "delete",
        lambda: actor.service.delete_session(
            app_name=APP, user_id=op.user, session_id=op.session
        ),
        session=(op.user, op.session),
    )


@action("list")
def list_sessions(actor: Actor, op: Op) -> None:
    """List the sessions of a user, or (user `*`) of the app."""
    user = None if op.user in ("v", "*") else op.user
    call, answer = actor.call(
        "list", lambda: actor.service.list_sessions(app_name=APP, user_id=user)
    )
    if not call.is_ok:
        return
    found = {(session.user_id, session.id): session for session in answer.sessions}
    call.shared = {}
    for name in actor.world.names:
        if user in (None, name[0]):
            session = found.pop(name, None)
            if session is None:
                call.seen.append(Seen(name, None))
                continue
            last = session.state.get("last")
            call.seen.append(Seen(name, session.state.get("life"), last=last, complete=True))
            call.shared = {**call.shared, **shared_of(session)}
            call.scopes = (*call.scopes, name[0], "")
    assert not found, "sessions that nobody made"


@action("user events")
def user_events(actor: Actor, op: Op) -> None:
    """Read all events of a user in one pass."""
    call, table = actor.call("user events", lambda: actor.process.lake.user_events(APP, op.user))
    if call.is_ok:
        rows: dict[str, list[str]] = {}
        for session, event in zip(
            table["session_id"].to_pylist(), table["event_id"].to_pylist(), strict=True
        ):
            rows.setdefault(session, []).append(event)
        for session, ids in rows.items():
            call.seen.append(Seen((op.user, session), "", tuple(ids)))


@action("user state")
def user_state(actor: Actor, op: Op) -> None:
    """Read the state of a user."""
    call, state = actor.call(
        "user state", lambda: actor.service.get_user_state(app_name=APP, user_id=op.user)
    )
    if call.is_ok:
        call.shared = {(op.user, f"user:{key}"): value for key, value in state.items()}
        call.scopes = (op.user,)


@action("sql")
def sql(actor: Actor, op: Op) -> None:
    """Ask the catalog for all events of all sessions."""
    call, rows = actor.call("sql", lambda: actor.process.lake.sql(_SQL).fetchall())
    if call.is_ok:
        found = {(row[0], row[1]): row for row in rows}
        for name in actor.world.names:
            row = found.get(name)
            if row is None:
                call.seen.append(Seen(name, None))
                continue
            state = json.loads(row[2])
            seen = Seen(name, state.get("life"), tuple(row[3] or ()), last=state.get("last"))
            call.seen.append(seen)


@action("roll up")
def roll_up(actor: Actor, op: Op) -> None:
    """Write a rollup of a session, and sweep below an old one, in the background."""
    sessions, key = actor.process.lake.sessions, session_key(APP, op.user, op.session)
    actor.process.background(lambda: sessions.roll_up(key, force=True))


@action("overtake")
def overtake(actor: Actor, op: Op) -> None:
    """Append, roll up, let the grace pass, and sweep all that a slow writer could build on."""
    for wait_for in (1.2 * GRACE, 0.0):
        session = actor.handle(op)
        if session is None:
            return
        for event in actor.events(replace(op, events=3 if wait_for else 1)):
            if actor.append(session, [event]).outcome != "ok":
                actor.process.handles[op.user, op.session].remove(session)
                return
        sessions, key = actor.process.lake.sessions, session_key(APP, op.user, op.session)
        sessions.roll_up(key, force=True)
        wait(actor, replace(op, seconds=wait_for))


@action("fold")
def fold(actor: Actor, op: Op) -> None:
    """Fold the state entries of a user, or of the app, and sweep below an old fold."""
    shared = actor.process.lake.sessions.shared
    scope = Scope(APP, None if any(key.startswith("app:") for key in op.sets) else op.user)
    actor.process.background(lambda: shared.fold_entries(scope))


@action("wait")
def wait(actor: Actor, op: Op) -> None:
    """Do nothing for a while."""
    scheduler, fiber = actor.world.scheduler, actor.world.scheduler.current
    if fiber is not None:
        scheduler.note(f"does nothing for {op.seconds:.0f} s")
        scheduler.pause(fiber.next_place(), op.seconds)
