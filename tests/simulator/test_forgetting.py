"""The checker knows what jobs may take away, what they must, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.checker import check
from tests.simulator.record import Call, Job, Seen
from tests.simulator.test_simulator import KEY, S, appended, call, created, read, shown

DAY = 86_400.0


def timed(made: Call, began: float = 0.0, ended: float | None = None) -> Call:
    """Give a call its times; without an end it takes none."""
    made.times = made.wall = (began, began if ended is None else ended)
    return made


def job(kind: str, began: int, before: float | None = None, **facts: Any) -> Call:
    """Make a job over all of the user's that returned."""
    asked = Job("u", before, **facts)
    return timed(call(kind, began, began + 1, session=None, job=asked), 100.0)


def sent(began: int, event: str, at: float, known: tuple[str, ...] = (), **facts: Any) -> Call:
    """Make an append at some time, in a turn of its own unless it is given."""
    return timed(appended(began, event, known=known, turn=facts.pop("turn", event), **facts), at)


def seen_late(began: int, *events: str, last: str) -> Call:
    """Make a read of a session, of which "" stands for what was pruned."""
    seen = Seen(S, "l", events, last=last, complete=True)
    return timed(call("get", began, began + 1, seen=[seen], born=began), DAY)


def gone(began: int) -> Call:
    """Make a read that finds no session."""
    return timed(read(began, life=None), DAY)


BEGUN = timed(created(), 1.0)
TWO = [BEGUN, sent(3, "a", 10.0), sent(5, "b", 90.0, ("a",))]
RIGHT = {
    "an idle session is pruned": [
        BEGUN,
        sent(3, "a", 10.0),
        job("prune sessions", 5, 50.0),
        gone(7),
    ],
    "old events are pruned": [*TWO, job("prune events", 7, 50.0), seen_late(9, "", "b", last="b")],
    "an erased session": [*TWO, job("erase", 7, status="pending"), gone(9)],
    "an idle key is pruned": [
        *(BEGUN, sent(3, "a", 10.0, writes={KEY: "a"}), job("prune state", 5, 50.0)),
        timed(shown(7, "a", value=None), DAY),
    ],
    "an erased key": [
        *(BEGUN, sent(3, "a", 10.0, writes={KEY: "a"}), job("erase", 5, status="pending")),
        timed(call("user state", 7, 8, session=None, shared={}, scopes=("u",)), DAY),
    ],
}
WRONG = {
    "pruned, and not idle": [*TWO, job("prune sessions", 7, 50.0), gone(9)],
    "young events are pruned": [*TWO, job("prune events", 7, 50.0), seen_late(9, "", "", last="b")],
    "half of a turn is pruned": [
        *(BEGUN, sent(3, "a", 10.0, turn="t"), sent(5, "b", 90.0, ("a",), turn="t")),
        *(job("prune events", 7, 50.0), seen_late(9, "", "b", last="b")),
    ],
    "pruned events are back": [
        *(*TWO, job("prune events", 7, 50.0)),
        *(seen_late(9, "", "b", last="b"), seen_late(11, "a", "b", last="b")),
    ],
    "events were not pruned": [
        *TWO,
        job("prune events", 7, 50.0),
        seen_late(9, "a", "b", last="b"),
    ],
    "hidden, and nobody pruned": [*TWO, job("compact", 7), seen_late(9, "", "b", last="b")],
    "the state is not the last event's": [
        *(*TWO, job("prune events", 7, 50.0), seen_late(9, "", "b", last="a")),
    ],
    "an erased session is shown": [
        *(*TWO, job("erase", 7, status="pending"), seen_late(9, "a", "b", last="b")),
    ],
    "a young key is pruned": [
        *(BEGUN, sent(3, "a", 90.0, writes={KEY: "a"}), job("prune state", 5, 50.0)),
        timed(shown(7, "a", value=None), DAY),
    ],
    "a pruned key is back": [
        *(BEGUN, sent(3, "a", 10.0, writes={KEY: "a"}), job("prune state", 5, 50.0)),
        *(timed(shown(7, "a", value=None), 200.0), timed(shown(9, "a", value="a"), DAY)),
    ],
    "an erased key is shown": [
        *(BEGUN, sent(3, "a", 10.0, writes={KEY: "a"}), job("erase", 5, status="pending")),
        timed(call("user state", 7, 8, session=None, shared={KEY: "a"}, scopes=("u",)), DAY),
    ],
    "a key of the app is erased": [
        *(BEGUN, sent(3, "a", 10.0, writes={("", "app:k"): "a"}), job("erase", 5, status="done")),
        timed(call("user state", 7, 8, session=None, shared={}, scopes=("",)), DAY),
    ],
    "a check finds something": [BEGUN, job("check", 3, found=("lost",))],
    "a job fails without a reason": [BEGUN, call("sweep", 3, 4, outcome="failed", job=Job())],
}


@pytest.mark.parametrize("calls", RIGHT.values(), ids=list(RIGHT))
def test_what_jobs_may_take(calls: list[Call]) -> None:
    """Retention and an erase change what is shown, as they were asked to."""
    assert check(calls, [S]) == []


@pytest.mark.parametrize("calls", WRONG.values(), ids=list(WRONG))
def test_what_jobs_may_not_take(calls: list[Call]) -> None:
    """Each of these breaks a promise of a job."""
    assert check(calls, [S])
