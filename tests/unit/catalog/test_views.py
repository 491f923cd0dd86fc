from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakestore.catalog import VIEWS, Catalog
from lakestore.storage import MemoryStore
from lakestore.tables.events import SCHEMA
from tests.support.lake_builder import COMMITTED_AT, a_log, event_json

EVENTS = (
    "app_name user_id session_id version ordinal event_id invocation_id author branch event_time"
    " committed_at text model_version finish_reason error_code error_message prompt_tokens"
    " output_tokens thought_tokens cached_tokens total_tokens tool_names is_final_response"
    " is_compaction is_rewind state_delta event_json payloads token stamp"
)
SESSIONS = (
    "app_name user_id session_id created_at last_update_time events state version turns"
    " first_activity last_activity user_messages llm_calls prompt_tokens output_tokens"
    " thought_tokens cached_tokens total_tokens tool_calls tools agents errors tool_errors models"
    " artifacts rewinds compactions"
)


def rows(catalog: Catalog, query: str) -> list[Any]:
    """The answer now."""
    catalog.refresh()
    return catalog.sql(query).fetchall()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_columns_it_documents(catalog: Catalog, name: str) -> None:
    """Names, order, types and comments are those of VIEWS, on a lake with nothing in it too."""
    described = rows(catalog, f"select column_name, column_type from (describe {name})")
    assert described == [(column, doc.type) for column, doc in VIEWS[name].columns.items()]
    comments = "select comment from duckdb_columns() where table_name = ? order by column_index"
    found = catalog.sql(comments, [name]).fetchall()
    assert found == [(doc.meaning,) for doc in VIEWS[name].columns.values()]
    said = catalog.sql("select comment from duckdb_views() where view_name = ?", [name])
    assert said.fetchall() == [(VIEWS[name].meaning,)]


def test_the_columns_are_these() -> None:
    """What queries rely on does not change by accident."""
    assert " ".join(VIEWS["events"].columns) == EVENTS
    assert " ".join(VIEWS["sessions"].columns) == SESSIONS


def test_every_column_of_an_event_is_shown() -> None:
    """`events` shows the whole table, but for what only the log itself is about."""
    assert set(SCHEMA.names) - {"kind", "previous"} == set(VIEWS["events"].columns)


def test_only_the_views_are_listed(catalog: Catalog) -> None:
    """SHOW TABLES is the list of views, nothing internal among them."""
    assert rows(catalog, "show tables") == [(name,) for name in sorted(VIEWS)]


def test_an_empty_lake(catalog: Catalog) -> None:
    """Views of a lake with nothing in it are empty and typed."""
    assert rows(catalog, "select count(*), sum(total_tokens) from events") == [(0, None)]
    assert rows(catalog, "select * from sessions") == []
    assert str(catalog.sql("from events").df().dtypes["event_time"]).endswith(", UTC]")
    schema = catalog.scan("events", None, None, None).read_all().schema
    assert schema.field("event_time").type == SCHEMA.field("event_time").type


def test_a_user_whose_only_session_was_deleted(store: MemoryStore, catalog: Catalog) -> None:
    """Nothing is left to show, and that is no error."""
    a_log(store).create().say("a").delete()
    assert rows(catalog, "select * from events where user_id = 'ana'") == []
    assert rows(catalog, "select * from sessions where user_id = 'ana'") == []


def test_an_event_as_columns(store: MemoryStore, catalog: Catalog) -> None:
    """The columns of an event are what its JSON says."""
    fields = {
        "invocation_id": "turn-7",
        "author": "agent",
        "branch": "root.agent",
        "content": {"parts": [{"text": "one"}, {"text": "hm", "thought": True}, {"text": "two"}]},
        "model_version": "model-1",
        "finish_reason": "STOP",
        "usage_metadata": {"prompt_token_count": 5, "total_token_count": 9},
    }
    a_log(store).create().say("a", delta={"k": 1}, at=1_700_000_123.25, **fields)
    (row,) = rows(
        catalog,
        "select version, ordinal, invocation_id, author, branch, epoch_us(event_time),"
        " epoch_us(committed_at), text, model_version, finish_reason, prompt_tokens, total_tokens,"
        " tool_names, is_final_response, is_rewind, state_delta from events",
    )
    assert row == (
        *(2, 0, "turn-7", "agent", "root.agent", 1_700_000_123_250_000),
        *(COMMITTED_AT + 2_000_000, "one\ntwo", "model-1", "STOP", 5, 9),
        *([], True, False, '{"k": 1}'),
    )
    event = json.loads(rows(catalog, "select event_json from events")[0][0])
    assert event == {
        "id": "a",
        "timestamp": 1_700_000_123.25,
        **fields,
        "actions": event["actions"],
    }


def test_a_session_without_events(store: MemoryStore, catalog: Catalog) -> None:
    """It was last updated when it was created."""
    a_log(store).create({"k": "v"})
    query = "select epoch_us(created_at), epoch_us(last_update_time), events, state, version"
    at = COMMITTED_AT + 1_000_000
    assert rows(catalog, f"{query} from sessions") == [(at, at, 0, '{"k":"v"}', 1)]


def test_last_update_is_the_last_events_time(store: MemoryStore, catalog: Catalog) -> None:
    """The last event in commit order counts, also when its time is earlier than another's."""
    a_log(store).create().say("a", at=300.0).say("b", "c", at=100.0).say("d", at=200.0)
    query = "select epoch(last_update_time), events, version from sessions"
    assert rows(catalog, query) == [(200.0, 4, 4)]


def test_state_is_the_last_value_of_each_key(store: MemoryStore, catalog: Catalog) -> None:
    """Deltas fold in commit order, nulls are values, shared and temporary keys are left out."""
    log = a_log(store).create({"a": 1, "b": 1, "app:x": 1, "user:x": 1, "temp:x": 1})
    log.say("one", delta={"a": 2, "c": {"d": [1, None]}, "app:y": 1})
    made = [log.row("event", {"a": value}, None, ordinal=i) for i, value in enumerate([5, 4, 3])]
    log.commit(made)
    log.say("none", delta={"b": None, "user:y": 2})
    assert rows(catalog, "select state from sessions") == [('{"a":3,"b":null,"c":{"d":[1,null]}}',)]


def test_state_as_numbers_and_texts_are(store: MemoryStore, catalog: Catalog) -> None:
    """Big integers, floats, NaN by its name, NUL and odd keys come out as they went in."""
    state = {
        "big": 10**30,
        "negative": -(2**63),
        "float": 0.1 + 0.2,
        "tiny": 5e-324,
        "score": "NaN",
        "nul": "a\x00b",
        "": {"": 2**70},
        'quote"\\': "日本 😀 \u2028",
        "k\x00ey": "it's",
        "app": 1,
        "a.b[0]": True,
    }
    a_log(store).create({"float": 1}).say("a", delta=state)
    ((text,),) = rows(catalog, "select state from sessions")
    assert json.loads(text) == state
    assert str(10**30) in text
    assert rows(catalog, "select state ->> '$.big', state -> '$.app' from sessions") == [
        (str(10**30), "1")
    ]


def test_state_that_duckdb_cannot_read(store: MemoryStore, catalog: Catalog) -> None:
    """A delta that is no JSON to DuckDB is shown in its row, and in states as UTF-8 can hold it."""
    log = a_log(store).create({"k": 1})
    half = replace(log.row("event", {"k": "half"}, event_json("a")), state_delta='{"k":"\\ud83d"}')
    log.commit([half])
    a_log(store, "s2").create({"k": 2})
    assert rows(catalog, "select state from sessions order by session_id") == [
        ('{"k":"\ufffd"}',),
        ('{"k":2}',),
    ]
    assert rows(catalog, "select state_delta from events") == [('{"k":"\\ud83d"}',)]


def test_state_of_many_sessions(store: MemoryStore, catalog: Catalog) -> None:
    """Sessions can be found by what their state says."""
    for number in range(20):
        log = a_log(store, f"s{number}").create({"title": f"trip {number % 3}", "tags": ["a"]})
        log.say("x", delta={"tags": ["a", "b"] if number % 2 else ["a"]})
    query = (
        "select count(*) from sessions where state ->> '$.title' = ?"
        " and json_contains(state -> '$.tags', '\"b\"')"
    )
    catalog.refresh()
    assert catalog.sql(query, ["trip 1"]).fetchall() == [(4,)]
