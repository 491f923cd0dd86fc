"""Decides whether a history is as it should be, from calls and answers alone.

Imports nothing of the product. The rules, per life of a session (from its creation to its end):
what readers are shown are beginnings of one sequence, which never gets shorter; it holds what was
acknowledged, once, in whole commits, nothing that nobody sent. Per key of shared state: there is
one order of all writes that explains every reader, and in which what was read comes before what was
written afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.simulator.record import Call, Name, Seen, SharedKey
from tests.simulator.shared_state import check_shared


def check(calls: Sequence[Call], names: Sequence[Name]) -> list[str]:
    """Return what is wrong, a sentence each, the plainest first."""
    found = [*_errors(calls), *check_shared(calls)]
    for name in names:
        found += _Session(name, calls).check()
    return found


def check_stored(
    calls: Sequence[Call],
    stored: Mapping[Name, Sequence[str]],
    shared: Mapping[SharedKey, str],
) -> Iterator[str]:
    """Yield where what is stored differs from what readers were shown in the end."""
    for call in calls:
        if call.final and call.is_ok:
            for seen in call.seen:
                there = stored.get(seen.session)
                if seen.life is None and there is not None:
                    yield f"{call.where} {call.kind}: shows no session, but stored is {there}"
                elif seen.events is not None and tuple(there or ()) != seen.events:
                    yield f"{call.where} {call.kind}: shows {seen.events}, but stored is {there}"
            for key, value in (call.shared or {}).items():
                if shared.get(key) != value:
                    yield f"{call.where}: shows {key} {value}, but stored is {shared.get(key)}"


def _errors(calls: Sequence[Call]) -> Iterator[str]:
    """Nobody meets an error that nothing has caused."""
    for call in calls:
        known = ("ok", "crashed", "stale", "missing", "exists", "unknown", "failed")
        if call.outcome not in known:
            yield f"{call.where} {call.kind}: raises {call.outcome}"
        if call.outcome in ("unknown", "failed"):
            writes = call.kind in ("append", "create", "delete")
            if not call.faults and not (writes and call.stalls and call.outcome == "unknown"):
                yield f"{call.where} {call.kind}: {call.outcome}, and nothing had happened"


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

    def __init__(self, name: Name, calls: Sequence[Call]) -> None:
        self._name = name
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
        return next((self._life_of.get(event) for event in seen.events or ()), None)

    def _check_life(self, life: str) -> Iterator[str]:
        mine = [
            (call, seen)
            for call, seen in self._seen
            if seen.life == life or (seen.life == "" and self._life(seen) == life)
        ]
        truth: tuple[str, ...] = max(
            (seen.events for _, seen in mine if seen.events is not None), key=len, default=()
        )
        truth = self._with_glimpsed(life, truth, {seen.last for _, seen in mine})
        yield from self._check_truth(life, truth)
        views = []
        for call, seen in mine:
            wrong = self._compare(seen, truth)
            if wrong:
                yield f"{call.where} {call.kind}: {self._text} {wrong}"
            else:
                views.append(_View(call, seen, self._length(seen, truth)))
        yield from self._check_growth(views)
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
        if len(set(truth)) < len(truth):
            yield f"{self._text} holds an event twice: {truth}"
        for event in truth:
            if event not in self._life_of:
                yield f"{self._text} holds an event that nobody sent: {event}"
            elif self._life_of[event] != life:
                yield f"{self._text} of {life} holds an event of another life: {event}"
        for call in self._batches:
            if not set(call.sent).isdisjoint(truth):
                at = truth.index(next(event for event in call.sent if event in truth))
                if truth[at : at + len(call.sent)] != call.sent:
                    yield f"{call.where}: a commit is not there as a whole: {call.sent} in {truth}"

    def _compare(self, seen: Seen, truth: tuple[str, ...]) -> str | None:
        """Return how what was shown differs from a beginning of the truth."""
        if seen.events is not None and seen.events != truth[: len(seen.events)]:
            return f"shows {seen.events}, and another reader is shown {truth}"
        if seen.last is not None and seen.last not in truth:
            return f"has the state of an event that is not there: {seen.last}"
        length = self._length(seen, truth)
        if seen.tail is not None and seen.tail != truth[max(0, length - 2) : length]:
            return f"shows {seen.tail} as the last events of {truth[:length]}"
        if seen.complete and seen.last != (truth[length - 1] if length else None):
            return f"shows the state of {seen.last} with the events {truth[:length]}"
        for call in self._batches:
            there = [event in truth[:length] for event in call.sent]
            if any(there) and not all(there):
                return f"shows a part of a commit: {truth[:length]} of {call.sent}"
        return None

    @staticmethod
    def _length(seen: Seen, truth: tuple[str, ...]) -> int:
        if seen.events is not None:
            return len(seen.events)
        last = seen.tail[-1] if seen.tail else seen.last
        return truth.index(last) + 1 if last in truth else 0

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
        deletes = [call for call in self._calls if call.kind == "delete"]
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
                if call.began > begun and not any(end.began < (call.ended or 0) for end in ends):
                    yield f"{call.where} {call.kind}: {self._text} of {life} is gone, undeleted"
            over = [call for call in gone if call.began > begun]
            over += [call for call in deletes if call.is_ok and call.began > begun]
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
            if call.outcome == "missing" and not any(end.kind == "delete" for end in ends):
                yield f"{call.where} {call.kind}: {self._text} is missing, and nobody deleted it"
            if call.outcome == "exists" and not any(end.kind == "create" for end in ends):
                yield f"{call.where} {call.kind}: {self._text} exists, and nobody created it"
            if call.outcome == "stale" and not self._has_overtaken(call, others):
                yield f"{call.where} {call.kind}: {self._text} is stale, and nobody was faster"

    @staticmethod
    def _has_overtaken(call: Call, others: Sequence[Call]) -> bool:
        for other in others:
            if other.kind == "delete":
                return True
            unknown = set(other.sent) - set(call.known) - set(call.sent)
            # What one object has appended itself, it knows: its tasks are put in order.
            if unknown and not (other.is_ok and other.handle == call.handle):
                return True
        return False
