"""Decides whether shared state is as it should be. Imports nothing of the product.

For each key there must be one order of its writes such that every reader was shown the last one
that was there. From what is known of that order (what an acknowledged write, an earlier reader or a
writer's own knowledge puts first) follows a graph, which must not have a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulator.forgetting import LATE, Forgetting
from tests.simulator.record import Call, SharedKey

_NEVER = 1 << 60


@dataclass
class _Write:
    """A value of a key: whoever sends it, however often."""

    value: str
    calls: list[Call] = field(default_factory=list)

    @property
    def began(self) -> int:
        return min(call.began for call in self.calls)

    @property
    def acknowledged(self) -> int:
        return min((c.ended for c in self.calls if c.is_ok and c.ended), default=_NEVER)


def check_shared(calls: Sequence[Call], forgetting: Forgetting) -> Iterator[str]:
    """Yield what is wrong with shared state."""
    writes: dict[SharedKey, dict[str, _Write]] = {}
    for call in calls:
        for key, value in call.writes.items():
            writes.setdefault(key, {}).setdefault(value, _Write(value)).calls.append(call)
    shown = _shown_events(calls)
    readers = [call for call in calls if call.shared is not None and call.is_ok]
    for key, known in sorted(writes.items()):
        mine = [call for call in readers if key[0] in call.scopes]
        yield from _Key(key, known, mine, shown, forgetting).check()
    for call in readers:
        for key, value in (call.shared or {}).items():
            write = writes.get(key, {}).get(value)
            if write is None or write.began > (call.ended or 0):
                yield f"{call.where} {call.kind}: {key[1]} is {value}, which nobody wrote"


_Known = dict[str, list[tuple[Call, str]]]
"""For each process the events that it was shown, and by which call."""


def _shown_events(calls: Sequence[Call]) -> _Known:
    shown: _Known = {}
    for call in calls:
        for seen in call.seen:
            for event in (*(seen.events or ()), *(seen.tail or ())):
                shown.setdefault(call.process, []).append((call, event))
    return shown


class _Key:
    """All that was written to one key, and who was shown it."""

    def __init__(
        self,
        key: SharedKey,
        writes: dict[str, _Write],
        readers: Sequence[Call],
        known: _Known,
        forgetting: Forgetting,
    ) -> None:
        self._key = key
        self._forgetting = forgetting
        self._known = known
        self._shown_events = {event for events in known.values() for _, event in events}
        self._writes = writes
        self._readers = sorted(readers, key=lambda call: call.began)
        self._before: dict[tuple[str, str], str] = {}
        """Pairs of values of which the first was written first, and why."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with it."""
        yield from self._lost()
        yield from self._back()
        self._order_by_knowledge()
        self._order_by_readers()
        cycle = _cycle(self._before)
        if cycle:
            reasons = "; ".join(self._before[pair] for pair in cycle)
            yield f"{'/'.join(self._key)}: no order of its writes explains this: {reasons}"
        last = {self._shown(call) for call in self._readers if call.final}
        if len(last) > 1:
            yield f"{'/'.join(self._key)} is not the same everywhere: {sorted(map(str, last))}"

    def _shown(self, call: Call) -> str | None:
        return (call.shared or {}).get(self._key)

    def _lost(self) -> Iterator[str]:
        """A key that was written, or shown, is shown to everyone who asks afterwards."""
        for call in self._readers:
            due = [*self._due(call)] if self._shown(call) is None else []
            if due and not self._may_lack(call, due):
                values = [write.value for write in due]
                yield f"{call.where} {call.kind}: {'/'.join(self._key)} lacks {values}"

    def _may_lack(self, call: Call, due: Sequence[_Write]) -> bool:
        return self._forgetting.may_lack(self._key, [write.calls for write in due], call)

    def _back(self) -> Iterator[str]:
        """What was pruned or erased does not come back, once everyone had time to notice."""
        for call in self._readers:
            write = self._writes.get(self._shown(call) or "")
            if write is None:
                continue
            erase = self._forgetting.is_erased(self._key, write.calls, call)
            job = erase or self._forgetting.must_lack(self._key, write.calls, call)
            if job:
                yield (
                    f"{call.where} {call.kind}: {'/'.join(self._key)} shows {write.value}, which"
                    f" {job.where} {job.kind} has taken"
                )
            for other in self._readers:
                noticed = (other.times[1] or 0.0) + LATE < call.times[0]
                if noticed and self._shown(other) is None and write in [*self._due(other)]:
                    yield (
                        f"{call.where} {call.kind}: {'/'.join(self._key)} shows {write.value}"
                        f" again, which {other.where} did not find any more"
                    )

    def _due(self, call: Call) -> Iterator[_Write]:
        """Yield the writes that a reader must be shown, or a later one."""
        events = {event for seen in call.seen if seen.complete for event in seen.events or ()}
        if call.final:  # someone has read everything before, and mended what was left undone
            events |= self._shown_events
        for write in self._writes.values():
            is_due = write.acknowledged < call.began or write.value in events
            if is_due and not self._forgetting.may_be_erased(self._key, write.calls, call):
                yield write

    def _order_by_readers(self) -> None:
        for call in self._readers:
            shown = self._shown(call)
            if shown is None or shown not in self._writes:
                continue
            for write in self._due(call):
                self._put(write.value, shown, f"{call.where} {call.kind} shows {shown}, and was"
                          f" due to show {write.value} or a later one")  # fmt: skip
            for other in self._readers:
                before = self._shown(other)
                if other.by_reader or self._erased(before, call):
                    # What its writer has left undone, it is shown and cannot complete: others
                    # may not see it before someone does.
                    continue
                if before is not None and other.ended_before(call.began):
                    self._put(before, shown, f"{other.where} showed {before}, and then"
                              f" {call.where} {shown}")  # fmt: skip

    def _erased(self, value: str | None, call: Call) -> bool:
        """Tell whether a value that was shown may count for nobody any more."""
        write = self._writes.get(value or "")
        return write is not None and self._forgetting.may_be_erased(self._key, write.calls, call)

    def _order_by_knowledge(self) -> None:
        """A process writes after what it knows of."""
        for write in self._writes.values():
            first = min(write.calls, key=lambda call: call.began)
            for other in self._readers:
                shown = self._shown(other)
                if shown and other.process == first.process and other.ended_before(first.began):
                    self._put(shown, write.value, f"{first.where} wrote {write.value} knowing"
                              f" {shown}")  # fmt: skip
            for call, event in self._known.get(first.process, ()):
                if event in self._writes and call.ended_before(first.began):
                    self._put(event, write.value, f"{first.where} wrote {write.value} having been"
                              f" shown {event} by {call.where} {call.kind}")  # fmt: skip
            for other_write in self._writes.values():
                if any(
                    call.process == first.process and call.is_ok and call.ended_before(first.began)
                    for call in other_write.calls
                ):
                    self._put(other_write.value, write.value, f"{first.where} wrote {write.value}"
                              f" after {other_write.value}")  # fmt: skip

    def _put(self, first: str, then: str, why: str) -> None:
        if first != then:
            self._before.setdefault((first, then), why)


def _cycle(before: dict[tuple[str, str], str]) -> list[tuple[str, str]]:
    """Return a cycle of a graph, [] when there is none."""
    followers: dict[str, list[str]] = {}
    for first, then in before:
        followers.setdefault(first, []).append(then)
    done: set[str] = set()
    for start in sorted(followers):
        path: list[str] = []
        found = _walk(start, followers, done, path)
        if found:
            return [*zip(found, [*found[1:], found[0]], strict=True)]
    return []


def _walk(at: str, followers: dict[str, list[str]], done: set[str], path: list[str]) -> list[str]:
    if at in path:
        return path[path.index(at) :]
    if at in done:
        return []
    path.append(at)
    for then in followers.get(at, ()):
        found = _walk(then, followers, done, path)
        if found:
            return found
    path.pop()
    done.add(at)
    return []
