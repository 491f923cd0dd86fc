"""Decides whether a history is as it should be, from calls and answers alone.

Imports nothing of the product. The rules, per life of a session (from its creation to its end):
what readers are shown are beginnings of one sequence, which never gets shorter; it holds what was
acknowledged, once, in whole commits, nothing that nobody sent. Per key of shared state: there is
one order of all writes that explains every reader, and in which what was read comes before what was
written afterwards. What jobs may take away of it is `tests.simulator.forgetting`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.simulator.filed import check_files, files_of
from tests.simulator.forgetting import Forgetting
from tests.simulator.measured import check_measured
from tests.simulator.record import Call, Name, Seen, agree
from tests.simulator.remembered import check_remembered, remembered_of
from tests.simulator.shared_state import check_shared

_WRITES = ("append", "create", "delete", "save file", "delete file")


def check(calls: Sequence[Call], names: Sequence[Name]) -> list[str]:
    """Return what is wrong, a sentence each, the plainest first."""
    forgetting = Forgetting(calls)
    found = [*_errors(calls), *check_shared(calls, forgetting)]
    found += [*check_measured(calls), *check_remembered(calls), *check_files(calls)]
    found += _check_bytes(calls)
    for name in names:
        found += _Session(name, calls, forgetting).check()
    return found


def erased_of(calls: Sequence[Call], user: str) -> set[str]:
    """Return what was erased of a user for certain: lives, the ids of their events, memories."""
    lives = Forgetting(calls).erased_lives(user)
    events = {event for call in calls if call.life in lives for event in call.sent}
    return lives | events | remembered_of(calls, user) | files_of(calls, user)


def _errors(calls: Sequence[Call]) -> Iterator[str]:
    """Nobody meets an error that nothing has caused."""
    for call in calls:
        known = ("ok", "crashed", "stale", "missing", "exists", "unknown", "failed")
        if call.outcome not in known and not (call.outcome == "conflict" and call.job):
            yield f"{call.where} {call.kind}: raises {call.outcome}"
        if call.job and call.job.found:
            yield f"{call.where} {call.kind}: finds {call.job.found}"
        if call.outcome in ("unknown", "failed"):
            writes = call.kind in _WRITES or call.job is not None
            stalled = call.stalls or _was_late(call, calls)
            if not call.faults and not (writes and stalled and call.outcome == "unknown"):
                yield f"{call.where} {call.kind}: {call.outcome}, and nothing had happened"


def _was_late(call: Call, calls: Sequence[Call]) -> bool:
    """Tell whether events were sent before, by someone who stalled, with bytes beside them.

    Of these nobody can tell whether a sweep that has not seen the commit takes them.
    """
    return call.beside and any(
        other.stalls and other.began < call.began and set(other.sent) & set(call.sent)
        for other in calls
    )


def _check_bytes(calls: Sequence[Call]) -> Iterator[str]:
    """An event that was acknowledged has all its bytes, for everyone who asks afterwards."""
    for call in calls:
        for append in calls if call.hollow else ():
            if append.kind == "append" and append.is_ok and append.ended_before(call.began):
                lost = [event for event in append.sent if event in call.hollow]
                if lost:
                    yield f"{call.where} {call.kind}: shows {lost} without bytes; acknowledged"


@dataclass(frozen=True, slots=True)
class _View:
    """What one call was shown of the session."""

    call: Call
    seen: Seen
    length: int
    """How many events it was shown."""

    @property
    def ended(self) -> int:
        return self.call.ended or 0


class _Session:
    """Everything that was asked of one session."""

    def __init__(self, name: Name, calls: Sequence[Call], forgetting: Forgetting) -> None:
        self._name = name
        self._forgetting = forgetting
        self._calls = [call for call in calls if call.session == name]
        self._appends = [call for call in self._calls if call.kind == "append"]
        self._life_of = {event: call.life for call in self._appends for event in call.sent}
        self._seen = [(call, seen) for call in calls for seen in call.seen if seen.session == name]
        self._text = "/".join(name)
        self._batches = [call for call in self._appends if self._is_batch(call)]
        """Commits of several events, none of which was sent in any other way too."""

    def _is_batch(self, call: Call) -> bool:
        return len(call.sent) > 1 and not any(
            other.sent != call.sent and set(other.sent) & set(call.sent) for other in self._appends
        )

    def check(self) -> Iterator[str]:
        """Yield what is wrong with it."""
        lives = {seen.life or self._life(seen) for _, seen in self._seen}
        for life in sorted(life for life in lives if life):
            yield from self._check_life(life)
        yield from self._check_deaths()
        yield from self._check_refusals()

    def _life(self, seen: Seen) -> str | None:
        """Return whose events those are, for a reader that does not tell."""
        return next((self._life_of.get(event) for event in seen.events or () if event), None)

    def _check_life(self, life: str) -> Iterator[str]:
        mine = [
            (call, seen)
            for call, seen in self._seen
            if seen.life == life or (seen.life == "" and self._life(seen) == life)
        ]
        truth = _merged([seen.events for _, seen in mine if seen.events is not None])
        truth = self._with_glimpsed(life, truth, {seen.last for _, seen in mine})
        yield from self._check_truth(life, truth)
        views = []
        for call, seen in mine:
            length = self._length(seen, truth)
            wrong = self._compare(seen, truth, length)
            if wrong:
                yield f"{call.where} {call.kind}: {self._text} {wrong}"
            elif length is not None:
                views.append(_View(call, seen, length))
        yield from self._check_growth(views)
        yield from self._check_pruned(life, truth, views)
        yield from self._check_acknowledged(life, truth)

    def _with_glimpsed(
        self, life: str, truth: tuple[str, ...], shown: set[str | None]
    ) -> tuple[str, ...]:
        """Add commits of which readers were shown the state alone, by lists, before all ended."""
        for call in self._appends:
            whole = call.known + call.sent
            glimpsed = call.life == life and shown.intersection(call.sent).difference(truth)
            if glimpsed and whole[: len(truth)] == truth:
                truth = whole
        return truth

    def _check_truth(self, life: str, truth: tuple[str, ...]) -> Iterator[str]:
        known = [event for event in truth if event]
        if len(set(known)) < len(known):
            yield f"{self._text} holds an event twice: {truth}"
        for event in known:
            if event not in self._life_of:
                yield f"{self._text} holds an event that nobody sent: {event}"
            elif self._life_of[event] != life:
                yield f"{self._text} of {life} holds an event of another life: {event}"
        for call in self._batches:
            if not set(call.sent).isdisjoint(truth):
                at = truth.index(next(event for event in call.sent if event in truth))
                if not agree(truth[at : at + len(call.sent)], call.sent):
                    yield f"{call.where}: a commit is not there as a whole: {call.sent} in {truth}"

    def _compare(self, seen: Seen, truth: tuple[str, ...], length: int | None) -> str | None:
        """Return how what was shown differs from a beginning of the truth."""
        if seen.events is not None and not agree(seen.events, truth[: len(seen.events)]):
            return f"shows {seen.events}, and another reader is shown {truth}"
        if seen.last is not None and seen.last not in truth and "" not in truth:
            return f"has the state of an event that is not there: {seen.last}"
        if length is None:
            return None
        if seen.tail is not None and not _is_end(seen.tail, truth[:length]):
            return f"shows {seen.tail} as the last events of {truth[:length]}"
        if seen.complete and not _is_last(seen.last, truth[:length]):
            return f"shows the state of {seen.last} with the events {truth[:length]}"
        if not all(map(_is_whole_in(truth[:length]), self._batches)):
            return f"shows a part of a commit: {truth[:length]}"
        return None

    @staticmethod
    def _length(seen: Seen, truth: tuple[str, ...]) -> int | None:
        """Return how many events there were for a reader; None when nobody can tell."""
        if seen.events is not None:
            return len(seen.events)
        last = (seen.tail[-1] if seen.tail else None) or seen.last
        if last is None:
            return 0
        return truth.index(last) + 1 if last in truth else None

    def _check_growth(self, views: list[_View]) -> Iterator[str]:
        """What was shown, or acknowledged, is shown to everyone who asks afterwards."""
        longest: _View | None = None
        earlier = iter(sorted(views, key=lambda view: view.ended))
        waiting = next(earlier, None)
        for view in sorted(views, key=lambda view: view.call.began):
            while waiting is not None and waiting.ended < view.call.began:
                if longest is None or waiting.length > longest.length:
                    longest = waiting
                waiting = next(earlier, None)
            if longest is not None and view.length < longest.length:
                yield (
                    f"{view.call.where} {view.call.kind}: {self._text} shows {view.length} events"
                    f" after {longest.call.where} {longest.call.kind} had {longest.length}"
                )

    def _check_pruned(
        self, life: str, truth: tuple[str, ...], views: Sequence[_View]
    ) -> Iterator[str]:
        """Only what a prune may take is hidden, and then from all who come later, for good."""
        for view in views:
            call, events = view.call, view.seen.events
            shown = set(events or view.seen.tail or ())
            first = 0 if events is not None else view.length - len(view.seen.tail or ())
            hidden = [
                event
                for event, there in zip(
                    truth[first : view.length], events or view.seen.tail or (), strict=True
                )
                if not there
            ]
            for event in hidden:
                why = self._forgetting.hiding(self._name, event, call, shown - {""})
                if why:
                    yield f"{call.where} {call.kind}: {self._text} hides {event}, {why}"
            back = shown & self._gone_by(life, truth, views, call.born)
            if back:
                yield f"{call.where} {call.kind}: {self._text} shows what was pruned: {back}"

    def _gone_by(
        self, life: str, truth: tuple[str, ...], views: Sequence[_View], born: int
    ) -> set[str]:
        """Return what was pruned for everyone who has read nothing before."""
        gone = self._forgetting.must_hide(self._name, life, truth, born)
        for view in views:
            events = view.seen.events or ()
            if "" in events and view.call.ended_before(born):
                gone |= {event for event, there in zip(truth, events, strict=False) if not there}
        return gone - {""}

    def _check_acknowledged(self, life: str, truth: tuple[str, ...]) -> Iterator[str]:
        for call in self._appends:
            if call.is_ok and call.life == life:
                lost = [event for event in call.sent if event not in truth]
                if lost:
                    yield f"{call.where}: acknowledged, and not there: {lost}"
                shown = call.seen[0].events if call.seen else None
                if shown is not None and not set(call.sent) <= set(shown):
                    yield f"{call.where}: acknowledged, and its own session lacks it"

    def _check_deaths(self) -> Iterator[str]:
        """A session ends only by a delete, and then for good."""
        creates = {c.life: c for c in self._calls if c.kind == "create" and c.life}
        enders = self._forgetting.enders(self._name[0])
        deletes = [*(call for call in self._calls if call.kind == "delete"), *enders]
        for life, create in creates.items():
            alive = [call for call, seen in self._seen if self._is_of(seen, life)]
            known = [call.ended for call in alive if call.ended is not None]
            if not known:
                continue
            begun = min(known)
            ends = [call for call in deletes if call.ended is None or not call.is_ok
                    or call.ended > create.began]  # fmt: skip
            gone = [call for call, seen in self._seen if self._is_gone(seen, life)]
            for call in gone:
                causes = [end for end in ends if end.began < (call.ended or 0)]
                if call.began > begun and not causes:
                    yield f"{call.where} {call.kind}: {self._text} of {life} is gone, undeleted"
                elif call.began > begun and not any(self._may_end(end, life) for end in causes):
                    yield f"{call.where} {call.kind}: {self._text} of {life} is gone, not idle"
            over = [call for call in gone if call.began > begun]
            over += [
                call
                for call in deletes
                if call.is_ok and call.began > begun and call.kind != "prune sessions"
            ]
            yield from self._check_for_good(life, alive, over)

    def _check_for_good(
        self, life: str, alive: Sequence[Call], over: Sequence[Call]
    ) -> Iterator[str]:
        dead = min((call.ended for call in over if call.ended is not None), default=None)
        if dead is None:
            return
        for call in alive:
            again = call.kind == "append" and any(
                other.began < dead and set(call.sent) & set(other.sent) for other in self._appends
            )
            if call.began > dead and not again:
                yield f"{call.where} {call.kind}: {self._text} of {life} is there after its end"

    def _may_end(self, end: Call, life: str) -> bool:
        """Tell whether a delete, erase or prune had reason to end a life."""
        if end.kind != "prune sessions":
            return True
        mine = [seen.events for _, seen in self._seen if seen.events and self._is_of(seen, life)]
        truth = _merged(mine)
        unseen = [
            call
            for call in self._appends
            if call.life == life and not call.is_ok and not set(call.sent) & set(truth)
        ]
        return self._forgetting.was_idle(end, truth, unseen, life)

    def _is_of(self, seen: Seen, life: str | None) -> bool:
        return seen.life == life or (seen.life == "" and self._life(seen) == life)

    def _is_gone(self, seen: Seen, life: str | None) -> bool:
        return seen.life is None or (seen.life != "" and seen.life != life)

    def _check_refusals(self) -> Iterator[str]:
        """Nobody is refused without a reason."""
        for call in self._calls:
            ended = call.ended or 0
            others = [other for other in self._calls if other is not call and other.began < ended]
            ends = [other for other in others if other.kind in ("delete", "create")]
            jobs = self._forgetting.enders(self._name[0])
            killed = any(job.began < ended for job in jobs)
            killed = killed or any(end.kind == "delete" for end in ends)
            if call.outcome == "missing" and not killed:
                yield f"{call.where} {call.kind}: {self._text} is missing, and nobody deleted it"
            if call.outcome == "exists" and not any(end.kind == "create" for end in ends):
                yield f"{call.where} {call.kind}: {self._text} exists, and nobody created it"
            # Without a marker nobody tells one's own late commit from another writer's.
            is_cut = call.by_hand and (
                self._forgetting.may_have_cut(self._name[0], call) or _was_late(call, others)
            )
            overtaken = killed or is_cut or self._has_overtaken(call, others)
            if call.outcome == "stale" and not overtaken:
                yield f"{call.where} {call.kind}: {self._text} is stale, and nobody was faster"

    @staticmethod
    def _has_overtaken(call: Call, others: Sequence[Call]) -> bool:
        for other in others:
            unknown = set(other.sent) - set(call.known) - set(call.sent)
            # What one object has appended itself, it knows: its tasks are put in order.
            if unknown and not (other.is_ok and other.handle == call.handle):
                return True
        return False


def _merged(shown: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all that readers were shown as one: of each place what any of them knows."""
    truth: list[str] = []
    for events in sorted(shown, key=len, reverse=True):
        truth += [""] * (len(events) - len(truth))
        for place, event in enumerate(events):
            truth[place] = truth[place] or event
    return tuple(truth)


def _is_end(tail: Sequence[str], events: Sequence[str]) -> bool:
    """Tell whether `tail` is the last two of `events`, of which some may have been pruned."""
    if len(tail) < min(2, len(events)) or (len(tail) > 2 and "" not in tail):
        return False
    return agree(tail, events[len(events) - len(tail) :])


def _is_last(event: str | None, events: Sequence[str]) -> bool:
    return event is None if not events else events[-1] in (event, "")


def _is_whole_in(events: Sequence[str]) -> Callable[[Call], bool]:
    """Return what tells whether all events of a commit are there, or none is."""

    def is_whole(call: Call) -> bool:
        there = [event in events for event in call.sent]
        return all(there) or not any(there) or "" in events

    return is_whole
