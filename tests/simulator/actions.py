"""What actors do, through the product's public face.

A new kind of actor, a job of a later issue, is one function here with `@action`, which calls the
product through `actor.call`, and a line in the weights of `tests.simulator.plan`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from google.adk.sessions.session import Session

from lakestore.adk.appending import session_key
from lakestore.history.telemetry import put_telemetry
from lakestore.log.keys import Scope
from lakestore.tables.telemetry import TelemetryRow
from tests.simulator.actors import ACTIONS, Actor, facts_of, shared_keys, shared_of
from tests.simulator.plan import APP, Op
from tests.simulator.processes import await_done
from tests.simulator.record import Call, Seen
from tests.simulator.store import GRACE

Action = Callable[[Actor, Op], None]

_RECENT = 2
_SQL = f"""
SELECT s.user_id, s.session_id, s.state,
  list(CASE e.author WHEN 'lakestore' THEN e.event_json ELSE e.event_id END
    ORDER BY e.version, e.ordinal) FILTER (e.event_id IS NOT NULL)
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
    """Append many events of a turn one by one, every `seconds`.

    A hundred make the product roll up and fold on its own.
    """
    session = actor.handle(op)
    if session is not None:
        for event in actor.events(op):
            if not actor.append(session, [event]).is_ok:
                break
            if op.seconds:
                wait(actor, op)


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

        call, _ = actor.call("append", ask, **facts_of(session, [event]))
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
        copied = Session.model_validate(session.model_dump())
        actor.process.handed[id(copied)] = copied
        held[:] = [*held[-1:], copied]


@action("recent")
def recent(actor: Actor, op: Op) -> None:
    """Read the last events of a session."""
    actor.get(op.user, op.session, _RECENT)


@action("delete")
def delete(actor: Actor, op: Op) -> None:
    """Delete a session."""
    actor.call(
        "delete",
        lambda: actor.service.delete_session(app_name=APP, user_id=op.user, session_id=op.session),
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
        for row in table.select(["session_id", "event_id", "event_json", "author"]).to_pylist():
            text = row["event_json"] if row["author"] == "lakestore" else row["event_id"]
            rows.setdefault(row["session_id"], []).extend(_ids_in(text))
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
            ids = tuple(event for text in row[3] or () for event in _ids_in(text))
            call.seen.append(Seen(name, state.get("life"), ids, last=state.get("last")))


@action("measure")
def measure(actor: Actor, op: Op) -> None:
    """Store what a plugin has measured of a session, and again, as a plugin does that is unsure."""
    session = actor.handle(op)
    if session is None:
        return
    process, life = actor.process, session.state.get("life")
    lake = process.lake
    marker = str(session._storage_update_marker or "0").partition(":")[0]
    row = TelemetryRow(
        app_name=APP,
        user_id=op.user,
        id=actor.name_anew(),
        stamp="",
        kind="run",
        session_id=op.session,
        version=int(marker) if marker.isdigit() else 0,
        invocation_id=str(life),
        started_at=int(lake.clock.wall() * 1_000_000),
    )
    for attempt in range(op.tries):
        if attempt and op.seconds:
            wait(actor, op)
        actor.call(
            "measure",
            lambda: put_telemetry(lake.environment, [row]),
            session=(op.user, op.session),
            life=life,
            measured=(row.id,),
        )


@action("telemetry")
def telemetry(actor: Actor, op: Op) -> None:
    """Ask the catalog for all telemetry."""
    query = f"SELECT id FROM telemetry WHERE app_name = '{APP}' ORDER BY id"
    call, rows = actor.call("telemetry", lambda: actor.process.lake.sql(query).fetchall())
    if call.is_ok:
        call.measured = tuple(row[0] for row in rows)


def _ids_in(text: str) -> list[str]:
    """Return an event's id, or, of the JSON of one that stands for some that were pruned, ""s."""
    if not text.startswith("{"):
        return [text]
    return [""] * json.loads(text)["customMetadata"]["lakestore_pruned"]["events"]


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
