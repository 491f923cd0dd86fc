"""Whether artifacts are loaded as they should be. Imports nothing of the product.

What was saved is there, whole, under its number, until it may have been deleted, pruned or erased;
numbers follow each other from 0, in the order of saves; what was surely deleted is loaded by nobody
who asks after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from tests.simulator.forgetting import LATE
from tests.simulator.record import Call, Name

_NEVER = 1 << 60


def check_files(calls: Sequence[Call]) -> Iterator[str]:
    """Yield what is wrong with what was saved and loaded."""
    names = {call.session for call in calls if call.kind == "save file" and call.session}
    for name in sorted(names):
        yield from _Artifact(name, calls).check()


def files_of(calls: Sequence[Call], user: str) -> set[str]:
    """Return the contents that were saved before a user was erased, if at all, and never after."""
    jobs = [call for call in calls if call.kind == "erase" and call.is_ok and _user(call) == user]
    saves = [call for call in calls if call.kind == "save file" and _user(call) == user]
    first = min((job.began for job in jobs), default=0)
    before = [it for it in saves if it.ended_before(first) or it.outcome == "failed"]
    return {it.content for it in before} - {it.content for it in saves if it not in before}


def _user(call: Call) -> str | None:
    return call.job.user if call.job else call.session[0] if call.session else None


class _Artifact:
    """Everything that was asked of one artifact."""

    def __init__(self, name: Name, calls: Sequence[Call]) -> None:
        self._name = name
        mine = [call for call in calls if call.session == name]
        self._saves = [call for call in mine if call.kind == "save file"]
        self._readers = [call for call in mine if call.kind == "load file" and call.is_ok]
        self._deletes = [call for call in mine if call.kind == "delete file"]
        self._deletes += [c for c in calls if c.kind == "erase" and _user(c) == name[0]]
        self._prunes = [
            call for call in calls if call.kind == "prune files" and _user(call) in (None, name[0])
        ]

    def check(self) -> Iterator[str]:
        """Yield what is wrong with it."""
        for reader in self._readers:
            told = f"{reader.where}: {'/'.join(self._name)}"
            for wrong in (*self._numbered(reader), *self._shown(reader), *self._missing(reader)):
                yield f"{told} {wrong}"
        acknowledged = [save for save in self._saves if save.is_ok]
        for one, other in combinations(acknowledged, 2):
            if one.files[0][0] == other.files[0][0] and not self._may_end_between(one, other):
                yield f"{one.where} and {other.where} have both saved version {one.files[0][0]}"

    def _numbered(self, reader: Call) -> Iterator[str]:
        numbers = list(reader.numbers)
        first = numbers[0] if numbers else 0
        if numbers != list(range(first, first + len(numbers))):
            yield f"has versions that do not follow each other: {numbers}"
        if first and not any(it.began < (reader.ended or _NEVER) for it in self._prunes):
            yield f"begins at version {first}, and nobody pruned it"

    def _shown(self, reader: Call) -> Iterator[str]:
        for number, content in reader.files:
            mine = [it for it in self._saves if it.content == content]
            mine = [it for it in mine if it.began < (reader.ended or _NEVER)]
            if not mine:
                yield f"shows {content}, which nobody saved"
            elif all(it.is_ok for it in mine) and number not in {it.files[0][0] for it in mine}:
                yield f"shows {content} as version {number}"
            elif taker := self._taker(mine, reader):
                yield f"shows {content} after {taker.where} {taker.kind}"

    def _missing(self, reader: Call) -> Iterator[str]:
        for save in self._saves:
            if save.is_ok and save.ended_before(reader.began):
                shown = save.files[0] in reader.files
                if not shown and not any(
                    self._may_take(job, save, reader) for job in (*self._deletes, *self._prunes)
                ):
                    yield f"lacks version {save.files[0][0]}, {save.content}"

    def _taker(self, saves: Sequence[Call], reader: Call) -> Call | None:
        """Return what was done after which nobody may be shown what `saves` have saved."""
        for job in self._deletes:
            late = reader.born > (job.ended or 0) or reader.times[0] > (job.times[1] or 0) + LATE
            known = all(save.is_ok and save.ended_before(job.began) for save in saves)
            over = job.is_ok and job.ended_before(reader.began)
            if over and known and (job.kind != "erase" or late):
                return job
        return None

    def _may_take(self, job: Call, save: Call, reader: Call) -> bool:
        """Tell whether a version may be gone when `reader` asks."""
        if job.began > (reader.ended or _NEVER):
            return False
        if job.is_ok and job.ended_before(save.began):
            return False
        if job.kind != "prune files":
            return True
        is_old = job.job is not None and save.wall[0] <= (job.job.before or 0)
        later = (it for it in self._saves if it is not save and not it.ended_before(save.began))
        return is_old and any(it.began < (job.ended or _NEVER) for it in later)

    def _may_end_between(self, one: Call, other: Call) -> bool:
        """Tell whether all versions may have ended after one save and before the other."""
        first = min(one.began, other.began)
        last = max(one.ended or _NEVER, other.ended or _NEVER)
        return any(
            job.began < last and not (job.is_ok and job.ended_before(first))
            for job in self._deletes
        )
