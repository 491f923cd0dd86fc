"""JSON by other programs: halves of surrogate pairs, and how states are spelled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from lakestore.jobs import check, compact, prune_events, prune_user_state
from lakestore.log.stamps import stamp_text
from tests.support.aging import APP, USER, AgingLake
from tests.support.lake_builder import a_log, event_json

PLAIN = event_json("e1")
CALL = '[{"functionCall":{"name":"f\\ud800","id":"c\\ud800"}}]'
ODD = {
    "text": (None, PLAIN.replace("said", "\\ud83d")),
    "id": (None, PLAIN.replace("e1", "e\\ud800")),
    "tool": (None, PLAIN.replace('[{"text": "said"}]', CALL)),
    "artifact": (None, PLAIN.replace('"artifact_delta": {', '"artifact_delta": {"f\\ud800": 1')),
    "key": ('{"k\\ud800":"v"}', PLAIN),
    "value": ('{"k":["\\\\ud800 \\ud800\\ud800 \\ud83d\\ude00"]}', PLAIN),
    "user_key": ('{"user:k\\ud800":"v"}', PLAIN),
    "user_value": ('{"user:k":"v\\ud800"}', PLAIN),
    "app_key": ('{"app:k\\ud800":1}', PLAIN),
}


def with_half(aging: AgingLake, case: str) -> AgingLake:
    """Add a session with an event by another program."""
    delta, event = ODD[case]
    log = a_log(aging.store, "odd", user_id=USER, app_name=APP).create({"ok": 1})
    stamp = stamp_text(1, 1, "0" * 16) if delta and ":k" in delta else None
    log.commit([replace(log.row("event", None, event), state_delta=delta, stamp=stamp)])
    log.say("later")
    return aging


def answers(aging: AgingLake) -> list[Any]:
    """Return what readers say of the session, in a new process."""
    lake = aging.open(read_only=True)
    service = aging.service_of(lake)
    session = service.get_session(app_name=APP, user_id=USER, session_id="odd")
    assert session is not None
    events = service.get_user_events(app_name=APP, user_id=USER)
    return [
        dict(session.state),
        [each.model_dump() for each in session.events],
        [each.model_dump() for each in events],
        lake.user_events(APP, USER).drop_columns(["committed_at"]).to_pylist(),
        lake.sql("select * exclude (committed_at) from events order by version").fetchall(),
        lake.sql("select state, state -> '$.ok' from sessions").fetchall(),
    ]


@pytest.mark.parametrize("case", ODD)
def test_half_a_character_is_packed_as_it_was_read(aging: AgingLake, case: str) -> None:
    """All readers show a session with half a surrogate pair, and the same when it is packed."""
    with_half(aging, case)
    check(aging.open(), repair=True)  # the writer put no entries of shared state
    before = answers(aging)
    compact(aging.open())
    assert answers(aging) == before
    assert [len(part) for part in before[1:]] == [2, 2, 2, 2, 1]
    assert check(aging.open()).healthy


@pytest.mark.parametrize("case", ODD)
def test_half_a_character_stops_no_pruning(aging: AgingLake, case: str) -> None:
    """Events and states with half a surrogate pair can be pruned."""
    with_half(aging, case).pass_days(400)
    prune_events(aging.open(), older_than_days=1, now=aging.now)
    prune_user_state(aging.open(), idle_days=1, now=aging.now)
    assert check(aging.open()).healthy
    spoken = [row["version"] for row in answers(aging)[3] if row["text"]]
    assert spoken == ([3] if case == "tool" else [])  # a call without an answer keeps its turn


def test_appending_to_an_id_with_half_a_character(aging: AgingLake) -> None:
    """A session whose last event's id has half a surrogate pair can be appended to."""
    log = a_log(aging.store, "odd", user_id=USER, app_name=APP).create()
    log.commit([log.row("event", None, ODD["id"][1])])
    for text in ("first", "second"):
        session = aging.service_of(aging.open()).get_session(
            app_name=APP, user_id=USER, session_id="odd"
        )
        assert session is not None
        aging.say(session.model_copy(), text)
        compact(aging.open())
    assert len(answers(aging)[1]) == 3


def test_packing_keeps_the_text_of_a_state(aging: AgingLake) -> None:
    """The text of a state in SQL is that of `get_session`, packed, in part packed, or not."""
    session = aging.create(state={"z": {"y": 1, "b": 1e30}, "n": math.nan, "i": 10**30})
    texts = []
    for delta in (
        {"b": 1.0, "z": {"y": 2, "a": "\x1f\u007f/é"}},
        {"a": 1e-7},
        {"b": -0.0, "0": []},
    ):
        aging.say(session, "x", delta=delta)
        query = "select state from sessions"
        before = aging.open(read_only=True).sql(query).fetchall()
        compact(aging.open())
        assert aging.open(read_only=True).sql(query).fetchall() == before
        texts.append(before[0][0])
    assert texts[-1] == (
        '{"z":{"y":2,"a":"\\u001f\x7f/é"},"n":"NaN","i":1000000000000000000000000000000,'
        '"b":-0.0,"a":1e-07,"0":[]}'
    )


def test_packing_under_a_reader_keeps_the_text_of_a_state(aging: AgingLake) -> None:
    """A reader that stays open shows the same text, whatever is packed meanwhile."""
    session = aging.create(state={"z": 1, "a": 1e30})
    reader = aging.open(read_only=True)
    for number in range(3):
        aging.say(session, "x", delta={f"k{9 - number}": 1e-7})
        for is_packed in (False, True):
            if is_packed:
                compact(aging.open())
            fresh = aging.open(read_only=True)
            query = "select state from sessions"
            assert reader.sql(query).fetchall() == fresh.sql(query).fetchall()
    assert reader.sql(query).fetchall() == [('{"z":1,"a":1e+30,"k9":1e-07,"k8":1e-07,"k7":1e-07}',)]
