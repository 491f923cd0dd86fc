"""What may be cut out of a session's history, and what stands in its place. Pure; no I/O.

Whole invocations go, and what is cut leaves a placeholder: an event without content that sets what
was set. ADK's rewind replays the deltas of all events before the one it goes back to
(`google.adk.sessions._rewind_utils`) and hides what lies between a rewind and the first event of
its target (`google.adk.events._rewind_events`), so neither may lose its footing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any

from lakestore.history.view import session_part
from lakestore.tables.events import EventRow, event_of, event_time
from lakestore.tables.state import USER_PREFIX, to_json
from lakestore.tables.thin import field as field_of

AUTHOR = "lakestore"
"""The author of a placeholder."""
PRUNED = "lakestore_pruned"
"""Key in the `custom_metadata` of a placeholder: how many events it stands for, up to where."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a session's history becomes."""

    rows: list[EventRow]
    """What stays, placeholders among it, in commit order."""
    events: int
    """How many events go, placeholders not counted."""
    nbytes: int
    """Bytes of their JSON."""


@dataclass(slots=True)
class _Seen:
    """What decides about one event."""

    row: EventRow
    group: int
    """Its invocation, by the place of its first event."""
    calls: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    """Those of its calls that only the user answers."""
    answers: set[str] = field(default_factory=set)
    by_user: bool = False
    rewinds_to: int | None = None
    """The place of the first event that it undoes."""
    stands_for: int = 0
    """How many events it is a placeholder of, 0 for an event as it was."""


def cut(rows: Sequence[EventRow], before: int, version: int) -> Cut | None:
    """Return what a session's history becomes without its old invocations, None for no change.

    An invocation goes when all of its events were committed at or before `before`, in microseconds
    since 1970 UTC, and none that is younger began before its end. It stays when it holds a call
    that nobody answered, the other half of a call that stays, or what a rewind that still hides
    something refers to.

    Args:
        rows: All rows of the session's present life, in commit order.
        before: See above.
        version: What was committed later stays.
    """
    events = [row for row in rows if row.kind == "event"]
    seen = _look(events)
    kept = _kept(seen, before, version)
    stay = [row for row in rows if row.kind != "event"]
    gone: list[_Seen] = []
    is_marked = False
    for is_kept, some in groupby(seen, key=lambda one: one.group in kept):
        stretch = list(some)
        if is_kept or all(one.stands_for for one in stretch):
            stay += [one.row for one in stretch]
            is_marked = is_marked or any(one.stands_for for one in stretch)
            continue
        gone += [one for one in stretch if not one.stands_for]
        placeholder = _placeholder(stretch)
        if not is_marked or placeholder.state_delta or _artifacts(placeholder):
            stay.append(placeholder)
            is_marked = True
    if not gone:
        return None
    return Cut(stay, len(gone), sum(nbytes(one.row) for one in gone))


def is_placeholder(row: EventRow) -> bool:
    """Tell whether a row stands for events that were pruned."""
    return row.kind == "event" and _stands_for(event_of(row)) > 0


def nbytes(row: EventRow) -> int:
    """Return how many bytes of JSON a row holds, and of what was moved out of it."""
    moved = sum(payload.size for payload in row.payloads)
    return moved + len((row.event_json or "").encode()) + len((row.state_delta or "").encode())


def _look(events: Sequence[EventRow]) -> list[_Seen]:
    first: dict[str, int] = {}
    seen = []
    for place, row in enumerate(events):
        event = event_of(row)
        invocation = field_of(event, "invocation_id")
        named = isinstance(invocation, str) and invocation
        group = first.setdefault(invocation, place) if named else place
        target = field_of(field_of(event, "actions"), "rewind_before_invocation_id")
        begun = first.get(target) if isinstance(target, str) and target else None
        one = _Seen(
            row,
            group,
            by_user=field_of(event, "author") == "user",
            rewinds_to=begun if begun is not None and begun < place else None,
            stands_for=_stands_for(event),
        )
        _pair(one, event)
        seen.append(one)
    return seen


def _pair(one: _Seen, event: dict[str, Any]) -> None:
    parts = field_of(field_of(event, "content"), "parts")
    for part in parts if isinstance(parts, list) else ():
        for name, ids in (("function_call", one.calls), ("function_response", one.answers)):
            found = field_of(field_of(part, name), "id")
            if isinstance(found, str):
                ids.add(found)
    slow = field_of(event, "long_running_tool_ids")
    one.slow = one.calls.intersection(each for each in slow or () if isinstance(each, str))


def _stands_for(event: dict[str, Any]) -> int:
    found = field_of(field_of(event, "custom_metadata"), PRUNED)
    count = found.get("events") if isinstance(found, dict) else None
    return count if isinstance(count, int) and field_of(event, "author") == AUTHOR else 0


def _kept(seen: Sequence[_Seen], before: int, version: int) -> set[int]:
    """Return the invocations that stay, by the places of their first events."""
    young = {
        one.group for one in seen if one.row.committed_at > before or one.row.version > version
    }
    border = next((place for place, one in enumerate(seen) if one.group in young), len(seen))
    kept = {one.group for one in seen[border:]}
    kept |= _unanswered(seen)
    count = -1
    while len(kept) > count:
        count = len(kept)
        kept |= _other_halves(seen, kept) | _hidden(seen, kept)
    return kept


def _unanswered(seen: Sequence[_Seen]) -> set[int]:
    """Return the invocations with a call that waits for an answer, and was not undone."""
    answered: set[str] = set()
    by_user: set[str] = set()
    for one in seen:
        answered |= one.answers
        by_user |= one.answers if one.by_user else set()
    return {
        one.group for one in _live(seen) if one.calls - one.slow - answered or one.slow - by_user
    }


def _live(seen: Sequence[_Seen]) -> Iterator[_Seen]:
    """Yield the events that no rewind hides, the last first, as ADK's `_apply_rewinds` does."""
    place = len(seen) - 1
    while place >= 0:
        target = seen[place].rewinds_to
        if target is None:
            yield seen[place]
            place -= 1
        else:
            place = target - 1


def _other_halves(seen: Sequence[_Seen], kept: set[int]) -> set[int]:
    """Return the invocations that hold the call of an answer that stays, or its answer."""
    ids: set[str] = set()
    for one in seen:
        if one.group in kept:
            ids |= one.calls | one.answers
    return {one.group for one in seen if ids & (one.calls | one.answers)}


def _hidden(seen: Sequence[_Seen], kept: set[int]) -> set[int]:
    """Return what keeps hidden what a rewind has undone: itself, and where it goes back to."""
    before = [0, *accumulate(one.group in kept for one in seen)]
    found: set[int] = set()
    for place, one in enumerate(seen):
        if one.rewinds_to is not None and before[place] > before[one.rewinds_to]:
            found |= {one.group, seen[one.rewinds_to].group}
    return found


def _placeholder(stretch: Sequence[_Seen]) -> EventRow:
    """Return the event that stands for some that go, under the last one's version."""
    last = stretch[-1].row
    state: dict[str, Any] = {}
    artifacts: dict[str, Any] = {}
    for one in stretch:
        state.update(session_part(one.row))
        artifacts.update(_artifacts(one.row))
    count = sum(one.stands_for or 1 for one in stretch)
    event = {
        "customMetadata": {PRUNED: {"events": count, "version": last.version}},
        "invocationId": "",
        "author": AUTHOR,
        "actions": {
            "stateDelta": state,
            "artifactDelta": artifacts,
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
        },
        "nodeInfo": {"path": ""},
        "id": f"pruned-{last.version}-{last.ordinal}",
        "timestamp": event_time(last),
    }
    delta = to_json(state) if state else None
    return replace(last, stamp=None, state_delta=delta, event_json=to_json(event), payloads=())


def _artifacts(row: EventRow) -> dict[str, Any]:
    """Return the versions of the session's own artifacts that an event sets."""
    found = field_of(field_of(event_of(row), "actions"), "artifact_delta")
    if not isinstance(found, dict):
        return {}
    return {name: each for name, each in found.items() if not name.startswith(USER_PREFIX)}
