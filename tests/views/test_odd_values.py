"""The views over any events that ADK can store, against numbers counted in plain Python."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestore import Lake, LakeSessionService
from lakestore.storage import MemoryStore
from tests.support import strategies
from tests.support.analytics import Told
from tests.support.shown_views import check_views
from tests.support.tool_events import conversations


def check(state: dict[str, Any], events: list[Event]) -> None:
    """Assert that the views show these events."""
    with Lake(MemoryStore()) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(app_name="app", user_id="u", session_id="s", state=state)
        if events:
            service.append_events(session, [event.model_copy(deep=True) for event in events])
        check_views(lake, [Told("app", "u", "s", state, events)])


@given(strategies.state_dicts(), st.lists(strategies.events(), max_size=4))
def test_any_events(state: dict[str, Any], events: list[Event]) -> None:
    """Whatever ADK can store: no query fails, and all columns are as told."""
    check(state, events)


@settings(max_examples=settings().max_examples // 2)
@given(conversations())
def test_any_conversation(events: list[Event]) -> None:
    """Calls and answers in any order, ids that come again or are missing, rewinds, summaries."""
    check({}, events)
