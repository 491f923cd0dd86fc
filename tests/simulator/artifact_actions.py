"""What actors do with artifacts, below the service, whose parts have no histories."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256

from lakestore import jobs
from lakestore.history.artifact_uploads import Draft
from lakestore.log.keys import ArtifactKey
from tests.simulator.actions import action
from tests.simulator.actors import Actor
from tests.simulator.job_actions import prune
from tests.simulator.plan import APP, Op
from tests.simulator.record import Name

_SQL = f"""
SELECT user_id, coalesce(session_id, '-'), version, sha256 FROM artifacts
WHERE app_name = '{APP}' ORDER BY ALL
"""


def key_of(name: Name) -> ArtifactKey:
    """Return the one artifact of a session, or (`-`) the one that all of the user's share."""
    user, session = name
    if session == "-":
        return ArtifactKey(APP, user, None, "user:f")
    return ArtifactKey(APP, user, session, "f")


@action("save file")
def save(actor: Actor, op: Op) -> None:
    """Save a version, whose content says its own name; again while it may not have been saved."""
    name = (op.user, op.session)
    for _ in range(op.tries):
        content = op.event or actor.name_anew()
        call, saved = actor.call(
            "save file",
            partial(actor.process.lake.artifacts.save, key_of(name), Draft("{}"), content.encode()),
            session=name,
            content=content,
        )
        if call.is_ok:
            call.files = ((saved.artifact_version, content),)
            actor.world.scheduler.note(f"{content} is version {saved.artifact_version}")
            break


@action("load file")
def load(actor: Actor, op: Op) -> None:
    """Load every version of an artifact."""
    name = (op.user, op.session)
    artifacts, key = actor.process.lake.artifacts, key_of(name)

    def ask() -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
        numbers = tuple(saved.artifact_version for saved in artifacts.read(key).saves)
        found = [(number, artifacts.read_payload(key, number)) for number in numbers]
        return numbers, tuple((number, it[1].decode()) for number, it in found if it)

    call, answer = actor.call("load file", ask, session=name)
    if call.is_ok:
        call.numbers, call.files = answer
        told = " ".join(f"{number}={content}" for number, content in call.files)
        actor.world.scheduler.note(f"loads {told or 'nothing'}")


@action("delete file")
def delete(actor: Actor, op: Op) -> None:
    """Delete all versions of an artifact."""
    name = (op.user, op.session)
    ask = partial(actor.process.lake.artifacts.delete, key_of(name))
    actor.call("delete file", ask, session=name)


@action("files")
def files(actor: Actor, op: Op) -> None:
    """Ask the catalog for all artifacts: as if each was loaded."""
    call, rows = actor.call("files", lambda: actor.process.lake.sql(_SQL).fetchall())
    if call.is_ok:
        contents = {sha256(it.content.encode()).hexdigest(): it.content
                    for it in actor.world.calls if it.content}  # fmt: skip
        for name in actor.world.files:
            found = tuple((row[2], contents.get(row[3], "?")) for row in rows if row[:2] == name)
            numbers = tuple(number for number, _ in found)
            actor.world.calls.append(
                replace(call, kind="load file", session=name, numbers=numbers, files=found)
            )


@action("prune files")
def prune_files(actor: Actor, op: Op) -> None:
    """Drop versions that are `seconds` old, but for the latest."""
    prune(actor, op, jobs.prune_artifacts, "older_than_days")
