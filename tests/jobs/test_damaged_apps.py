"""Jobs over a lake of which one app is damaged: the others are done, and the key is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakestore import Lake
from lakestore.errors import FormatError
from lakestore.jobs import RetentionPolicy, check, compact, prune_sessions, stats, sweep
from lakestore.log.keys import app_manifests, manifest_key
from tests.support.aging import AgingLake
from tests.support.damage import change, cut, mend

LONG = "b" * 150
"""Of such a name only a digest is in keys."""


def damaged(aging: AgingLake, app_name: str = "b") -> tuple[str, Callable[[], None]]:
    """Fill three apps and damage one; return the key, and what undoes it."""
    for app in ("a", app_name, "c"):
        aging.create("s", app_name=app)
    compact(aging.lake)
    aging.clock.advance(aging.lake.environment.limits.grace + 1)
    sweep(aging.lake)
    newest = aging.lake.sessions.archive.newest(app_manifests(app_name))
    key = manifest_key(app_name, newest.number)
    body = change(aging.store, key, cut)
    return key, lambda: mend(aging.store, key, body)


def fresh(aging: AgingLake) -> list[str]:
    """Return the apps with something to pack."""
    return [each.app_name for each in stats(aging.open()).apps if each.fresh_sessions]


POLICY = RetentionPolicy(sessions_idle_days=30)


@pytest.mark.parametrize(
    ("job", "left"),
    [
        (compact, []),
        (lambda lake: compact(lake, policy=POLICY), []),
        (lambda lake: prune_sessions(lake, idle_days=30), ["a", "c"]),
    ],
    ids=["compact", "policy", "prune"],
)
def test_other_apps_are_done(
    aging: AgingLake, job: Callable[[Lake], object], left: list[str]
) -> None:
    """What is damaged is an error when all else is done, and once mended the app is done too."""
    key, undo = damaged(aging)
    for app in ("a", "c"):
        aging.create("young", app_name=app)
    with pytest.raises(FormatError, match=key):
        job(aging.open())
    assert fresh(aging) == left
    undo()
    job(aging.open())
    assert check(aging.open(read_only=True)).healthy


def test_figures_of_other_apps_are_told(aging: AgingLake) -> None:
    """Of the damaged one it is said that it is, and why."""
    key, undo = damaged(aging)
    found = stats(aging.open(read_only=True)).apps
    assert [app.total.sessions for app in found] == [1, 0, 1]
    assert key in found[1].damaged
    assert not found[0].damaged
    undo()
    assert not any(app.damaged for app in stats(aging.open(read_only=True)).apps)


@pytest.mark.parametrize("app_name", ["b", LONG])
def test_a_check_tells_which_it_is(aging: AgingLake, app_name: str) -> None:
    """Also where nothing tells the app's name any more, and others are checked and compacted."""
    key, _ = damaged(aging, app_name)
    report = check(aging.open(read_only=True))
    (finding,) = [each for each in report.findings if each.severity == "lost"]
    assert finding.key == app_manifests(app_name)
    assert key in finding.problem
    assert report.sessions == 2


def test_a_session_of_another_app_is_found(aging: AgingLake) -> None:
    """Whoever looks for a session by its id alone finds it, or is told where nobody can tell."""
    key, _ = damaged(aging)
    sessions = aging.open(read_only=True).sessions
    assert [found.app_name for found in sessions.find("s")] == ["a", "c"]
    with pytest.raises(FormatError, match=key):
        sessions.find("none such")
