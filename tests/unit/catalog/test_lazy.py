"""A view reads no more than a query asks of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakestore.catalog import VIEWS, Catalog
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log

_AGGREGATES = {
    "tokens by model": "select model, sum(total_tokens) from llm_calls group by model",
    "tokens by day": "select event_time::date, sum(prompt_tokens) from llm_calls"
    " where event_time > '2023-01-01' group by all",
    "texts": "select role, count(text) from messages where author <> 'agent' group by role",
    "users": "select user_id, count(*) from messages group by user_id order by 2 desc limit 5",
}
_THIN = {
    **_AGGREGATES,
    "rows": "select role, text from messages where user_id = 'ana'",
    "turns": "select user_text, final_answer, duration_seconds, total_tokens from turns",
    "errors of events": "select error_code, count(*) from errors where source = 'event' group by 1",
    "sessions": "select session_id, turns, total_tokens, tools, errors from sessions",
    "costs": "select model, sum(cost) from costs group by model",
}


@pytest.fixture
def filled(store: MemoryStore, catalog: Catalog) -> Catalog:
    """One session in which something was rewound, and something summarised."""
    log = a_log(store).create({"title": "a trip"}).say("a", "b", model_version="m", error_code="e")
    log.say("r", actions={"rewindBeforeInvocationId": "turn-1"}, invocation_id="turn-2")
    log.say("c", actions={"compaction": {"startTimestamp": 0, "endTimestamp": 1}})
    catalog.refresh()
    return catalog


def scans(catalog: Catalog, query: str) -> Iterator[tuple[set[str], str]]:
    """Yield, of each time that DuckDB will read the events, the columns and the filters."""
    ((_, text),) = catalog.sql(f"explain (format json) {query}").fetchall()
    yield from _scans(json.loads(text))


def _scans(nodes: list[dict[str, Any]]) -> Iterator[tuple[set[str], str]]:
    for node in nodes:
        told = node["extra_info"]
        if '"rows"' in told.get("Table", ""):
            columns = told.get("Projections", [])
            yield {columns} if isinstance(columns, str) else set(columns), str(told.get("Filters"))
        yield from _scans(node["children"])


@pytest.mark.parametrize("query", _THIN.values(), ids=list(_THIN))
def test_thin_columns_open_no_json(filled: Catalog, query: str) -> None:
    """What thin columns answer reads the JSON of rewinds and summaries at most."""
    found = list(scans(filled, query))
    assert found
    for columns, filters in found:
        assert "event_json" not in columns or "is_rewind" in filters or "is_compaction" in filters


@pytest.mark.parametrize("query", _AGGREGATES.values(), ids=list(_AGGREGATES))
def test_aggregates_do_not_look_for_marks(filled: Catalog, query: str) -> None:
    """Sums that do not ask for what was rewound or summarised read the events once."""
    assert len(list(scans(filled, query))) == 1
    asked = query.replace("select", "select any_value(is_rewound),", 1)
    assert len(list(scans(filled, asked))) > 1


def test_lists_of_sessions_read_ids_alone(filled: Catalog) -> None:
    """Times, states and counts of sessions come from what is known of each, not from events."""
    known = "select session_id, last_update_time, events, state ->> 'title' from sessions"
    of_sessions = {"kind", "committed_at", "event_time", "version", "ordinal"}
    read = set[str]().union(*(columns for columns, _ in scans(filled, known)))
    assert read <= {"app_name", "user_id", "session_id"} | of_sessions


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_answers_on_an_empty_lake(catalog: Catalog, view: str) -> None:
    """With nothing in the lake each view is there, empty and typed."""
    catalog.refresh()
    assert catalog.sql(f"from {view}").fetchall() == []
    assert catalog.scan(view, None, None, None).schema.names == list(VIEWS[view].columns)


def test_artifacts_read_events_only_for_what_saved_them(filled: Catalog) -> None:
    """Sizes, times and addresses of artifacts open no event; which event saved one opens some."""
    asked = (
        "select filename, versions, sum(size), any_value(canonical_uri) from artifacts group by all"
    )
    assert list(scans(filled, asked)) == []
    assert list(scans(filled, asked.replace("versions", "event_id", 1)))
