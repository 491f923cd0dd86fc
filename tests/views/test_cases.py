"""Faults that users of neighbouring systems met, tried on every view."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types

from lakestore import Lake, LakeArtifactService
from lakestore.catalog import VIEWS
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log
from tests.support.measured import measured, put
from tests.support.rebuilding import entry, memories_of

ODD_IDS = [
    "o'brien",
    "007",
    "7",
    "2024-01-05",
    "NULL",
    "u[1]",
    "u*",
    "a/b",
    "a%2Fb",
    "日本",
    "x'); --",
]


@pytest.fixture
def store() -> MemoryStore:
    """The lake's store."""
    return MemoryStore()


@pytest.fixture
def lake(store: MemoryStore) -> Iterator[Lake]:
    """A lake on it."""
    with Lake(store) as opened:
        yield opened


def call(name: str | None, call_id: str | None, **args: Any) -> dict[str, Any]:
    """Return a part that calls a tool."""
    return {"functionCall": {"name": name, "id": call_id, "args": args}}


def answer(name: str, call_id: str | None, **said: Any) -> dict[str, Any]:
    """Return a part by which a tool answers."""
    return {"functionResponse": {"name": name, "id": call_id, "response": said}}


def content(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return fields of an event with these parts."""
    return {"content": {"parts": list(parts)}, "author": "agent"}


def full(store: MemoryStore, session_id: str = "main", **who: str) -> None:
    """Write a session that has a row in every view."""
    log = a_log(store, session_id, **who).create({"k": 1})
    log.say("q")
    log.say("c", **content(call("find", "1")), model_version="m")
    log.say("r", **content(answer("find", "1", error="broken")))
    log.say("e", author="agent", error_code="429", delta={"k": 2})


@pytest.mark.parametrize("view", VIEWS)
def test_one_session_id_of_many(store: MemoryStore, lake: Lake, view: str) -> None:
    """Sessions of one id under other users and apps, and ids of all kinds, stay apart."""
    for user in ODD_IDS:
        full(store, user_id=user)
    full(store, user_id="7", app_name="it's")
    users = [*(("travel", user) for user in ODD_IDS), ("it's", "7")]
    put(lake, *(measured(user, "main", app_name=app) for app, user in users))
    for app, user in users:
        memories_of(lake).add_memory(app_name=app, user_id=user, memories=[entry("m", id="main")])
        files = LakeArtifactService(lake).sync
        note = types.Part(text="hello")
        files.save_artifact(
            app_name=app, user_id=user, session_id="main", filename="note.txt", artifact=note
        )
    count = f"select app_name, user_id, count(*) from {view} group by all"
    found = {(app, user): number for app, user, number in lake.sql(count).fetchall()}
    assert set(found) == set(users)
    assert len(set(found.values())) == 1
    for user in ODD_IDS:
        mine = lake.sql(f"from {view} where user_id = ? and app_name = 'travel'", [user])
        assert len(mine.fetchall()) == found["travel", user]


def test_parts_without_text(store: MemoryStore, lake: Lake) -> None:
    """Thoughts, calls, images, empty parts and no content at all are no messages."""
    log = a_log(store).create()
    log.say("t", content={"parts": [{"text": "hm", "thought": True}]})
    log.say("i", content={"parts": [{"inlineData": {"data": "aGk=", "mimeType": "image/png"}}]})
    log.say("c", **content(call("find", "1")))
    log.say("n", content=None)
    log.say("e", content={"parts": []})
    log.say("b", content={"parts": [{"text": "a"}, {"text": "b\x00c"}]})
    assert lake.sql("select text from messages").fetchall() == [("a\nb\x00c",)]


def test_missing_fields(store: MemoryStore, lake: Lake) -> None:
    """An event with next to nothing breaks no view; what it lacks is null."""
    log = a_log(store).create()
    log.commit([log.row("event", None, "{}")])
    log.commit([log.row("event", None, '{"actions": {"stateDelta": {}}, "author": "user"}')])
    log.commit([log.row("event", None, '{"errorCode": "500"}')])
    for view in VIEWS:
        lake.sql(f"from {view}").fetchall()
    assert lake.sql("select events, turns, errors from sessions").fetchall() == [(3, 0, 1)]


def test_fields_that_nobody_knows(store: MemoryStore, lake: Lake) -> None:
    """Made-up fields, and known ones of another type, count as missing; names count as aliases."""
    log = a_log(store).create()
    part = {"function_call": {"name": "find", "id": "1", "args": {"a": [1]}, "new": {}}, "also": 1}
    log.say("c", **content(part), long_running_tool_ids=["1"], brand_new={"x": 1})
    named = {"function_response": {"name": "find", "id": "1", "response": {"ok": 1}}}
    log.say("r", content={"parts": [named, 5, None]}, author="user")
    log.say("odd", content={"parts": {"functionCall": 1}}, actions=[1], usage_metadata="none")
    log.say("odder", content="text", long_running_tool_ids=5, timestamp="yesterday")
    query = "select tool_name, arguments, result, is_long_running, status from tool_calls"
    assert lake.sql(query).fetchall() == [("find", '{"a":[1]}', '{"ok":1}', True, "ok")]
    for view in VIEWS:
        lake.sql(f"from {view}").fetchall()


@pytest.mark.parametrize("text", ["{", "[]", '"half \\ud83d"', "[" * 3_000, '{"timestamp": 1e999}'])
def test_json_that_cannot_be_read(store: MemoryStore, lake: Lake, text: str) -> None:
    """An event whose JSON is damaged has no parts, and hides nobody else's."""
    log = a_log(store).create()
    log.commit([log.row("event", {"k": 1}, text)])
    full(store, "s2")
    assert lake.sql("select session_id, tool_name from tool_calls").fetchall() == [("s2", "find")]
    assert lake.sql("select count(*) from errors").fetchall() == [(2,)]
    assert lake.sql("select sum(events) from sessions").fetchall() == [(5,)]


def test_state_that_json_has_no_form_for(store: MemoryStore, lake: Lake) -> None:
    """Big numbers, NaN by its name, NUL and null come out as they went in, before and after."""
    first = {"big": 10**30, "f": 0.1 + 0.2, "nan": "NaN", "nul": "a\x00b", "user:u": 1, "": None}
    a_log(store).create(first).say("a", delta={"big": None, "nul": "c", "app:a": {"x": [1, None]}})
    query = "select scope, key, before, after from state_changes order by version, scope, key"
    rows = [
        (scope, key, before and json.loads(before), json.loads(after))
        for scope, key, before, after in lake.sql(query).fetchall()
    ]
    assert rows == [
        ("session", "", None, None),
        ("session", "big", None, 10**30),
        ("session", "f", None, 0.1 + 0.2),
        ("session", "nan", None, "NaN"),
        ("session", "nul", None, "a\x00b"),
        ("user", "u", None, 1),
        ("app", "a", None, {"x": [1, None]}),
        ("session", "big", 10**30, None),
        ("session", "nul", "a\x00b", "c"),
    ]


def test_days_are_days_of_utc(store: MemoryStore, lake: Lake, monkeypatch: Any) -> None:
    """Messages have the day that UTC has, wherever the machine is, where clocks change too."""
    for number, at in enumerate([1_710_027_000.0, 1_710_030_600.0, 1_711_841_400.0]):
        a_log(store, f"s{number}").create().say("a", at=at)
    monkeypatch.setitem(os.environ, "TZ", "Asia/Kolkata")
    time.tzset()
    try:
        days = lake.sql("select event_time::date::text from messages order by all").fetchall()
        assert days == [("2024-03-09",), ("2024-03-10",), ("2024-03-30",)]
        assert "+00" in lake.sql("select started_at::text from turns limit 1").fetchall()[0][0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_halves_of_microseconds(store: MemoryStore, lake: Lake) -> None:
    """A time between two microseconds is the same one before and after packing."""
    halves = [at for n in range(99) if (at := 1.7e9 + n * 2**-22) * 1e6 % 1 == 0.5]
    assert len(halves) > 9
    for number, at in enumerate(halves):
        a_log(store, f"s{number}").create().say("a", at=at)
    query = "select epoch_us(last_update_time) from sessions order by session_id"
    before = lake.sql(query).fetchall()
    assert sorted(before) == [(round(at * 1e6),) for at in halves]
    compact(lake)
    assert lake.sql(query).fetchall() == before


def test_clocks_that_disagree(store: MemoryStore, lake: Lake) -> None:
    """Order is that of commits; a turn lasts from its earliest to its latest event."""
    a_log(store).create().say("a", at=100.0).say("b", at=98.0, author="agent").say("c", at=101.5)
    assert lake.sql(
        "select string_agg(event_id, '' order by version, ordinal) from messages"
    ).fetchall() == [("abc",)]
    query = "select duration_seconds, user_text from turns"
    assert lake.sql(query).fetchall() == [(3.5, "said\nsaid")]


def test_a_user_across_sessions(store: MemoryStore, lake: Lake) -> None:
    """Questions over all sessions of a user are one query each."""
    for number in range(12):
        log = a_log(store, f"s{number:02}").create()
        log.say(*(f"m{number}-{i}" for i in range(7)), at=1_000.0 + number)
        log.say("c", **content(call("search_orders", "1", order=number), call("other", "2")))
    orders = "select arguments ->> '$.order' from tool_calls where tool_name = 'search_orders'"
    assert sorted(int(order) for (order,) in lake.sql(orders).fetchall()) == list(range(12))
    last = """
        select session_id, event_id from messages where role = 'user' and user_id = 'ana'
        qualify row_number() over (partition by session_id order by version desc, ordinal desc) <= 5
    """
    assert len(lake.sql(last).fetchall()) == 60
    since = "select count(*) from messages where event_time >= make_timestamptz(1010000000)"
    assert lake.sql(since).fetchall() == [(14,)]


def test_a_deleted_session_that_came_again(store: MemoryStore, lake: Lake) -> None:
    """Nothing of a session's earlier life is in any view."""
    full(store)
    log = a_log(store, "main")
    log.version = 5
    log.delete().create().say("new")
    for view in ("llm_calls", "tool_calls", "errors", "state_changes", "costs"):
        assert lake.sql(f"from {view}").fetchall() == [], view
    assert lake.sql("select turns, user_messages from sessions").fetchall() == [(1, 1)]


def test_rewinds_that_undo_rewinds(store: MemoryStore, lake: Lake) -> None:
    """A rewind to before another one's target takes that one back."""

    def to(turn: str) -> dict[str, Any]:
        return {"actions": {"rewindBeforeInvocationId": turn}, "content": None}

    log = a_log(store).create()
    for turn in ("t1", "t2", "t3"):
        log.say(turn, invocation_id=turn)
    log.say("r1", invocation_id="r1", **to("t2"))
    log.say("t4", invocation_id="t4")
    hidden = "select string_agg(event_id, ' ' order by version) from messages where is_rewound"
    assert lake.sql(hidden).fetchall() == [("t2 t3",)]
    log.say("r2", invocation_id="r2", **to("t3"))
    assert lake.sql(hidden).fetchall() == [("t3 t4",)]
    log.say("r3", invocation_id="r3", **to("never was"))
    assert lake.sql(hidden).fetchall() == [("t3 t4",)]
    assert lake.sql("select turn, is_rewound from turns order by turn").fetchall() == [
        (1, False),
        (2, False),
        (3, True),
        (4, True),
    ]
