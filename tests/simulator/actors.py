"""Actors: each does what its script says in a process that may crash, and records what it hears.

Owns how questions and answers become plain records for the checker. What an actor can do is in
`tests.simulator.actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from lakestore.errors import ConflictError, StorageError, UnknownOutcomeError
from tests.simulator.plan import APP, Op
from tests.simulator.processes import Process
from tests.simulator.record import Call, Name, Seen, SharedKey
from tests.simulator.scheduler import Crashed

if TYPE_CHECKING:
    from tests.simulator.world import World

SHOWN = 16
"""How many bytes an event has besides, if any: all of them are moved out of it."""

ACTIONS: dict[str, Callable[[Actor, Op], None]] = {}
"""What an actor can do, by name: `tests.simulator.actions` puts it here."""

_OUTCOMES: dict[type[Exception], str] = {
    StaleSessionError: "stale",
    SessionNotFoundError: "missing",
    AlreadyExistsError: "exists",
    ConflictError: "conflict",
    UnknownOutcomeError: "unknown",
    StorageError: "failed",
}


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
        self.receipts: dict[str, Any] = {}
        """What it was told of the users that it erased, which it keeps elsewhere."""
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
        call.by_reader, call.born = process.lake.read_only, process.born
        call.by_hand = call.handle in process.handed
        call.times, call.wall = (scheduler.now, None), (process.lake.clock.wall(), None)
        self.world.calls.append(call)
        before = process.faults, process.stalls
        scheduler.note(f"{kind} {_words(call)}begins")
        answer = None
        try:
            answer = ask()
            call.outcome = "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, the checker judges it
            call.outcome = outcome_of(error)
        call.faults, call.stalls = process.faults - before[0], process.stalls - before[1]
        call.ended = scheduler.tick()
        call.times = call.times[0], scheduler.now
        call.wall = call.wall[0], process.lake.clock.wall()
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
        ids = ids_of(session.events)
        seen = Seen(
            name,
            session.state.get("life"),
            None if tail else ids,
            ids if tail else None,
            session.state.get("last"),
            complete=True,
        )
        call.seen.append(seen)
        call.hollow = hollow_in(session.events)
        call.shared, call.scopes = shared_of(session), (name[0], "")
        shown = " ".join(event or "(pruned)" for event in ids) or "no events"
        self.world.scheduler.note(f"sees {shown}, {_state(session)}")

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
            **facts_of(session, events),
        )
        self.after_append(call, session)
        return call

    def after_append(self, call: Call, session: Session) -> None:
        """Record what the object shows after an append that was acknowledged."""
        if call.is_ok and call.session:
            self.process.handed.pop(id(session), None)
            call.seen.append(Seen(call.session, session.state.get("life"), ids_of(session.events)))
            call.hollow = hollow_in(session.events)

    def events(self, op: Op) -> list[Event]:
        """Make events that nobody else makes."""
        made = []
        for i in range(op.events):
            event_id = op.event or self.name_anew()
            sets = {} if i and op.do != "talk" else dict.fromkeys(op.sets, event_id)
            delta = {"last": event_id, **sets}
            made.append(
                Event(
                    id=event_id,
                    content=shown(op.shows),
                    author="user",
                    invocation_id=op.event or self.where,
                    timestamp=1.0 if op.event else self.world.scheduler.now,
                    actions=EventActions(state_delta=delta),
                )
            )
        return made

    def name_anew(self) -> str:
        """Return a name that nothing else in the history has."""
        where = self.where
        self._named[where] = self._named.get(where, 0) + 1
        return f"{where}-{self._named[where]}"


def outcome_of(error: Exception) -> str:
    """Return what the checker calls that error."""
    for kind, name in _OUTCOMES.items():
        if type(error) is kind:
            return name
    return f"{type(error).__name__}: {error}"


def _words(call: Call) -> str:
    name = f"{call.session[0]}/{call.session[1]} " if call.session else ""
    return name + "".join(f"{event} " for event in call.sent)


def _state(session: Session) -> str:
    return " ".join(f"{k[1]}={v}" for k, v in sorted(shared_of(session).items())) or "no state"


def facts_of(session: Session, events: list[Event]) -> dict[str, Any]:
    """Return what is to be recorded of an append before it is made."""
    return {
        "session": (session.user_id, session.id),
        "life": session.state.get("life"),
        "known": ids_of(session.events),
        "sent": tuple(event.id for event in events),
        "writes": {
            key: value
            for event in events
            for key, value in shared_keys(session.user_id, event.actions.state_delta)
        },
        "handle": id(session),
        "turn": events[0].invocation_id,
        "beside": any(event.content for event in events),
    }


def ids_of(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the ids of events, "" for each one that was pruned."""
    found: list[str] = []
    for event in events:
        pruned = (event.custom_metadata or {}).get("lakestore_pruned")
        found += [""] * pruned["events"] if pruned else [event.id]
    return tuple(found)


def shown(name: str) -> types.Content | None:
    """Return bytes of that name as a content; none for none."""
    blob = types.Blob(data=name.encode() * SHOWN, mime_type="image/png")
    return types.Content(parts=[types.Part(inline_data=blob)]) if name else None


def hollow_in(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the ids of the events that lack bytes which they had."""
    return tuple(
        event.id
        for event in events
        for part in (event.content and event.content.parts) or ()
        if part.inline_data and len(part.inline_data.data or b"") < SHOWN
    )


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
