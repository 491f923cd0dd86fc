"""The views over real histories, against numbers counted in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.jobs import compact
from tests.support.analytics import Told
from tests.support.real_histories import airline_histories, data_folder, exported_sessions
from tests.support.shown_views import check_views

_DATA = data_folder()

pytestmark = pytest.mark.skipif(_DATA is None, reason="no folder with real histories is at hand")


def told(data: Path) -> Iterator[Told]:
    """Yield all real histories."""
    for run, history in enumerate(airline_histories(data)):
        yield Told("airline", f"user {run % 7}", history.name, history.state, history.events)
    for session in exported_sessions(data):
        yield Told(session.app_name, session.user_id, session.id, session.state, session.events)


@pytest.fixture(scope="module")
def histories() -> list[Told]:
    """Return all real histories."""
    assert _DATA is not None
    return list(told(_DATA))


@pytest.fixture(scope="module")
def lake(histories: list[Told], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return a lake that holds them."""
    with Lake.open(tmp_path_factory.mktemp("real") / "lake") as opened:
        service = LakeSessionService(opened).sync
        for each in histories:
            session = service.create_session(**each.ids, state=dict(each.state))
            service.append_events(session, [event.model_copy(deep=True) for event in each.events])
        yield opened


def test_each_view_shows_what_happened(lake: Lake, histories: list[Told]) -> None:
    """Every row and column of every view is what plain Python counts."""
    check_views(lake, histories)


def test_a_known_number(lake: Lake) -> None:
    """Of the airline's 60 runs, the calls by tool are those of the file, each with its answer."""
    assert _DATA is not None
    events = [event for history in airline_histories(_DATA) for event in history.events]
    calls = Counter(call.name for event in events for call in event.get_function_calls())
    query = "select tool_name, count(*) from tool_calls where app_name = 'airline' group by all"
    assert dict(lake.sql(query).fetchall()) == dict(calls)
    assert sum(calls.values()) > 300
    unanswered = "select count(*) from tool_calls where app_name = 'airline' and status = 'pending'"
    assert lake.sql(unanswered).fetchall() == [(0,)]


def test_compaction_changes_nothing(lake: Lake, histories: list[Told]) -> None:
    """Once packed, in part and whole, every view shows the same."""
    compact(lake, app_name="airline")
    check_views(lake, histories)
    compact(lake)
    with Lake.open(lake.url, read_only=True) as elsewhere:
        check_views(elsewhere, histories)
