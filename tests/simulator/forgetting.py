"""What jobs may take away, and must, by what they were asked for. Imports nothing of the product.

A session may end by a prune when it was idle, and by an erase. An event may be hidden by a prune
when it was old, with all of its turn that was there; a user's key may be gone when all that was set
in it is old, or was erased. What is gone stays away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tests.simulator.record import Call, Name, SharedKey

LATE = 330.0
"""Seconds after which everyone has noticed what a manifest says: the view age, and a reply."""

_NEVER = float("inf")


class Forgetting:
    """What all calls of a history allow to be forgotten."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._ahead = max((call.wall[0] - call.times[0] for call in calls), default=0.0)
        self._jobs = [call for call in calls if call.job is not None]
        self._senders: dict[str, list[Call]] = {}
        self._created: dict[str, Call] = {}
        self._alive: dict[str, int] = {}
        for call in calls:
            if call.kind == "create" and call.life:
                self._created[call.life] = call
            for event in call.sent:
                self._senders.setdefault(event, []).append(call)
            for seen in call.seen:
                if seen.life and call.ended is not None:
                    self._alive[seen.life] = min(call.ended, self._alive.get(seen.life, call.ended))

    def _of(self, kind: str, user: str) -> Iterator[Call]:
        for call in self._jobs:
            if call.kind == kind and call.job and call.job.user in (None, user):
                yield call

    def enders(self, user: str) -> list[Call]:
        """Return the jobs that may end sessions of a user."""
        return [*self._of("prune sessions", user), *self._of("erase", user)]

    def may_have_cut(self, user: str, call: Call) -> bool:
        """Tell whether the last event that a call knew may have been pruned meanwhile."""
        prunes = self._of("prune events", user)
        return any(job.began < (call.ended or _NEVER) for job in prunes)

    def was_idle(self, job: Call, truth: Sequence[str], unseen: Sequence[Call], life: str) -> bool:
        """Tell whether a session may have been idle when it was pruned.

        Args:
            job: The prune.
            truth: All events that anybody was shown of it.
            unseen: Appends of which nobody was shown anything.
            life: What its creation named itself.
        """
        before = job.job.before if job.job else None
        if before is None:
            return True
        last = self._senders.get(truth[-1], []) if truth else [self._created[life]]
        return not last or any(call.wall[0] <= before for call in (*last, *unseen))

    def hiding(self, name: Name, event: str, call: Call, shown: Collection[str]) -> str | None:
        """Return why a reader must be shown an event; None when it may have been pruned.

        Args:
            name: The session.
            event: Its id, "" when nobody knows it.
            call: Who is not shown it.
            shown: What is.
        """
        prunes = [
            job
            for job in self._of("prune events", name[0])
            if job.began < (call.ended or _NEVER) and self._is_old(event, job)
        ]
        if not prunes:
            return "and it is not old"
        turn = {sent.turn for sent in self._senders.get(event, ())}
        others = [it for it in shown if turn & {sent.turn for sent in self._senders.get(it, ())}]
        if all(any(self._was_there(it, job) for it in others) for job in prunes):
            return f"and of its turn {others} stay"
        return None

    def _is_old(self, event: str, job: Call) -> bool:
        before = job.job.before if job.job else None
        senders = self._senders.get(event)
        return before is not None and (
            not senders or min(call.wall[0] for call in senders) <= before
        )

    def _was_there(self, event: str, job: Call) -> bool:
        return any(call.is_ok and call.ended_before(job.began) for call in self._senders[event])

    def must_hide(self, name: Name, life: str, truth: Sequence[str], born: int) -> set[str]:
        """Return the events of a session that a process which began then may not be shown."""
        return {
            event
            for job in self._of("prune events", name[0])
            if job.is_ok and job.ended_before(born)
            for event in self._surely_cut(truth, life, job)
        }

    def _surely_cut(self, truth: Sequence[str], life: str, job: Call) -> Iterator[str]:
        """Yield what stood before a prune, in old turns that ended before all that was young."""
        created, before = self._created.get(life), job.job.before if job.job else None
        if before is None or created is None or (created.wall[1] or _NEVER) > before:
            return
        turns = [{call.turn for call in self._senders.get(event, ())} for event in truth]
        young = [turn for turn, event in zip(turns, truth, strict=True)
                 if not self._surely_old(event, job, before)]  # fmt: skip
        of_young = set().union(*young)
        border = next((n for n, turn in enumerate(turns) if turn & of_young), len(truth))
        stay = set().union(*turns[border:])
        yield from (event for n, event in enumerate(truth[:border]) if not turns[n] & stay)

    def _surely_old(self, event: str, job: Call, before: float) -> bool:
        senders = self._senders.get(event, ())
        return (
            bool(senders)
            and self._was_there(event, job)
            and all((call.wall[1] or _NEVER) <= before for call in senders)
        )

    def may_lack(self, key: SharedKey, due: Sequence[Sequence[Call]], reader: Call) -> bool:
        """Tell whether a key that these writes have set may be shown to be gone."""
        return bool(key[0]) and any(
            job.job is not None
            and job.job.before is not None
            and job.began < (reader.ended or _NEVER)
            and all(min(call.wall[0] for call in calls) <= job.job.before for calls in due)
            for job in self._of("prune state", key[0])
        )

    def must_lack(self, key: SharedKey, write: Sequence[Call], reader: Call) -> Call | None:
        """Return the prune after which nobody may be shown a write to a user's key."""
        for job in self._of("prune state", key[0]) if key[0] else ():
            if (
                job.is_ok
                and job.job is not None
                and (job.times[1] or _NEVER) + LATE < reader.times[0]
                and any(call.is_ok and call.ended_before(job.began) for call in write)
                and all(
                    # A stamp may be as late as the clocks of all that its writer has read.
                    (call.times[1] or _NEVER) + self._ahead <= (job.job.before or 0.0)
                    for call in write
                )
            ):
                return job
        return None

    def may_be_erased(self, key: SharedKey, write: Sequence[Call], reader: Call) -> bool:
        """Tell whether a write to a user's key may count for nobody when `reader` asks."""
        began = min(call.began for call in write)
        return bool(key[0]) and any(
            job.began < (reader.ended or _NEVER) and began < (job.ended or _NEVER)
            for job in self._of("erase", key[0])
        )

    def is_erased(self, key: SharedKey, write: Sequence[Call], reader: Call) -> Call | None:
        """Return the erase after which nobody may be shown a write to a user's key."""
        if not key[0]:
            return None
        lives = {call.life for call in write if call.life}
        for job in self._of("erase", key[0]):
            removed = next(
                (it for it in self._removals(job) if it.ended_before(reader.began)), None
            )
            if removed and lives and all(self._alive.get(it, _NEVER) < job.began for it in lives):
                return job
        return None

    def erased_lives(self, user: str) -> set[str]:
        """Return the lives of sessions of a user that were there before an erase that is done."""
        erases = [erase for erase in self._of("erase", user) if any(self._removals(erase))]
        return {
            life
            for life, call in self._created.items()
            if call.session
            and call.session[0] == user
            and any(self._alive.get(life, _NEVER) < erase.began for erase in erases)
        }

    def _removals(self, erase: Call) -> Iterator[Call]:
        """Yield the calls that returned when what an erase took was gone for everyone."""
        for call in self._jobs:
            mine = call is erase or (
                call.kind == "finish"
                and call.job
                and erase.job
                and call.job.user == erase.job.user
                and erase.ended_before(call.began)
            )
            if mine and call.is_ok and call.job and call.job.status in ("pending", "done"):
                yield call
