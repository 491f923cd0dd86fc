"""What actors do with memory, through the product's public face."""

from __future__ import annotations

from contextlib import suppress

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from lakestore import jobs
from lakestore.adk.extracting import History
from lakestore.adk.memory_entries import MemoryScope
from lakestore.errors import NotFoundError
from tests.simulator.actions import action, wait
from tests.simulator.actors import Actor
from tests.simulator.plan import APP, Op
from tests.simulator.record import Job

_WORD = "memo"
"""What is asked for: every memory has it."""


@action("remember")
def remember(actor: Actor, op: Op) -> None:
    """Add memories, each of which says its own name; again while it may not have been stored."""
    names = tuple(op.event or actor.name_anew() for _ in range(op.events))
    parts = [[types.Part(text=name), types.Part(text=_WORD)] for name in names]
    added = [
        MemoryEntry(id=name, content=types.Content(parts=said))
        for name, said in zip(names, parts, strict=True)
    ]
    scope = _scope(op)
    for attempt in range(op.tries):
        if attempt and op.seconds:
            wait(actor, op)
        call, _ = actor.call(
            "remember",
            lambda: actor.process.memories.add_memory(
                app_name=APP, user_id=op.user, memories=added, scope=scope
            ),
            session=(op.user, scope),
            remembered=names,
        )
        if call.is_ok and not op.singly:
            break


@action("forget")
def forget(actor: Actor, op: Op) -> None:
    """Forget a memory."""
    actor.call(
        "forget",
        lambda: actor.process.memories.delete_memory(
            app_name=APP, user_id=op.user, memory_id=op.event, scope=_scope(op)
        ),
        session=(op.user, _scope(op)),
        remembered=(op.event,),
    )


@action("recall")
def recall(actor: Actor, op: Op) -> None:
    """Ask for all that a user may find."""
    call, found = actor.call(
        "recall",
        lambda: actor.process.memories.search_memory(app_name=APP, user_id=op.user, query=_WORD),
        session=(op.user, ""),
    )
    if call.is_ok:
        call.remembered = tuple(memory.id for memory in found.memories)
        actor.world.scheduler.note(f"finds {' '.join(call.remembered) or 'nothing'}")


@action("rebuild")
def rebuild(actor: Actor, op: Op) -> None:
    """Make anew what came from events: what was added by hand, as all that is asked for, stays."""
    lake = actor.process.lake
    actor.call("rebuild", lambda: jobs.rebuild_memory(lake, APP, extractor=_made), job=Job())


def _made(history: History) -> list[MemoryEntry]:
    """Return a memory that nobody asks for."""
    return [MemoryEntry(content=types.Content(parts=[types.Part(text="made")]))]


@action("restore")
def restore(actor: Actor, op: Op) -> None:
    """Bring back what the last rebuild has replaced, if there is any."""

    def bring_back() -> None:
        with suppress(NotFoundError):
            jobs.restore_memory(actor.process.lake, APP)

    actor.call("restore", bring_back, job=Job())


def _scope(op: Op) -> MemoryScope:
    return "app" if "app:" in op.sets else "user"
