"""Whether telemetry is shown as it should be. Imports nothing of the product.

What was stored is shown once by everyone who asks later, until its session may have ended or it may
have been pruned; what was pruned or erased is shown to nobody who asks after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.simulator.record import Call

_NEVER = 1 << 60


def check_measured(calls: Sequence[Call]) -> Iterator[str]:
    """Yield what is wrong with what readers of telemetry were shown."""
    stored = {row: call for call in calls if call.kind == "measure" for row in call.measured}
    for reader in calls:
        if reader.kind != "telemetry" or not reader.is_ok:
            continue
        shown = list(reader.measured)
        for row in sorted(set(shown)):
            if shown.count(row) > 1 or row not in stored:
                yield f"{reader.where}: shows {row} {shown.count(row)} times, or nobody stored it"
            elif job := _hider(stored[row], reader, calls):
                yield f"{reader.where}: shows {row} after {job.where} {job.kind}"
        for row, call in stored.items():
            due = call.is_ok and call.ended_before(reader.began)
            if due and row not in shown and not _may_lack(call, reader, calls):
                yield f"{reader.where}: does not show {row}"


def _may_lack(call: Call, reader: Call, calls: Sequence[Call]) -> bool:
    """Tell whether a row may count no more when `reader` asks, or did not when it was stored."""
    return any(
        (_ends(job, call) or (job.kind == "prune telemetry" and _takes(job, call)))
        and job.began < (reader.ended or _NEVER)
        for job in calls
    )


def _hider(call: Call, reader: Call, calls: Sequence[Call]) -> Call | None:
    """Return the job after which nobody may be shown a row."""
    done = (job for job in calls if job.is_ok and job.ended_before(reader.began))
    return next((job for job in done if _surely_takes(job, call, calls)), None)


def _surely_takes(job: Call, call: Call, calls: Sequence[Call]) -> bool:
    if job.kind == "erase":  # whenever a row lands, it is of a session that was there before
        before = any(
            seen.life == call.life and known.ended_before(job.began)
            for known in calls
            for seen in known.seen
        )
        return before and _is_of(job, call)
    is_before = call.ended_before(job.began)
    if job.kind == "delete":
        return is_before and job.session == call.session
    return is_before and job.kind == "prune telemetry" and _takes(job, call)


def _ends(job: Call, call: Call) -> bool:
    """Tell whether a job may end the session of a row."""
    if job.kind == "delete":
        return job.session == call.session
    return job.kind in ("erase", "prune sessions") and _is_of(job, call)


def _is_of(job: Call, call: Call) -> bool:
    user = call.session[0] if call.session else None
    return job.job is not None and job.job.user in (None, user)


def _takes(job: Call, call: Call) -> bool:
    """Tell whether a prune is for a row of that age and user."""
    before = job.job.before if job.job else None
    return before is not None and _is_of(job, call) and call.wall[0] <= before
