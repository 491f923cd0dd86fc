"""What actors do besides: jobs, which change no answer, and those that forget.

Ages are given in seconds: a job is told a time that is as much later as its day is too long.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from lakestore import jobs
from tests.simulator.actions import action
from tests.simulator.actors import Actor
from tests.simulator.plan import APP, Op
from tests.simulator.record import Call, Job

_PACK_BYTES = 2**20


@action("compact")
def compact(actor: Actor, op: Op) -> None:
    """Pack what is fresh, with `singly` each session by itself."""
    size = 1 if op.singly else _PACK_BYTES
    actor.call(
        "compact",
        lambda: jobs.compact(actor.process.lake, app_name=APP, pack_bytes=size),
        job=Job(),
    )


@action("sweep")
def sweep(actor: Actor, op: Op) -> None:
    """Delete what nobody needs."""
    actor.call("sweep", lambda: jobs.sweep(actor.process.lake, app_name=APP), job=Job())


@action("check")
def check(actor: Actor, op: Op) -> None:
    """Read everything and see whether it fits together."""
    call, report = actor.call("check", lambda: jobs.check(actor.process.lake), job=Job())
    if call.is_ok and call.job:
        call.job.found = tuple(
            f"{each.kind}: {each.key} {each.problem}"
            for each in report.findings
            if (each.severity == "lost" or (actor.final and each.severity == "mendable"))
            # Readers are asked of those that were acknowledged; of others bytes may be missing.
            and each.kind != "damaged payload"
        )


@action("prune sessions")
def prune_sessions(actor: Actor, op: Op) -> None:
    """Delete what nobody has added to for `seconds`."""
    prune(actor, op, jobs.prune_sessions, "idle_days")


@action("prune events")
def prune_events(actor: Actor, op: Op) -> None:
    """Cut what is `seconds` old."""
    prune(actor, op, jobs.prune_events, "older_than_days")


@action("prune state")
def prune_state(actor: Actor, op: Op) -> None:
    """Forget what users' keys hold for `seconds`."""
    prune(actor, op, jobs.prune_user_state, "idle_days")


@action("prune telemetry")
def prune_telemetry(actor: Actor, op: Op) -> None:
    """Forget what was measured `seconds` ago."""
    prune(actor, op, jobs.prune_telemetry, "older_than_days")


def prune(actor: Actor, op: Op, job: Callable[..., Any], days: str) -> None:
    """Prune what is `seconds` old."""
    lake, user = actor.process.lake, None if op.user == "*" else op.user
    before = int(lake.clock.wall() - op.seconds)
    now = datetime.fromtimestamp(before, UTC) + timedelta(days=1)
    actor.call(
        op.do,
        lambda: job(lake, **{days: 1}, app_name=APP, user_id=user, now=now),
        job=Job(user, float(before)),
    )


@action("erase")
def erase(actor: Actor, op: Op) -> None:
    """Erase a user, and keep the receipt; with `singly` do not wait to remove the objects."""
    call, receipt = actor.call(
        "erase",
        lambda: jobs.erase_user(actor.process.lake, APP, op.user, wait=not op.singly),
        job=Job(op.user),
    )
    _keep(actor, call, receipt)


@action("finish")
def finish(actor: Actor, op: Op) -> None:
    """Do what the receipt of an erase leaves to be done, and look once more after the grace."""
    while op.user in actor.receipts and actor.receipts[op.user].pending:
        ask = partial(actor.receipts[op.user].finish, actor.process.lake)
        call, receipt = actor.call("finish", ask, job=Job(op.user))
        _keep(actor, call, receipt)
        if not call.is_ok or receipt.left:
            break


def _keep(actor: Actor, call: Call, receipt: Any) -> None:
    if call.is_ok and call.job:
        actor.receipts[receipt.user_id] = receipt
        call.job.status = receipt.status
        if receipt.status == "done":
            call.job.found = tuple(actor.world.left_of(receipt.user_id, call.times[0]))
