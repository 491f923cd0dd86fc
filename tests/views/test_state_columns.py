"""Keys of the state as columns of `sessions`."""

from __future__ import annotations

from typing import Any

import pytest

from lakestore import Lake
from lakestore.errors import InputError
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.lake_builder import a_log


def test_keys_are_columns() -> None:
    """Each chosen key is a text, or JSON; sessions without it have null; all the same packed."""
    store = MemoryStore()
    state = {"title": "a trip", "tags": ["a", "b"], "n": 5, "x/y~z": "odd", "it's": None}
    a_log(store).create(state).say("a", delta={"title": "a longer trip"})
    a_log(store, "s2").create({"other": 1})
    keys = ["title", "tags", "n", "x/y~z", "it's"]
    quoted = ", ".join('"' + key + '"' for key in keys)
    query = f"select session_id, {quoted} from sessions order by 1"
    expected = [
        ("s1", "a longer trip", '["a","b"]', "5", "odd", None),
        ("s2", None, None, None, None, None),
    ]
    with Lake(store, state_columns=keys) as lake:
        assert lake.sql(query).fetchall() == expected
        assert lake.connect().sql(query).fetchall() == expected
        assert lake.scan("sessions", ["title"]).read_all().num_rows == 2
        compact(lake)
        assert lake.sql(query).fetchall() == expected
    with Lake(store) as lake, pytest.raises(InputError):
        lake.scan("sessions", ["title"])


def test_many_sessions_are_found_by_tag() -> None:
    """Of five thousand sessions those with a tag and a word are found by one query."""
    store = MemoryStore()
    for number in range(5_000):
        tags = ["vip"] if number % 50 == 0 else ["other"]
        a_log(store, f"s{number}").create({"title": f"trip {number % 7}", "tags": tags})
    with Lake(store, state_columns=["title", "tags"]) as lake:
        compact(lake)
        query = """select count(*) from sessions
                   where title ilike '%TRIP 3%' and json_contains(tags, '"vip"')"""
        assert lake.sql(query).fetchall() == [(14,)]


@pytest.mark.parametrize(
    "keys", ["title", 5, [5], [""], ["state"], ["Turns"], ["a", "A"], ["user:name"], ["app:name"]]
)
def test_what_can_be_no_column(keys: Any) -> None:
    """Other columns' names, shared state and what is no list of keys are refused."""
    with pytest.raises(InputError), Lake(MemoryStore(), state_columns=keys) as lake:
        lake.sql("from sessions")
