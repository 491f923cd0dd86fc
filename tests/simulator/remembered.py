"""Whether memories are found as they should be. Imports nothing of the product.

What was remembered is found once by everyone who may find it and asks later, until it may have been
forgotten or erased; what was surely forgotten, or erased, is found by nobody who asks after that.
An add that had begun when a user was erased is erased, whenever it lands: it has taken its stamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.simulator.forgetting import LATE
from tests.simulator.record import Call

_NEVER = 1 << 60


def check_remembered(calls: Sequence[Call]) -> Iterator[str]:
    """Yield what is wrong with what was found."""
    adds = [call for call in calls if call.kind == "remember"]
    for reader in calls:
        if reader.kind == "recall" and reader.is_ok:
            visible = [add for add in adds if _sees(reader, add)]
            yield from _check_found(reader, visible, calls)
            yield from _check_missing(reader, visible, calls)


def _check_found(reader: Call, visible: Sequence[Call], calls: Sequence[Call]) -> Iterator[str]:
    for name in sorted(set(reader.remembered)):
        mine = [add for add in visible if name in add.remembered]
        count = reader.remembered.count(name)
        if count > 1 or not any(add.began < (reader.ended or 0) for add in mine):
            yield f"{reader.where}: finds {name} {count} times, or nobody added it"
        elif job := _taker(name, mine, reader, calls):
            yield f"{reader.where}: finds {name} after {job.where} {job.kind}"


def _check_missing(reader: Call, visible: Sequence[Call], calls: Sequence[Call]) -> Iterator[str]:
    for add in visible:
        if add.is_ok and add.ended_before(reader.began):
            for name in sorted(set(add.remembered).difference(reader.remembered)):
                if not any(_may_take(job, name, add, reader) for job in calls):
                    yield f"{reader.where}: does not find {name}"


def remembered_of(calls: Sequence[Call], user: str) -> set[str]:
    """Return the memories that were surely there, or on their way, when a user was erased."""
    jobs = [call for call in calls if call.kind == "erase" and call.is_ok and _user(call) == user]
    return {
        name
        for call in calls
        for job in jobs
        if call.kind == "remember" and _user(call) == user and call.began < job.began
        for name in call.remembered
    }


def _user(call: Call) -> str | None:
    return call.job.user if call.job else call.session[0] if call.session else None


def _scope(call: Call) -> str:
    return call.session[1] if call.session else ""


def _sees(reader: Call, add: Call) -> bool:
    return _scope(add) == "app" or _user(add) == _user(reader)


def _forgets(call: Call, name: str, add: Call) -> bool:
    same = _scope(call) == _scope(add) and (_scope(add) == "app" or _user(call) == _user(add))
    return call.kind == "forget" and name in call.remembered and same


def _may_take(job: Call, name: str, add: Call, reader: Call) -> bool:
    """Tell whether a memory may be gone when `reader` asks, or may not have come to be."""
    if job.began > (reader.ended or _NEVER):
        return False
    is_erase = job.kind == "erase" and _user(job) == _user(add)
    return _forgets(job, name, add) or (is_erase and add.began < (job.ended or _NEVER))


def _taker(name: str, adds: Sequence[Call], reader: Call, calls: Sequence[Call]) -> Call | None:
    """Return what was done after which nobody may find a memory."""
    for job in calls:
        if job.is_ok and job.ended_before(reader.began):
            known = [add for add in adds if add.is_ok and add.ended_before(job.began)]
            if any(_forgets(job, name, add) for add in known):
                return job
            late = reader.born > (job.ended or 0) or reader.times[0] > (job.times[1] or 0) + LATE
            his = all(_user(add) == _user(job) and add.began < job.began for add in adds)
            if job.kind == "erase" and late and his:
                return job
    return None
